"""The core: the layer, its theory, the baselines and streams. Estimators name the missing extra."""

import importlib
import sys
from pathlib import Path

import torch

import unicornn
from unicornn import UnICORNN, baselines, streams, suggest_dt, theory

project, version = sys.argv[1:]
assert unicornn.__version__ == version
assert not Path(unicornn.__file__).is_relative_to(project), "not imported from the wheel"

layer = UnICORNN(2, 8, num_layers=2)
u = torch.randn(100, 3, 2)
output, state = layer(u)
output.mean().backward()
assert not layer.inverse(u, state).y.any()
assert suggest_dt(10_000) > 0
assert theory.hamiltonian(layer, u).shape == (2, 100, 3)
assert baselines.MODELS["gru"](2, 8)(u)[0].shape == (100, 3, 8)
assert streams.Stream(layer).push({"a": u[:, 0].numpy()})["a"].shape == (8,)
message = ""
try:
    importlib.import_module("unicornn.estimators")
except ImportError as error:
    message = str(error)
assert ".[fit]" in message
