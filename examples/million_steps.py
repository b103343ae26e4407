"""
A million steps
===============

Forward pass, gradient, and exact inversion back to the start, in memory that does not grow with the length.
"""

import sys
import time

import torch

from unicornn import UnICORNN

torch.manual_seed(0)
N = 1_000_000
layer = UnICORNN(input_size=1, hidden_size=16, dt=0.1 * (1e4 / N) ** (2 / 3))  # keeps gradients from growing with N
u = torch.randn(N, 1, 1)

start = time.perf_counter()
output, state = layer(u, output="last")
output.square().sum().backward()
print(f"forward and backward: {time.perf_counter() - start:.1f} s")
print(f"largest gradient of a weight: {max(float(p.grad.abs().max()) for p in layer.parameters()):.3g}")

with torch.no_grad():
    y, z = layer.inverse(u, state)
print(f"back at the start: y = {y.abs().max():g}, z = {z.abs().max():g}")

try:
    import resource
except ImportError:  # on Windows
    pass
else:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)  # bytes
    print(f"memory at the peak: {most / 1e6:.0f} MB")
