"""Data files: located, downloaded and verified, read in their original formats, cached where parsing is slow."""

from unicornn.lab.data._files import File as File
from unicornn.lab.data._files import Source as Source
