"""Sizes on which the Numba kernels and those who lay out memory for them must agree."""

B = 128
"""Elements that a thread carries through a chunk at a time; small enough for the L1 cache."""

ROWS = 32
"""Sequences that a thread carries through a step of all layers at a time; small enough for the L2 cache."""

PANEL = 128
"""Bytes of a row in a panel of a packed matrix: two vectors."""
