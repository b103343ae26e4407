"""Calls of the public library and of the command line with one argument replaced by an arbitrary value."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from tests.fuzz_targets import Refused, Target, not_started, targets
from unicornn import State, theory
from unicornn.errors import UnicornnError
from unicornn.functional import Weights

ALSO = {"u": "input", "x": "samples"}
"""Another name of an argument in errors."""


def describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return (
            "nested tensor"
            if value.is_nested
            else f"tensor{tuple(value.shape)} {value.dtype} {value.device} {value.layout}"
        )
    if isinstance(value, State):
        return f"State of {len(value)}"
    if isinstance(value, nn.Module):
        return type(value).__name__
    if isinstance(value, (tuple, list)) and any(isinstance(t, torch.Tensor) for t in value):
        return f"{type(value).__name__} of {[describe(t) for t in value]}"
    return ("1" + "0" * 9 + "…") if type(value) is int and value > 10**100 else f"{type(value).__name__} {value!r:.40}"


def attempt(target: Target, name: str, value: Any) -> str:
    """The outcome of a call: "named" (an error that names the argument), "accepted", or a description."""
    torch.manual_seed(0)
    with mock.patch.object(torch.onnx, "export", not_started), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target.call(**target.arguments | {name: value})
        except Refused as error:
            return "named" if "Traceback" not in str(error) else str(error)[-90:]
        except UnicornnError as error:
            said = str(error).split(":")[0]
            words = {word.split("[")[0].split(".")[0] for word in said.replace(",", " ").split()}
            if {name, ALSO.get(name)} & words or (name == "weights" and words & {"w", "V", "b", "c", "Lambda"}):
                return "named"
            if isinstance(value, (torch.Tensor, Weights, nn.Module, PackedSequence)) and words & {
                *target.arguments,
                "input",
            }:
                return "named"  # possibly valid, but not with the other arguments
            if name == "loss" and callable(value):
                return "named"
            return f"names {said[:60]!r}, not the argument"
        except ImportError as error:
            return "named" if str(error).startswith("backend:") else f"{type(error).__name__}: {error}"
        except Exception as error:
            if name == "loss" and callable(value):
                return "named"  # an error of the caller's function
            return f"{type(error).__name__}: {str(error)[:90]!r}".replace("\n", " ")
    return "accepted"


def draw(count: int, seed: int) -> list[tuple[Target, str, Any]]:
    make, all_targets = random.Random(seed), targets()
    calls = []
    for _ in range(count):
        target = make.choice(all_targets)
        calls.append((target, make.choice(list(target.arguments)), make.choice(target.values)))
    return calls


OPTIONAL = ("state", "lengths", "mask", "device", "dtype", "window", "hop", "capacity", "ttl", "norm")
"""Arguments that may always be None."""


def is_valid(name: str, usual: Any, value: Any) -> bool:
    """Whether a value may be accepted in place of the usual one: of the same kind, and finite if it is a number."""
    if name in ("x", "samples") and not isinstance(usual, dict):
        return isinstance(value, (np.ndarray, torch.Tensor, list, tuple, int, np.number))
    if name in ("key", "loss", "path"):
        return isinstance(value, {"key": Hashable, "loss": Callable, "path": str}[name])
    if value is None:
        return usual is None or name in OPTIONAL
    if isinstance(usual, np.ndarray) or name in ("X", "sample_weight", "validation_data", "groups"):
        if isinstance(value, (Fraction, int, float, np.number)):
            return name == "sample_weight"  # one for all series
        return isinstance(value, (np.ndarray, torch.Tensor, list, tuple))
    if isinstance(value, np.number):
        value = value.item()  # estimators accept them, since searches draw them
    if name in ("random_state", "verbose"):
        return isinstance(value, int)
    if name in ("class_weight", "quantiles"):
        return isinstance(value, (dict, list, tuple))
    if name == "input" and isinstance(value, torch.Tensor):
        return True
    if name == "device":
        return isinstance(value, (str, torch.device))
    if name == "dtype":
        return isinstance(value, torch.dtype) and value.is_floating_point
    if name == "lengths":
        return isinstance(value, (list, tuple)) or (isinstance(value, torch.Tensor) and value.dtype == torch.int64)
    if name in ("state", "c", "weights"):
        return isinstance(value, (list, tuple))
    if name in ("dt", "target", "mask", "horizon") and isinstance(value, (list, tuple, torch.Tensor)):
        return True  # one per layer, or per sequence and neuron
    if name == "output" and isinstance(value, torch.Tensor):
        return value.dtype == torch.int64
    if isinstance(usual, bool):
        return isinstance(value, bool)
    if isinstance(usual, (int, float)) or usual is None:
        integral = isinstance(usual, int) and name not in ("alpha", "dt", "S")
        real = isinstance(value, int) or (isinstance(value, float) and not integral)
        return real and not isinstance(value, bool) and abs(value) < 10**300
    if isinstance(usual, str) and name == "readout":
        return isinstance(value, str)
    for kind in (str, torch.Tensor, nn.Module, theory.Orbit, dict):
        if isinstance(usual, kind):
            return isinstance(value, kind)
    return False
