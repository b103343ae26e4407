"""Launches every kernel as ``Recurrence`` does, up to the point where a card is needed. Run by test_triton_code."""

from types import SimpleNamespace

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from unicornn._ops.triton import kernels as gpu_kernels
from unicornn._ops.triton import recurrence as gpu


class WarmUp:
    """A kernel that is bound to its arguments and compiled but not run."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return lambda *args, **options: made.append(self.kernel.warmup(*args, grid=grid, **options))


made = []
no_card = SimpleNamespace(
    get_current_device=lambda: 0,
    get_current_stream=lambda device: 0,
    get_current_target=lambda: GPUTarget("cuda", 90, 32),
    get_active_torch_device=lambda: torch.device("cuda"),
)
driver.set_active(no_card)
gpu._kernels = lambda: SimpleNamespace(advance=WarmUp(gpu_kernels.advance), retreat=WarmUp(gpu_kernels.retreat))
for io, full, K, b, m in ((torch.float32, torch.float32, 1, 1, 1), (torch.float64, torch.float64, 16, 4, 16)):
    w, a = torch.rand(m, dtype=full), torch.rand(m, dtype=torch.float64)
    layer = gpu.Recurrence(w, w, a, 1.0, torch.zeros(2, b, m, dtype=torch.int64))
    x, y, g = (torch.zeros(n, b, m, dtype=io) for n in (K, K + 1, K))
    ends = gpu.Recurrence.running(torch.full((b,), K), b, 0, K)
    for active in (None, ends, ends):  # twice: the second launch must reuse the compiled kernel
        layer.advance(x, y[1:], active)
        layer.retreat(x, y, active)
        layer.start_adjoint(torch.zeros(b, m), torch.zeros(b, m), 9.0)
        for recovered in (True, False):
            layer.adjoint(x, y, g, active, recovered)
assert all(kernel.asm["cubin"] for kernel in made)
print(len(made), "launches")
