"""Data files: found, fetched and verified, read from their original formats, cached where reading is slow."""

from unicornn.data.files import CorruptData as CorruptData
from unicornn.data.files import File as File
from unicornn.data.files import MissingData as MissingData
from unicornn.data.files import Source as Source
