"""Live sequences: a model's answers for thousands of sequences, updated as their samples arrive."""

from unicornn.streams._stream import Stream as Stream

__all__ = ["Stream"]
