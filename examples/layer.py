"""
The layer in a plain PyTorch loop
=================================

Which of two signals comes first?
"""

import torch
from torch import nn

from unicornn import UnICORNN


def signals(b: int, N: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise (N, b, 2) with a pulse in each channel; the class is the channel of the first."""
    u = 0.1 * torch.randn(N, b, 2)
    first = torch.randint(2, (b,))
    early, late = torch.randint(10, 80, (b,)), torch.randint(120, 190, (b,))
    u[early, torch.arange(b), first] += 3
    u[late, torch.arange(b), 1 - first] += 3
    return u, first


torch.manual_seed(0)
layer = UnICORNN(input_size=2, hidden_size=32, num_layers=2, dt=0.2, init="spread")
readout = nn.Linear(32, 2)
optimiser = torch.optim.Adam([*layer.parameters(), *readout.parameters()], lr=0.01)

for step in range(150):
    u, target = signals(64)
    output, _ = layer(u, output="last")
    loss = nn.functional.cross_entropy(readout(output), target)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 30 == 0:
        print(f"step {step}: loss {loss.item():.3f}")

with torch.no_grad():
    u, target = signals(500)
    right = readout(layer(u, output="last")[0]).argmax(1) == target
print(f"accuracy on new signals: {right.float().mean():.2f}")
