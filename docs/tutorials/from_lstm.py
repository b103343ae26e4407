"""
From nn.LSTM to UnICORNN
========================

You have a PyTorch model with an ``nn.LSTM``, and sequences that are too long for it: it
forgets, it is slow, or memory runs out. This tutorial replaces the layer and explains
what changes, which head works, how to choose ``dt`` and ``alpha``, and what to monitor.
In addition to the layer, it needs ``pip install matplotlib``.
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
# Shapes are those of ``nn.LSTM``: input (N, b, d), output (N, b, m), and (L, b, m) for
# each part of the state. ``batch_first``, ``bidirectional`` and ``PackedSequence`` work
# in the same way.

u = torch.randn(500, 8, 3)  # (N, b, d)
lstm = nn.LSTM(3, 64, num_layers=2)
layer = UnICORNN(3, 64, num_layers=2, dt=0.1, alpha=1.0)

for module in (lstm, layer):
    output, state = module(u)
    print(
        type(module).__name__,
        tuple(output.shape),
        [tuple(part.shape) for part in state],
    )

# %%
# Three things are different:
#
# - **There are no gates.** Each neuron is an oscillator with a position y and a
#   velocity z, driven by the input. It does not forget; to discard the past, start from
#   a new state.
# - **Dropout uses one mask per sequence**, after each layer, instead of a new one at
#   each step.
# - **Outputs are optional.** With ``output="last"`` only the last output is stored, and
#   the backward pass recomputes the states backwards in time. Memory then does not
#   depend on N.

last, state = layer(u, output="last")
last.square().mean().backward()
y0, z0 = layer.inverse(u, state)
print("largest |y| after running back to the start:", float(y0.abs().max()))

# %%
# What reaches the first step
# ---------------------------
# An LSTM forgets because its gradient vanishes on the way back. The profile shows how
# strongly the last output depends on the input of each step, relative to the last step.

long = torch.randn(2000, 4, 3)
plots.profile({"UnICORNN": layer, "LSTM": lstm}, long).draw()

# %%
# A task that needs memory
# ------------------------
# Two channels of noise. The first carries a bit at the start of the sequence, the
# second one in the middle, each as a pulse of ten steps. At the end, after 5,000 steps,
# the network has to tell whether the two bits differ.

N = 5000


def batch(b=32):
    """Noise with two pulses (N, b, 2), and whether their signs differ (b,)."""
    u, bits = 0.3 * torch.randn(N, b, 2), torch.randint(2, (2, b))
    u[:10, :, 0] += 2.0 * bits[0] - 1
    u[N // 2 : N // 2 + 10, :, 1] += 2.0 * bits[1] - 1
    return u, bits[0] ^ bits[1]


# %%
# The time step comes first. Δt is the scale of all time steps; the layer learns one
# factor per neuron. It determines how slow a signal the layer can follow, and how much
# gradients grow along the sequence: oscillators that are driven for long are weakly
# chaotic. ``suggest_dt`` returns a Δt that keeps the growth small, from the length or,
# with ``input=``, from a batch of your data:

dt = suggest_dt(N)
print(f"N = {N:>9,}: dt = {dt:.4f}")
for steps in (500, 100_000, 1_000_000):
    print(f"N = {steps:>9,}: dt = {suggest_dt(steps):.4f}")

# %%
# A head that works
# -----------------
# After an ``nn.LSTM``, a linear map of the last output is common. An oscillator's last
# output is a phase, so more is needed here:
#
# - **Time scales that are spread from the start:** ``init="spread"``. With the paper's
#   initialisation, the default, all neurons start with nearly the same time step.
# - **The final state of all layers**, y and z, instead of the last output: from
#   position and velocity, a linear map can undo any phase.
# - **BatchNorm in front of the head**: the energies of oscillators grow with the
#   length, and differ between neurons.
# - **A small MLP** where the answer is not a linear function of what was remembered.
#   XOR isn't.


class Network(nn.Module):
    """Recurrent layers, and a head that reads their final state (b, 2·L·m)."""

    def __init__(self, rnn, hidden):
        super().__init__()
        size = 2 * rnn.num_layers * rnn.hidden_size
        head = [nn.Linear(size, hidden), nn.ReLU()] if hidden else []
        last = nn.Linear(hidden or size, 2)
        self.rnn, self.head = rnn, nn.Sequential(nn.BatchNorm1d(size), *head, last)

    def forward(self, u):
        _, (y, z) = self.rnn(u, output="last")
        return self.head(torch.cat([*y, *z], dim=1))


class LastOutput(nn.Module):
    """The usual head: a linear map of the last output."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn, self.head = rnn, nn.Linear(rnn.hidden_size, 2)

    def forward(self, u):
        return self.head(self.rnn(u, output="last")[0])


