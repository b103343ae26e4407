"""The size of a block, which the Numba kernels and those who lay out memory for them must agree on."""

B = 128
"""Elements that a thread carries through a chunk at a time; small enough for the L1 cache."""
