"""The baseline on log-signatures."""

import torch

from unicornn.baselines import MODELS

output, _ = MODELS["sign-ncde"](2, 4)(torch.randn(20, 3, 2))
output.mean().backward()
