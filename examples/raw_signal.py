"""
Sounds from their raw waveform
==============================

A call is two short tones, the higher one first or second, somewhere in 8,000 samples of noise. Oscillators turn each
frame of 256 samples into energies; a second network reads the frames.
"""

import math

import torch

from unicornn import UnICORNN
from unicornn.frames import Frames, oscillators
from unicornn.models import Classifier

torch.manual_seed(0)


def calls(count: int, steps: int = 8_000) -> tuple[torch.Tensor, torch.Tensor]:
    """Waveforms (N, b, 1), and whether the higher tone comes second (b,)."""
    rising, time = torch.randint(2, (count,)), torch.arange(steps)[:, None]
    begin, low = torch.randint(steps - 2_000, (count,)), 0.1 * torch.exp(0.7 * torch.rand(count))
    second = time >= begin + 1_000
    tone = torch.sin(torch.where(second == rising.bool(), 1.5 * low, low) * time)
    call = torch.where((time >= begin) & (time < begin + 2_000), tone, 0.0)
    return (call + 0.5 * torch.randn(steps, count))[:, :, None], rising


frames = Frames(oscillators(1, 32, 256), 256, hop=256)
network = Classifier(UnICORNN(32, 32, 2, dt=0.5, init="spread"), 2, frames=frames, readout="mean+max+state")
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
BATCHES = 60
for _ in range(BATCHES):
    u, target = calls(32)
    loss = torch.nn.functional.cross_entropy(network(u), target)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()

network.eval()
with torch.no_grad():
    u, target = calls(200)
    print(f"accuracy after {BATCHES} batches: {(network(u).argmax(1) == target).float().mean():.2f}")
    hertz = 2 * torch.asin(frames.layers[0].time_steps()[0] / 2) * 8_000 / (2 * math.pi)
    print(
        f"{len(u):,} samples are {len(frames(u)[0])} frames; oscillators from {hertz.min():.0f} to {hertz.max():.0f} Hz"
    )
