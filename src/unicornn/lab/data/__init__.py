"""Data files: located, downloaded and verified, read in their original formats, cached where parsing is slow."""

from unicornn.errors import CorruptData as CorruptData
from unicornn.errors import MissingData as MissingData
from unicornn.lab.data._files import File as File
from unicornn.lab.data._files import Source as Source
