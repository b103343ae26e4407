"""The picture of the README: an oscillator runs through 18,000 steps of noise, and back to rest.

    python -m docs.build.animation    # docs/figures/oscillators.gif

Backwards it runs twice: by ``layer.inverse``, and by the same equations in plain float32, which end elsewhere.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

from docs.build.pages import ROOT
from unicornn import UnICORNN
from unicornn._files import atomic_write

N, PIECE = 18_000, 300
GREY, OURS, PLAIN = "#9aa0a6", "#1f6feb", "#d1495b"
FORTH, HOLD = 100, 2500  # milliseconds that a frame is shown, and the last one


def orbits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y of one neuron: forwards (N + 1,), at the ends of pieces by the exact inverse, and by inversion in float32."""
    torch.manual_seed(0)
    layer = UnICORNN(1, 64, dt=0.0343, alpha=0.0)
    torch.nn.init.uniform_(layer.w[0], 0, 3)
    torch.nn.init.normal_(layer.V[0])
    u = torch.randn(N, 1, 1)
    with torch.no_grad():
        y, state = layer(u)
        forwards = torch.cat([torch.zeros(1, 64), y[:, 0]]).numpy()
        plain = _plain(layer, u, state)
        neuron = int(np.abs(plain[0]).argmax())
        exact = [state.y[0, 0, neuron]]
        for end in range(N, 0, -PIECE):
            state = layer.inverse(u[end - PIECE : end], state)
            exact.append(state.y[0, 0, neuron])
    return forwards[:, neuron], np.array(exact)[::-1], plain[:, neuron]


def _plain(layer: UnICORNN, u: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> np.ndarray:
    """Eq. (7) in float32, from the rounded state: (N + 1, m)."""
    a, w = (t.detach().float().numpy() for t in (layer.time_steps()[0], layer.w[0]))
    x = (u[:, 0] @ layer.V[0].T + layer.b[0]).numpy()
    y, z = (part[0, 0].numpy().copy() for part in state)
    found = [y]
    for n in reversed(range(N)):
        y = y - a * z
        z = z + a * np.tanh(w * y + x[n])
        found.append(y)
    return np.array(found[::-1])


def frame(found: tuple[np.ndarray, np.ndarray, np.ndarray], at: int, back: bool) -> Figure:
    """The picture at step ``at`` of the way forwards, or of the way back."""
    forwards, exact, plain = found
    steps, ends = np.arange(N + 1), np.arange(0, N + 1, PIECE)
    figure = Figure(figsize=(7.6, 2.9), layout="constrained")
    axis = figure.subplots()
    largest = 1.15 * max(np.abs(forwards).max(), np.abs(plain).max())
    axis.set(xlim=(-0.06 * N, 1.01 * N), ylim=(-largest, largest), xlabel="step", ylabel="y of one neuron")
    axis.axhline(0, color=GREY, linewidth=0.5)
    axis.spines[["top", "right"]].set_visible(False)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    seen = slice(None) if back else slice(at + 1)
    axis.plot(steps[seen], forwards[seen], color=GREY, linewidth=2.2 if back else 1.6)
    if back:
        axis.plot(steps[at:], plain[at:], color=PLAIN, linewidth=1.0)
        axis.plot(ends[at // PIECE :], exact[at // PIECE :], "o", color=OURS, markersize=3)
        axis.plot(at, plain[at], "o", color=PLAIN, markersize=7)
    axis.plot(at, forwards[at], "o", color=OURS, markersize=8)
    done = back and at == 0
    words = (
        f"back at the start: unicornn at {exact[0]:g}, bit for bit; plain float32 off by {abs(plain[0]):.1f}"
        if done
        else "backwards, from the last state and the input: unicornn (blue) and plain float32 (red)"
        if back
        else "forwards from rest, driven by noise; nothing is stored"
    )
    axis.set_title(words, loc="left", fontsize=10)
    return figure


def drawn(figure: Figure) -> Image.Image:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100, metadata={"Software": None})
    return Image.open(file).convert("RGB")


def main() -> None:
    found = orbits()
    way = range(0, N + 1, 2 * PIECE)
    images = [drawn(frame(found, at, False)) for at in way] + [drawn(frame(found, at, True)) for at in reversed(way)]
    palette = images[-1].quantize(64, method=Image.Quantize.MAXCOVERAGE)
    few = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    times = [FORTH] * (len(few) - 1) + [HOLD]
    with atomic_write(ROOT / "docs" / "figures" / "oscillators.gif") as file:
        few[0].save(file, format="GIF", save_all=True, append_images=few[1:], duration=times, loop=0, optimize=True)


if __name__ == "__main__":
    main()
