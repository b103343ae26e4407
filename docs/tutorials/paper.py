"""
From the paper's equation to a trained network
==============================================

Run the paper by Rusch and Mishra, *UnICORNN: A recurrent model for learning very long
time dependencies* (ICML 2021): each section states an equation or a proposition and
evaluates it for a layer. Equations have the numbers of the PDF. You need ``pip install
'.[train]'``.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

from unicornn import UnICORNN, theory
from unicornn.theory import plots

torch.manual_seed(0)

# %%
# The differential equation
# -------------------------
# Eq. (1) is a network of oscillators, one equation per neuron:
#
# .. math:: y'' = -\left[\tanh(w \odot y + V u + b) + \alpha y\right]
#
# There is no damping, and neurons are independent: w is a vector. With the velocity z
# as a second variable it becomes a first-order system, Eq. (2). Symplectic Euler with
# an effective time step :math:`a = \Delta t\, \hat\sigma(c)` per neuron turns it into
# the layer, Eq. (6):
#
# .. math::
#    z_n &= z_{n-1} - a \odot
#    \left[\tanh(w \odot y_{n-1} + V u_n + b) + \alpha y_{n-1}\right] \\
#    y_n &= y_{n-1} + a \odot z_n
#
# These are two lines of Python, and the layer computes the same:

layer = UnICORNN(2, 16, dt=0.2, alpha=1.0)
u = torch.randn(400, 1, 2)
a, w, V, b = layer.time_steps()[0], layer.w[0], layer.V[0], layer.b[0]
with torch.no_grad():
    y = z = torch.zeros(1, 16)
    for u_n in u:
        z = z - a * (torch.tanh(w * y + u_n @ V.T + b) + layer.alpha * y)
        y = y + a * z
    _, state = layer(u)
print("largest difference:", float((y - state.y[0]).abs().max()))

# %%
# Four oscillators driven by noise:

plt.plot(layer(u)[0][:, 0, :4].detach())
plt.xlabel("step n")
plt.ylabel("y of four neurons")
plt.show()

# %%
# The Hamiltonian
# ---------------
# Without input, or with a constant one, the system conserves an energy, Eq. (4):
#
# .. math::
#    H(y, z) = \frac{1}{2} z^2 + \frac{\alpha}{2} y^2
#    + \frac{1}{w} \log(\cosh(w y + V u + b))
#
# Symplectic Euler conserves a quantity close to H, so H stays within a band. Explicit
# Euler drifts away:

constant = torch.ones(3000, 1, 2)
plots.energy(layer, constant).draw()

# %%
# Back in time
# ------------
# Each half of a step adds to one variable a function of the other, so it can be
# inverted: Eq. (7). In floating-point arithmetic the inverse is exact up to rounding,
# which grows with the length. The layer rounds every increment to a grid before adding
# it, and its inverse is exact at any length:

_, end = layer(u)
start = layer.inverse(u, end)
print("recovered start:", float(start.y.abs().max()), float(start.z.abs().max()))
for N in (250, 1000, 4000):
    errors = theory.reconstruction_error(UnICORNN(2, 16, dt=0.2), torch.randn(N, 1, 2))
    plain, exact = float(errors.plain.max()), float(errors.exact.max())
    print(f"N = {N}: error {plain:.1e} in plain float32, {exact:.0f} on the grid")

# %%
# Volume
# ------
# The Jacobian of a step, Suppl. Eq. (21), has determinant one for all weights and
# inputs, so no direction of phase space can shrink unless another grows.

determinants = torch.linalg.det(theory.jacobian(layer, u).double())
print(
    "largest deviation of a determinant from 1:", float((determinants - 1).abs().max())
)

# %%
# Proposition C.1: states are bounded
# -----------------------------------
# Starting from zero, Suppl. Eq. (7) bounds the hidden states by a constant times √t.
# Its proof holds for a time of order 1/β; ``bounds`` computes the last step it covers.

short = UnICORNN(2, 16, dt=0.002)
reach = theory.bounds(short, 1).steps
print("steps covered by the proof:", reach)
plots.bounds(short, torch.randn(min(reach, 400), 1, 2)).draw()

# %%
# Proposition 3.1: gradients do not explode
# -----------------------------------------
# Eq. (12) bounds the gradient of the loss by a polynomial in time, for one layer and a
# time of order 1/γ. Compare it with the gradient of a loss on random targets:

N = min(reach, 200)
u, target = torch.randn(N, 1, 2), torch.randn(N, 1, 16)
loss = (short(u)[0] - target).square().sum() / 2 / N
largest = max(
    float(g.abs().max()) for g in torch.autograd.grad(loss, list(short.parameters()))
)
limits = theory.bounds(short, N, float(target.abs().max()))
print(f"largest gradient: {largest:.3g}; Eq. (12): {limits.gradient:.3g}")
print(f"bound at any length: {limits.gradient_always:.3g}")

# %%
# Over long sequences gradients do grow exponentially, but slowly. :doc:`The page on the
# theory </theory>` derives the rate, and ``suggest_dt`` returns a time step that keeps
# the growth small. For the lengths and time steps of the paper's experiments it is
# modest.
#
# Proposition 3.2: gradients do not vanish
# ----------------------------------------
# Eq. (14) is the contribution of step k to the gradient at step n. It has no factor
# that vanishes as n - k grows:

plots.contributions(
    UnICORNN(2, 8, dt=0.05, dtype=torch.float64),
    torch.randn(150, 1, 2, dtype=torch.float64),
).draw()

# %%
# Compared with the gradient of an LSTM:

plots.profile(
    {"UnICORNN": UnICORNN(2, 16, 2), "LSTM": nn.LSTM(2, 16, 2)}, torch.randn(2000, 2, 2)
).draw()

# %%
# Proposition C.4: several layers
# -------------------------------
# With L layers the leading term of a contribution is of order Δt to the power 2L - 1,
# Suppl. Eq. (74). That is the order along one path through the layers; all paths
# together are much larger, and of order Δt for any number of layers:

deep, u = (
    UnICORNN(2, 8, 3, dt=0.05, dtype=torch.float64),
    torch.randn(150, 1, 2, dtype=torch.float64),
)
plots.contributions(deep, u).draw()

# %%
# Residual connections, Suppl. Eq. (75), shorten the paths. :doc:`The page on the theory
# </theory>` measures the powers.
#
# A trained network
# -----------------
# The input is eight rows of a handwritten digit, then noise up to 200 steps; the target
# is the digit. A few seconds of training are enough to see the network learn.

images, labels = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
images = images.float().view(-1, 8, 8)
network, readout = (
    UnICORNN(8, 32, 2, dt=0.25, alpha=13.0, gradient="stored"),
    nn.Linear(32, 10),
)
parameters = [*network.parameters(), *readout.parameters()]
optimiser = torch.optim.Adam(parameters, 1e-2)
norms, accuracy = [], []
for _ in range(250):
    chosen = torch.randint(len(images), (64,))
    u = torch.cat([images[chosen].transpose(0, 1), 16 * torch.rand(192, 64, 8)])
    logits = readout(network(u, output="last")[0])
    optimiser.zero_grad()
    nn.functional.cross_entropy(logits, labels[chosen]).backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimiser.step()
    accuracy.append((logits.argmax(1) == labels[chosen]).float().mean().item())
    norms.append([float(w.detach().abs().max()) for w in network.w])
print(f"accuracy over the last 20 batches: {sum(accuracy[-20:]) / 20:.2f}")
print("guessing: 0.10")
plt.plot(torch.tensor(accuracy).unfold(0, 10, 1).mean(1))
plt.xlabel("batch")
plt.ylabel("accuracy, mean of ten batches")
plt.show()

# %%
# Time steps and norms
# --------------------
# Fig. 5 of the paper shows the time steps of a trained network's neurons, and Fig. 7
# the norms of w during training, on which the bounds depend. The same for the network
# above:

plots.time_steps(network).draw()

# %%

plt.plot(norms)
plt.xlabel("batch")
plt.ylabel("‖w‖∞ of each layer")
plt.show()
