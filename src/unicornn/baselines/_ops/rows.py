"""What the baselines' Numba kernels share: rows of a block, and adjoints that vanish.

The element-wise and the linear kernels are written as ``unicornn._ops.cpu.recurrence`` are. A step works on one flat row
of E = b·m elements; rows are cut into blocks of B elements; blocks are shared out among threads, and nothing crosses a
block. What belongs to a block lies in one array D, at multiples of B, for the vectoriser can tell few arrays apart at
run time; a step that touches too many of them is cut into several loops. A GROUP of blocks goes through time together:
its D stays in the cache, and memory is read in long runs.

The first row of D holds the length of the element's sequence: after it, a neuron rests and shows zero. The last rows
gather the gradients of the parameters over SPAN steps, and hand them on to T, in float64.
"""

from unicornn._ops.cpu.jit import kernel
from unicornn._ops.cpu.sizes import B

SPAN = 256  # steps
GROUP = 16  # blocks


@kernel
def flush(D, T, sums):
    """Hands the gradients of the last steps on to T."""
    first = len(D) - sums * B
    for i in range(sums * B):
        T[i] += D[first + i]
        D[first + i] = 0


@kernel
def absorb(g, D, row, now, e):
    """Adds ∂E/∂(what was shown at this step) to the adjoint of the state."""
    zero = D.dtype.type(0)
    for i in range(e):
        D[row + i] += g[i] if now < D[i] else zero


@kernel
def give(to, D, row, now, e):
    """Shows a row of D."""
    zero = D.dtype.type(0)
    for i in range(e):
        to[i] = D[row + i] if now < D[i] else zero
