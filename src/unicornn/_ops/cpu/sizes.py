"""Block sizes and row offsets shared by the Numba kernels and the code that lays out memory for them."""

B = 128
"""Elements that a thread carries through a chunk at a time; few enough for the L1 cache."""

ROWS = 32
"""Sequences that a thread carries through a step of all layers at a time; few enough for the L2 cache."""

PANEL = 128
"""Bytes of a row in a panel of a packed matrix: two vectors."""


def blocks(elements: int) -> int:
    """Number of blocks of B elements."""
    return -(-elements // B)
