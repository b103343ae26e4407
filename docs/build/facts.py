"""What is known of the baselines without measuring: equations, sizes, and what their papers say of gradients.

One layer that reads d features, m neurons, one sequence. Multiply-adds are those of the matrix products of a forward
step; σ̂ is the sigmoid, ⊙ the product by elements, x the input.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """One row.

    Attributes:
        parameters: free ones of a layer, a formula in d and m; d = m where a layer differs if it is not.
        work: multiply-adds of a step.
        waiting: of these, the ones that cannot be done for all steps at once.
        invertible: whether the last state and the input give the first state back.
        gradients: what is guaranteed of ∂h_n/∂h_k.
    """

    name: str
    source: str
    equation: str
    parameters: str
    work: str
    waiting: str
    invertible: str
    gradients: str


BY_ITERATION = "if {}, by iteration"

FACTS = {
    "unicornn": Fact(
        "UnICORNN", "Rusch & Mishra, ICML 2021",
        "z ← z - Δt σ̂(c) ⊙ [tanh(w ⊙ y + V x + b) + α y]; y ← y + Δt σ̂(c) ⊙ z",
        "m(d+3)", "md", "0", "yes, in closed form; here bit for bit",
        "bounded for short ([where](theory.md)), exponential over very long sequences; no vanishing through time",
    ),
    "lstm": Fact(
        "LSTM", "Hochreiter & Schmidhuber, Neural Computation 1997",
        "i, f, o = σ̂(W x + U h + b); c ← f ⊙ c + i ⊙ tanh(W' x + U' h + b'); h ← o ⊙ tanh(c)",
        "4m(d+m+2)", "4m(d+m)", "4m²", "no", "none; the way through c shrinks by f, may vanish; may explode through h",
    ),
    "gru": Fact(
        "GRU", "Cho et al., EMNLP 2014",
        "r, z = σ̂(W x + U h + b); h ← z ⊙ h + (1 - z) ⊙ tanh(W' x + r ⊙ (U' h + b') + b'')",
        "3m(d+m+2)", "3m(d+m)", "3m²", "no", "none; may vanish, may explode",
    ),
    "relu-gru": Fact(
        "ReLU GRU", "Dey & Salem, MWSCAS 2017",
        "z, r = σ̂(W x + U h + b); h ← (1 - z) ⊙ h + z ⊙ relu(W' x + U' (r ⊙ h) + b')",
        "3m(d+m+1)", "3m(d+m)", "3m²", "no", "none; the state is not bounded either",
    ),
    "skip-lstm": Fact(
        "Skip LSTM", "Campos et al., ICLR 2018",
        "s ← u LSTM(s, x) + (1 - u) s, u = round(ũ), ũ grows by σ̂(w · c + w₀) until it is used",
        "4m(d+m+1)+m+1", "4m(d+m)+m", "4m²+m", "no", "none; skipped steps shorten the way",
    ),
    "skip-gru": Fact(
        "Skip GRU", "Campos et al., ICLR 2018",
        "s ← u GRU(s, x) + (1 - u) s, u as in Skip LSTM",
        "3m(d+m+1)+m+1", "3m(d+m)+m", "3m²+m", "no", "none; skipped steps shorten the way",
    ),
    "exprnn": Fact(
        "expRNN", "Lezcano-Casado & Martínez-Rubio, ICML 2019",
        "h ← modrelu(exp(A) h + V x), A = -Aᵀ",
        "m(m-1)/2+m(d+1)", "m(d+m), and exp(A) once per batch", "m²", "where modrelu's b >= 0",
        "norm at most 1: no explosion; may vanish where modrelu is 0",
    ),
    "antisymmetric": Fact(
        "Antisymmetric RNN", "Chang et al., ICLR 2019",
        "h ← h + ε tanh((W - Wᵀ - γ I) h + V x + b)",
        "m(m-1)/2+m(d+1)", "m(d+m)", "m²", BY_ITERATION.format("ε ‖W - Wᵀ - γ I‖ < 1"),
        "no bound; eigenvalues of the ODE's Jacobian near the imaginary axis",
    ),
    "gated-antisymmetric": Fact(
        "Gated antisymmetric RNN", "Chang et al., ICLR 2019",
        "A = W - Wᵀ - γ I; h ← h + ε σ̂(A h + V' x + b') ⊙ tanh(A h + V x + b)",
        "m(m-1)/2+2m(d+1)", "m(2d+m)", "m²", BY_ITERATION.format("ε is small"), "no bound; as without the gate",
    ),
    "lipschitz": Fact(
        "Lipschitz RNN", "Erichson et al., ICLR 2021",
        "h ← h + ε [A h + tanh(W h + U x + b)], A and W symmetric and antisymmetric parts, weighted",
        "2m²+m(d+1)", "m(d+2m)", "2m²", BY_ITERATION.format("ε (‖A‖ + ‖W‖) < 1"),
        "no bound for training; conditions on A and W under which the ODE is exponentially stable",
    ),
    "fastrnn": Fact(
        "FastRNN", "Kusupati et al., NeurIPS 2018",
        "h ← σ̂(α) tanh(W x + U h + b) + σ̂(β) h",
        "m(d+m+1)+2", "m(d+m)", "m²", BY_ITERATION.format("σ̂(α) ‖U‖ < σ̂(β)"),
        "condition number bounded if σ̂(α) is of the order of 1/N and σ̂(β) = 1 - σ̂(α)",
    ),
    "incremental": Fact(
        "iRNN", "Kag, Zhang & Saligrama, ICLR 2020",
        "h ← g after K steps g ← g + η [relu(U (g + h) + W x + b) - α (g + h)]",
        "m(d+m+1)+1", "m(d+Km)", "Km²", BY_ITERATION.format("η is small"),
        "of norm 1 at the equilibrium, which K steps only approach",
    ),
    "cornn": Fact(
        "coRNN", "Rusch & Mishra, ICLR 2021",
        "z ← z + Δt [tanh(W y + W' z + V x + b) - γ y - ε z]; y ← y + Δt z",
        "2m²+m(d+1)", "m(d+2m)", "2m²", BY_ITERATION.format("Δt (ε + ‖W'‖) < 1"),
        "bounded for small Δt; no vanishing through time: to leading order they do not depend on k",
    ),
    "lem": Fact(
        "LEM", "Rusch et al., ICLR 2022",
        "s, s' = Δt σ̂(W x + U y + b); z ← (1 - s) ⊙ z + s ⊙ tanh(W' x + U' y + b'); "
        "y ← (1 - s') ⊙ y + s' ⊙ tanh(W'' x + U'' z + b'')",
        "4m(d+m+1)", "4m(d+m)", "4m²", "no", "bounded, and vanishing mitigated, for small Δt",
    ),
    "sign-ncde": Fact(
        "Signature NCDE, depth 1", "Morrill et al., ICML 2021",
        "dh/ds = f(h) ℓ, s from 0 to 1, once for 4 samples: ℓ their log-signature, f a network with two hidden layers "
        "of 3m, by Runge-Kutta",
        "3m²(d+5)+m(2d+9)", "3m²(d+5)+m(d+1)", "3m²(d+5)+m(d+1)", BY_ITERATION.format("a window changes h little"),
        "none",
    ),
    "indrnn": Fact(
        "IndRNN, batch norm", "Li et al., CVPR 2018",
        "h ← relu(W x + u ⊙ h + b)",
        "m(d+4)", "md", "0", "no", "at most 2 if u is clipped to 2^(1/N); may vanish",
    ),
    "sru": Fact(
        "SRU, batch norm", "Lei et al., EMNLP 2018",
        "f, r = σ̂(W x + v ⊙ c + b); c ← f ⊙ c + (1 - f) ⊙ W' x; h = r ⊙ c + (1 - r) ⊙ α x",
        "m(3d+6)", "3md", "0", "no", "none; may vanish",
    ),
    "mingru": Fact(
        "minGRU", "Feng et al., arXiv:2410.01201",
        "z = σ̂(W x + b); h ← (1 - z) ⊙ h + z ⊙ (W' x + b')",
        "2m(d+1)", "2md", "0", "only in exact arithmetic: errors grow by 1/(1 - z)",
        "factors 1 - z: no explosion; may vanish",
    ),
    "lru": Fact(
        "LRU, P=m", "Orvieto et al., ICML 2023",
        "s ← λ ⊙ s + γ ⊙ B x̂, complex, |λ| < 1; h = x + GLU(GELU(Re(C s) + D ⊙ x̂))",
        "6m²+8m", "6m²", "0", "only in exact arithmetic: errors grow by 1/|λ|",
        "factors |λ| < 1: no explosion; vanish at a rate that is trained",
    ),
    "linoss": Fact(
        "LinOSS-IM, P=m", "Rusch & Rus, ICLR 2025",
        "z ← z + Δt (-A y + B x̂), y ← y + Δt z, implicit, A >= 0; h = x + GLU(GELU(Re(C y) + D ⊙ x̂))",
        "6m²+5m", "6m²", "0", "only in exact arithmetic (IM); yes (IMEX)",
        "eigenvalues of at most 1 in modulus: no explosion; of modulus 1 with IMEX, if Δt² A < 4",
    ),
}  # fmt: skip
"""By the names of ``unicornn.baselines.MODELS``."""
