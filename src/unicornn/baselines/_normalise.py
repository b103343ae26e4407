"""Batch normalisation of sequences: over all steps of all sequences, padding left out."""

from __future__ import annotations

from torch import Tensor, nn

from unicornn.baselines._base import within


class SequenceNorm(nn.BatchNorm1d):
    """``torch.nn.BatchNorm1d`` for (N, b, m): every feature has one mean and one variance over time and batch.

    Example:
        >>> import torch
        >>> x = SequenceNorm(3)(5 + torch.randn(100, 4, 3))
        >>> bool(x.mean() < 1e-5)
        True
    """

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (N, b, m) normalised. With ``lengths`` (b,), the padding does not count, and is zero."""
        rows = x.reshape(-1, x.shape[-1])
        if lengths is None:
            return super().forward(rows).view(x.shape)
        inside = within(len(x), lengths).flatten().nonzero().squeeze(1)
        return rows.new_zeros(rows.shape).index_copy(0, inside, super().forward(rows[inside])).view(x.shape)
