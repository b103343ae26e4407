"""
From nn.LSTM to UnICORNN
========================

You have a PyTorch model with an ``nn.LSTM`` in it, and sequences that are too long for it: it forgets, it is slow, or
memory runs out. This tutorial replaces the layer, and says what changes, how to choose ``dt`` and ``alpha``, and what
to watch. Beside the layer, it needs ``pip install matplotlib``.
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
# Input, output and state have the shapes that you know: (N, b, d) in, (N, b, m) out, and (L, b, m) for each part of
# the state. ``batch_first``, ``bidirectional`` and ``PackedSequence`` mean what they mean in ``nn.LSTM``.

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
#   forgets nothing by itself; to forget the past, begin again from a new state.
# - **Dropout is one mask per sequence**, after each layer, instead of a new one at each step.
# - **You can ask for less.** With ``output="last"`` only the last output is stored, and the gradient recovers the
#   states backwards in time instead of keeping them. Memory then does not depend on N.

last, state = layer(u, output="last")
last.square().mean().backward()
y0, z0 = layer.inverse(u, state)
print("largest |y| after running back to the start:", float(y0.abs().max()))

# %%
# What reaches the first step
# ---------------------------
# An LSTM forgets because its gradient fades on the way back. The profile shows how strongly the last output depends
# on the input of each step, relative to the last one.

long = torch.randn(2000, 4, 3)
plots.profile({"UnICORNN": layer, "LSTM": lstm}, long).draw()

# %%
# A task that needs memory
# ------------------------
# One of two channels has a pulse in the first 20 steps; 480 steps of noise follow; then the network has to say which
# channel it was.


def batch(b=32, N=500):
    """Noise (N, b, 2) with an early pulse, and the channel of the pulse (b,)."""
    u, target = 0.3 * torch.randn(N, b, 2), torch.randint(2, (b,))
    u[torch.randint(20, (b,)), torch.arange(b), target] += 4
    return u, target


def train(recurrent, steps=60, **asked):
    """The loss of every batch."""
    readout = nn.Linear(recurrent.hidden_size, 2)
    optimiser = torch.optim.Adam([*recurrent.parameters(), *readout.parameters()], lr=0.01)
    losses = []
    for _ in range(steps):
        u, target = batch()
        output, _ = recurrent(u, **asked)
        loss = nn.functional.cross_entropy(readout(output if asked else output[-1]), target)
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
# A few dozen batches are enough to see where each is going. They are not a verdict on LSTMs, which had half as many
# batches here; :doc:`the reproduction </reproduction>` has longer runs, with tuned settings.
#
# How to choose dt
# ----------------
# Δt is the scale of all time steps; the layer learns one factor per neuron. It decides two things: how slow a signal
# the layer can follow, and how much gradients grow along the sequence. Undamped oscillators that are driven for long
# are weakly chaotic, so gradients grow with the length. ``suggest_dt`` gives a Δt that keeps the growth small:

for N in (500, 10_000, 100_000, 1_000_000):
    print(f"N = {N:>9,}: dt = {suggest_dt(N):.4f}")

# %%
# If you have data of your own, let it measure: ``suggest_dt(N, input=u)``. To see what a choice does, follow the
# gradient back through one of your sequences. Here Δt is first ten times too large for 20,000 steps, and then right:

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
# α is a spring that pulls every oscillator back to rest. With α = 0 only the tanh does so, and the layer integrates,
# which is good for signals that have to be summed up. With a large α it oscillates quickly and stays small, which is
# good for noisy inputs and for long sequences. The paper's values lie between 0 and 30. Keep a²(α + w) well below 4,
# where a is a neuron's time step; beyond 4 the oscillation is no longer stable.

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
# What to watch
# -------------
# Watch the time steps of the neurons. With ``init="spread"`` they are spread from the start; otherwise training has to
# move them apart.

plots.time_steps(trained).draw()

# %%
# - **The norm of the gradient.** If it grows from epoch to epoch, take a smaller ``dt``, a larger ``alpha``, or
#   ``horizon=H``, which lets the gradient fade over H steps and leaves the output as it is. A gradient that overflows
#   is reported by a warning.
# - **The range of the states.** Beyond 131,072 reversal is no longer exact, and an error says so.
# - **Time and memory.** ``gradient="stored"`` is faster, ``gradient="reversible"`` (the default) needs no memory that
#   grows with N. The gradients are the same, bit for bit:

u = torch.randn(1000, 2, 2)
gradients = []
for way in ("reversible", "stored"):
    torch.manual_seed(0)
    candidate = UnICORNN(2, 16, num_layers=2, gradient=way)
    candidate(u, output="last")[0].square().sum().backward()
    gradients.append(torch.cat([p.grad.flatten() for p in candidate.parameters()]))
print("identical:", bool((gradients[0] == gradients[1]).all()))

# %%
# One step at a time
# ------------------
# A trained layer follows a live signal with ``step``, which is several times as fast as calling an LSTM on sequences
# of length one.

with torch.no_grad():
    whole, _ = trained(u)
    state = None
    for sample in u:
        output, state = trained.step(sample, state)
print("largest difference from the whole sequence:", float((output - whole[-1]).abs().max()))
