"""
A label for every step
======================

Which of two oscillations is present at each step? A bidirectional layer sees both sides of a step, and the readout
"every_step" predicts a class for each; causal predictions need ``bidirectional=False``.
"""

import torch
from torch import nn

from unicornn import UnICORNN
from unicornn.models import Network

torch.manual_seed(0)


def batch(b: int = 16, N: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    """Signals (N, b, 1) that change their frequency at random times, and the label of each step (N, b)."""
    label = (torch.rand(N, b) < 0.03).cumsum(0) % 2
    phase = torch.cumsum(0.25 + 0.2 * label, 0) + 6 * torch.rand(b)
    return (torch.sin(phase) + 0.3 * torch.randn(N, b))[..., None], label


layers = UnICORNN(1, 32, num_layers=2, dt=0.5, init="spread", bidirectional=True)
model = Network(layers, outputs=2, readout="every_step")
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(150):
    u, label = batch()
    loss = nn.functional.cross_entropy(model(u).flatten(0, 1), label.flatten())
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()

u, label = batch(64)
with torch.no_grad():
    right = (model(u).argmax(-1) == label).float()
often = max(label.float().mean(), 1 - label.float().mean())
print(f"right at {right.mean():.0%} of the steps of new signals; the more frequent label alone: {often:.0%}")
