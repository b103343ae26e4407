"""Data files: found, fetched and verified, read from their original formats, cached where reading is slow."""

from unicornn.errors import CorruptData as CorruptData
from unicornn.errors import MissingData as MissingData
from unicornn.lab.data._files import File as File
from unicornn.lab.data._files import Source as Source
