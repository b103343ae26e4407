"""The errors raised by this package, with one base class.

Most are also built-in errors, so that ``except ValueError`` catches an invalid value as usual.

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
    """Base class of all errors raised by this package."""


class BadValue(UnicornnError, ValueError):
    """An argument has the right type and an invalid value."""


class BadType(UnicornnError, TypeError):
    """An argument has the wrong type."""


class OutOfRange(UnicornnError, OverflowError):
    """A state left the range in which reversal in time is exact.

    Attributes:
        answers: Answers of ``Stream.push`` to the sequences that stayed in the range.
    """

    answers: Any = None


class StreamFull(UnicornnError):
    """A stream cannot take another sequence."""


class MissingData(UnicornnError):
    """A data file is missing; the message tells how to obtain it."""


class CorruptData(UnicornnError):
    """A data file is damaged or not the expected one."""


class BadCheckpoint(BadValue):
    """A checkpoint cannot be used: it is truncated, or belongs to another program or run."""


class Diverged(UnicornnError, FloatingPointError):
    """A loss or a gradient is no longer finite."""


class ExportFailed(UnicornnError):
    """The exported file does not reproduce the network's outputs, so it was deleted."""
