"""Live sequences: thousands of them that come and go, each carried on by the samples that have just arrived."""

from unicornn.streams._stream import Stream as Stream

__all__ = ["Stream"]