def train(network, batches=100):
    """The accuracy in each batch."""
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    accuracies = []
    for _ in range(batches):
        u, target = batch()
        output = network(u)
        loss = nn.functional.cross_entropy(output, target)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        accuracies.append(float((output.argmax(1) == target).float().mean()))
    return accuracies


def layers():
    torch.manual_seed(0)
    return UnICORNN(2, 32, num_layers=2, dt=dt, init="spread")


networks = {
    "last output, linear": LastOutput(layers()),
    "final state, BatchNorm, linear": Network(layers(), hidden=0),
    "final state, BatchNorm, MLP": Network(layers(), hidden=32),
}
for name, network in networks.items():
    accuracies = torch.tensor(train(network))
    smooth = accuracies.unfold(0, 10, 1).mean(1)
    plt.plot(100 * smooth, label=name)
    print(f"{name}: {accuracies[-20:].mean():.0%} in the last 20 batches")
plt.axhline(50, color="grey", linestyle=":", label="guessing")
plt.xlabel("batch")
plt.ylabel("accuracy (%), mean of ten batches")
plt.legend()
plt.show()

# %%
# ``unicornn.models`` has such networks ready-made, with ``readout="state"``. :doc:`Very
# long sequences </long>` compares the layer with LSTM, LEM, LRU and others on up to a
# million steps.
#
# When dt is too large
# --------------------
# To see the effect of a choice, follow the gradient back through one of your sequences.
# Here Δt is first ten times too large for 20,000 steps, then as suggested:

u = torch.randn(20_000, 1, 2)
torch.manual_seed(1)
too_large, right = (
    UnICORNN(2, 32, num_layers=2, dt=dt) for dt in (0.5, suggest_dt(20_000))
)
for candidate in (too_large, right):
    growth = theory.gradient_growth(candidate, u)
    print(f"grows by e^{growth.growth:.1f}, overflows at N = {growth.overflow:,.0f}")
plots.growth(too_large, u).draw()

# %%

plots.growth(right, u).draw()

# %%
# How to choose alpha
# -------------------
# α is the stiffness of a spring that pulls every oscillator back to rest. With α = 0
# only the tanh does so, and the layer integrates its input, which suits signals that
# have to be summed. With a large α, oscillations are fast and small, which suits noisy
# inputs and long sequences. The paper's values are between 0 and 30. Keep a²(α + w)
# well below 4, where a is a neuron's time step; beyond 4 the oscillation is unstable.

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
# The time steps of the neurons: with ``init="spread"`` they are spread from the start;
# otherwise training has to move them apart.

trained = networks["final state, BatchNorm, MLP"].rnn
plots.time_steps(trained).draw()

# %%
# - **Gradient norm.** If it grows from epoch to epoch, use a smaller ``dt``, a larger
#   ``alpha``, or ``horizon=H``, which makes the gradient decay over H steps and does
#   not change the output. A gradient that overflows raises a warning.
# - **Range of the states.** Beyond 131,072 reversal is no longer exact, which raises an
#   error.
# - **Time and memory.** ``gradient="stored"`` is faster; with ``gradient="reversible"``
#   (the default) memory does not grow with N. The gradients are identical, bit for bit:

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
# A trained layer processes a live signal with ``step``, several times faster than an
# LSTM called on sequences of length one.

with torch.no_grad():
    whole, _ = trained(u)
    state = None
    for sample in u:
        output, state = trained.step(sample, state)
print(
    "largest difference from the whole sequence:",
    float((output - whole[-1]).abs().max()),
)
