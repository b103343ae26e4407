"""The command that tests an installation."""

import json

import pytest

from tests.lab.cli.helpers import unicornn
from unicornn.lab import doctor


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(doctor, "SPEED_SECONDS", 0.1)
    monkeypatch.setattr(doctor, "SPEED", {"N": 3, "b": 1, "d": 2, "m": 3})


def test_the_report_is_text_or_json(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    report = json.loads(unicornn("doctor", "--json"))
    assert report["backends"]["cpu on cpu"] == report["backends"]["reference on cpu"] == []
    assert {"python", "torch", "numba"} <= report["environment"]["versions"].keys()
    assert report["speed"]["ours_ms"] > 0
    assert "cpu on cpu" in unicornn("doctor")


def test_problems_come_with_their_fixes(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(doctor, "backend_problems", lambda name, device: ["output: wrong"] * (name == "cpu"))
    monkeypatch.setattr(doctor, "_speed", lambda: {"ms": 1.0, "ours_ms": 2.0, "ratio": 0.5})
    monkeypatch.setattr(doctor, "HAS_TRITON", False)
    monkeypatch.setattr(doctor.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(doctor, "environment", lambda: {"versions": {}})
    problems = {each["problem"]: each["fix"] for each in doctor.examine()["problems"]}
    for problem, fix in {
        "cpu on cpu": "reference",
        "GPU": "gpu",
        "Triton: ": "TRITON_CACHE_DIR",
        "LSTM": "threads",
    }.items():
        assert any(problem in name and fix in text for name, text in problems.items()), problem
