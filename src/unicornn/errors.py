"""The errors that this package raises on purpose, with one base class.

Each is also a built-in error of its kind, so that ``except ValueError`` catches a bad value as everywhere in Python.

Example:
    >>> import unicornn
    >>> from unicornn.errors import UnicornnError
    >>> try:
    ...     unicornn.UnICORNN(3, 0)
    ... except UnicornnError as error:
    ...     print(error)
    hidden_size: expected an integer >= 1, got 0
"""

from typing import Any


class UnicornnError(Exception):
    """The base of all errors that this package raises on purpose."""


class BadValue(UnicornnError, ValueError):
    """An argument of the right kind with a value that cannot be used."""


class BadType(UnicornnError, TypeError):
    """An argument of the wrong kind."""


class OutOfRange(UnicornnError, OverflowError):
    """A state left the range in which reversal in time is exact.

    answers: of ``Stream.push``, those to the sequences that stayed within it.
    """

    answers: Any = None


class StreamFull(UnicornnError):
    """A stream that has no room for another sequence."""


class MissingData(UnicornnError):
    """A data file that is not there, and what to do about it."""


class CorruptData(UnicornnError):
    """A data file that is not what it should be, and why."""


class BadCheckpoint(BadValue):
    """A checkpoint that cannot be used: truncated, or another program's, or another run's."""


class Diverged(UnicornnError, FloatingPointError):
    """A loss or a gradient that is not a finite number any more."""


class ExportFailed(UnicornnError):
    """The file does not give what the network gives, so it was not kept."""
