"""
From nn.LSTM to UnICORNN
========================

You have a PyTorch model with an ``nn.LSTM``, and sequences that are too long for it: it forgets, it is slow, or memory
runs out. This tutorial replaces the layer and explains what changes, how to choose ``dt`` and ``alpha``, and what to
monitor. In addition to the layer, it needs ``pip install matplotlib``.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from unicornn import UnICORNN, suggest_dt, theory
from unicornn.theory import plots

torch.manual_seed(0)

# %%
# The swap
# --------
# Shapes are those of ``nn.LSTM``: input (N, b, d), output (N, b, m), and (L, b, m) for each part of the state.
# ``batch_first``, ``bidirectional`` and ``PackedSequence`` work in the same way.

u = torch.randn(500, 8, 3)  # (N, b, d)
lstm = nn.LSTM(3, 64, num_layers=2)
layer = UnICORNN(3, 64, num_layers=2, dt=0.1, alpha=1.0)

for module in (lstm, layer):
    output, state = module(u)
    print(type(module).__name__, tuple(output.shape), [tuple(part.shape) for part in state])

# %%
# Three things are different:
#
# - **There are no gates.** Each neuron is an oscillator with a position y and a velocity z, driven by the input. It
#   does not forget; to discard the past, start from a new state.
# - **Dropout uses one mask per sequence**, after each layer, instead of a new one at each step.
# - **Outputs are optional.** With ``output="last"`` only the last output is stored, and the backward pass recomputes
#   the states backwards in time. Memory then does not depend on N.

last, state = layer(u, output="last")
last.square().mean().backward()
y0, z0 = layer.inverse(u, state)
print("largest |y| after running back to the start:", float(y0.abs().max()))

# %%
# What reaches the first step
# ---------------------------
# An LSTM forgets because its gradient vanishes on the way back. The profile shows how strongly the last output depends
# on the input of each step, relative to the last step.

long = torch.randn(2000, 4, 3)
plots.profile({"UnICORNN": layer, "LSTM": lstm}, long).draw()

# %%
# A task that needs memory
# ------------------------
# One of two channels has a pulse in the first 20 steps. After 480 steps of noise, the network has to tell which channel
# it was.


def batch(b=32, N=500):
    """Noise (N, b, 2) with an early pulse, and the channel of the pulse (b,)."""
    u, target = 0.3 * torch.randn(N, b, 2), torch.randint(2, (b,))
    u[torch.randint(20, (b,)), torch.arange(b), target] += 4
    return u, target


def train(recurrent, steps=60, **options):
    """The loss of every batch."""
    readout = nn.Linear(recurrent.hidden_size, 2)
    optimiser = torch.optim.Adam([*recurrent.parameters(), *readout.parameters()], lr=0.01)
    losses = []
    for _ in range(steps):
        u, target = batch()
        output, _ = recurrent(u, **options)
        loss = nn.functional.cross_entropy(readout(output if options else output[-1]), target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


trained = UnICORNN(2, 32, num_layers=2, dt=0.05, init="spread")
curves = {"UnICORNN": train(trained, output="last"), "LSTM": train(nn.LSTM(2, 32, num_layers=2), steps=30)}
for name, losses in curves.items():
    plt.plot(losses, label=name)
plt.axhline(0.693, color="grey", linestyle=":", label="guessing")
plt.xlabel("batch")
plt.ylabel("cross-entropy")
plt.legend()
plt.show()

# %%
# A few dozen batches show the trend. They are not a verdict on LSTMs, which had half as many batches here;
# :doc:`the reproduction </reproduction>` has longer runs with tuned settings.
#
# How to choose dt
# ----------------
# Δt is the scale of all time steps; the layer learns one factor per neuron. It determines how slow a signal the layer
# can follow, and how much gradients grow along the sequence: oscillators that are driven for long are weakly chaotic,
# so gradients grow with the length. ``suggest_dt`` returns a Δt that keeps the growth small:

for N in (500, 10_000, 100_000, 1_000_000):
    print(f"N = {N:>9,}: dt = {suggest_dt(N):.4f}")

# %%
# With your own data, ``suggest_dt(N, input=u)`` measures the growth. To see the effect of a choice, follow the gradient
# back through one of your sequences. Here Δt is first ten times too large for 20,000 steps, then as suggested:

u = torch.randn(20_000, 1, 2)
torch.manual_seed(1)
too_large, right = (UnICORNN(2, 32, num_layers=2, dt=dt) for dt in (0.5, suggest_dt(20_000)))
for candidate in (too_large, right):
    growth = theory.gradient_growth(candidate, u)
    print(f"the gradient grows by e^{growth.growth:.1f}, and would overflow at N = {growth.overflow:,.0f}")
plots.growth(too_large, u).draw()

# %%

plots.growth(right, u).draw()

# %%
# How to choose alpha
# -------------------
# α is the stiffness of a spring that pulls every oscillator back to rest. With α = 0 only the tanh does so, and the
# layer integrates its input, which suits signals that have to be summed. With a large α, oscillations are fast and
# small, which suits noisy inputs and long sequences. The paper's values are between 0 and 30. Keep a²(α + w) well below
# 4, where a is a neuron's time step; beyond 4 the oscillation is unstable.

u = torch.randn(2000, 1, 2)
for alpha in (0.0, 1.0, 10.0):
    torch.manual_seed(1)
    y = UnICORNN(2, 4, dt=0.1, alpha=alpha)(u)[0].detach()
    plt.plot(y[:, 0, 0], label=f"alpha = {alpha:g}")
plt.xlabel("step")
plt.ylabel("y of one neuron, driven by noise")
plt.legend()
plt.show()

# %%
# What to monitor
# ---------------
# The time steps of the neurons: with ``init="spread"`` they are spread from the start; otherwise training has to move
# them apart.

plots.time_steps(trained).draw()

# %%
# - **Gradient norm.** If it grows from epoch to epoch, use a smaller ``dt``, a larger ``alpha``, or ``horizon=H``,
#   which makes the gradient decay over H steps and does not change the output. A gradient that overflows raises a
#   warning.
# - **Range of the states.** Beyond 131,072 reversal is no longer exact, which raises an error.
# - **Time and memory.** ``gradient="stored"`` is faster; with ``gradient="reversible"`` (the default) memory does not
#   grow with N. The gradients are identical, bit for bit:

u = torch.randn(1000, 2, 2)
gradients = []
for gradient in ("reversible", "stored"):
    torch.manual_seed(0)
    candidate = UnICORNN(2, 16, num_layers=2, gradient=gradient)
    candidate(u, output="last")[0].square().sum().backward()
    gradients.append(torch.cat([p.grad.flatten() for p in candidate.parameters()]))
print("identical:", bool((gradients[0] == gradients[1]).all()))

# %%
# One step at a time
# ------------------
# A trained layer processes a live signal with ``step``, several times faster than an LSTM called on sequences of length
# one.

with torch.no_grad():
    whole, _ = trained(u)
    state = None
    for sample in u:
        output, state = trained.step(sample, state)
print("largest difference from the whole sequence:", float((output - whole[-1]).abs().max()))
