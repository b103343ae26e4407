"""Errors about run folders, which only the lab raises; all others are in ``unicornn.errors``."""

from unicornn.errors import BadValue, UnicornnError


class NotARun(BadValue):
    """The folder is not a run folder, or one of its files cannot be read."""


class RunExists(BadValue):
    """The folder already contains a run."""


class InUse(UnicornnError):
    """Another process is using the folder."""


class Stopped(UnicornnError):
    """Training was asked to stop. It can be resumed."""
