"""Damaged run folders: the damaged file is named, nothing is changed, and nothing blocks or is executed."""

import dataclasses
import json
import os
import signal
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save

from tests.lab.training import helpers
from tests.lab.training.helpers import BIAS, config, evaluate, load_network, train
from unicornn._files import write_json
from unicornn.errors import BadCheckpoint, BadValue, CorruptData, UnicornnError
from unicornn.lab import cli, training
from unicornn.lab._run_folder import Run
from unicornn.lab.data import _archives
from unicornn.lab.diagnose import diagnose
from unicornn.lab.errors import NotARun
from unicornn.lab.report import report
from unicornn.lab.show import write_run_page
from unicornn.lab.tasks import Sequences
from unicornn.lab.training._checkpoint import read, write

CHANGED_CONFIGS = {
    "missing": lambda c: c.pop("training"),
    "null": lambda c: c.update(training=None),
    "no name": lambda c: c.update(task=None),
    "no seed": lambda c: c.update(seed=True),
    "unknown": lambda c: c["training"].update(speed=1),
    "unknown option": lambda c: c["model_options"].update(wings=2),
    "unknown model": lambda c: c.update(model="ltsm"),
    "null option": lambda c: c["model_options"].update(hidden_size=None),
    "null setting": lambda c: c["training"].update(lr=None),
    "list": lambda c: c.update(model_options=[1]),
    "huge": lambda c: c["model_options"].update(hidden_size=10**15),
    "large": lambda c: c["model_options"].update(hidden_size=2**20),
    "negative": lambda c: c["training"].update(eval_batch_size=-4),
}
CONFIG_TEXTS = {
    "empty": "",
    "half": '{"task": "sm',
    "nested": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "digits": '{"seed": ' + "9" * 5000 + "}",
    "infinity": '{"seed": Infinity}',
    "overflow": '{"seed": 1e999}',
    "bytes": "\udcff",
    "nothing": "null",
}


@pytest.mark.parametrize("damage", [*CHANGED_CONFIGS, *CONFIG_TEXTS])
def test_a_damaged_config_is_rejected(run_copy, damage):
    path = run_copy / "config.json"
    if damage in CONFIG_TEXTS:
        path.write_text(CONFIG_TEXTS[damage], errors="surrogateescape")
    else:
        content = json.loads(path.read_text())
        CHANGED_CONFIGS[damage](content)
        write_json(path, content)
    for use in (load_network, evaluate, lambda run: diagnose(run, task=helpers.TASK)):
        with pytest.raises(UnicornnError):
            use(run_copy)
    before = helpers.files(run_copy)
    with pytest.raises(UnicornnError):
        train(config(epochs=2), run_copy, resume=True)
    assert helpers.files(run_copy) == before


def test_a_missing_task_option_is_rejected(run_copy):
    content = Run(run_copy).config
    write_json(run_copy / "config.json", content | {"task_options": {"n": 50, "N": 20}})
    for use in (evaluate, lambda run: train(config(epochs=2), run, resume=True)):
        with pytest.raises(NotARun, match=r"config\.json.* mode: "):
            use(run_copy)


def npz(**arrays):
    return lambda path: np.savez_compressed(path, **arrays)


def text(content):
    return lambda path: path.write_text(content)


METRICS = "epoch,seconds,valid,lr\n"
DAMAGED_FILES = [
    *[(name, lambda path, cut=cut: path.write_bytes(path.read_bytes()[: int(cut * path.stat().st_size)]), name)
      for name in ("predictions.npz", "result.json", "environment.json") for cut in (0.0, 0.3, 0.6, 0.9)],
    ("predictions.npz", npz(target=np.zeros(3), prediction=np.array(["a", "b", "c"])), "predictions"),
    ("predictions.npz", npz(target=np.zeros(()), prediction=np.zeros(())), "predictions"),
    ("predictions.npz", npz(target=np.zeros(10000), prediction=np.zeros(10000)), "at most 10,000 bytes"),
    ("metrics.csv", text(f"{METRICS}1,1,0.5,text\n"), "'lr'"),
    ("metrics.csv", text(f"{METRICS}1,1,1e308,1\n2,2,-1e308,1\n"), r"'valid'.* above 1e\+100"),
    ("config.json", text("{"), r"config\.json"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGED_FILES)
def test_a_damaged_file_is_named(run_copy, monkeypatch, name, damage, message):
    monkeypatch.setattr(_archives, "MAX_MEMBER", 10000)
    damage(run_copy / name)
    with pytest.raises(NotARun, match=message):
        Run(run_copy).check()
    with pytest.raises(NotARun, match=message):
        report([run_copy], run_copy / "report.html")


@pytest.mark.parametrize("content", [save({"other": torch.zeros(1)}), b"12345"])
def test_damaged_weights_are_named(run_copy, content):
    (run_copy / "best.safetensors").write_bytes(content)
    with pytest.raises(NotARun, match="weights in "):
        load_network(run_copy)


def test_names_that_are_not_unicode(run_copy, tmp_path):
    write_json(run_copy / "config.json", Run(run_copy).config | {"title": "half \ud800", "command": "half \ud801"})
    assert r"half \ud800" in report([run_copy], tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["best.safetensors", "last.ckpt", "metrics.csv", "environment.json"])
def test_pipes_do_not_block(run_copy, name):
    (run_copy / name).unlink()
    os.mkfifo(run_copy / name)

    def blocked(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, blocked)
    signal.alarm(60)
    try:
        with pytest.raises(CorruptData, match=name):
            train(config(epochs=2), run_copy, resume=True)
        if name == "best.safetensors":
            with pytest.raises(NotARun, match=name):
                load_network(run_copy)
        if name == "last.ckpt":
            with pytest.raises(BadCheckpoint, match=name):
                read(run_copy / name)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "use", [diagnose, lambda run, task: write_run_page(run, run / "page.html", split="valid", task=task)]
)
def test_an_empty_split_is_named(finished, use):
    def load(source, options, seed):
        splits = helpers.load(source, options, seed)
        return splits._replace(valid=Sequences(splits.valid.u[:0], splits.valid.target[:0]))

    with pytest.raises(BadValue, match=r"^valid: expected at least one sequence"):
        use(finished, task=dataclasses.replace(helpers.TASK, load=load))


@pytest.mark.parametrize("form", ["name", "name:which", "relative"])
def test_a_file_named_by_a_run_folder_is_not_executed(tmp_path, run_copy, form, monkeypatch):
    evil = tmp_path / "evil.py"
    evil.write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'executed')!r}).touch()\n")
    monkeypatch.chdir(tmp_path)
    name = {"name": str(evil), "name:which": f"{evil}:small", "relative": "evil.py"}[form]
    write_json(run_copy / "config.json", Run(run_copy).config | {"task": name})
    for use in (training.evaluate, training.load_network, diagnose):
        with pytest.raises(BadValue, match=r"^task: .*is not executed.*--task mine.py"):
            use(run_copy)
    report([run_copy], tmp_path / "report.html")
    monkeypatch.setattr(sys, "argv", ["unicornn", "evaluate", str(run_copy)])
    with pytest.raises(SystemExit):
        cli.main()
    assert not (tmp_path / "executed").exists()
    assert evaluate(run_copy)[0] == Run(run_copy).result["test"]  # with the task that the user passes


def test_a_task_that_is_not_the_runs(run_copy):
    write_json(run_copy / "config.json", Run(run_copy).config | {"task": "digits"})
    with pytest.raises(BadValue, match=r"^task: expected the run's, 'digits', got 'small'"):
        evaluate(run_copy)


def rejected_checkpoint(run, message):
    """Resuming raises BadCheckpoint and changes nothing."""
    before = helpers.files(run)
    with pytest.raises(BadCheckpoint, match=message):
        train(config(epochs=2), run, resume=True)
    assert helpers.files(run) == before


@pytest.mark.parametrize("kind", ["truncated", "empty", "foreign", "pickle"])
def test_a_checkpoint_that_is_not_ours_is_rejected(run_copy, kind):
    path = run_copy / "last.ckpt"
    if kind in ("foreign", "pickle"):
        torch.save({"state_dict": {}} if kind == "foreign" else {"unicornn": os.system}, path)
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if kind == "truncated" else b"")
    rejected_checkpoint(run_copy, r"^checkpoint: .*last.ckpt.*Nothing was changed")


def test_a_flipped_bit_is_detected(run_copy):
    path = run_copy / "last.ckpt"
    good = path.read_bytes()
    for place in [0, 30, 64, 65, 100, *range(len(good) // 7, len(good), len(good) // 7), len(good) - 1]:
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bad)
        rejected_checkpoint(run_copy, r"last.ckpt is damaged.*Nothing was changed")


ANOTHER_RUN = r"last.ckpt belongs to another run: .* was .*, is .*Nothing was changed"
FORGERIES = {
    "no config": (lambda about, tensors: about.pop("config"), ""),
    "another version": (lambda about, tensors: about.update(version=2), "version 1, got 2"),
    "no history": (lambda about, tensors: about.update(history=None), ""),
    "another history": (lambda about, tensors: about.update(history=[{"epoch": 1}]), ""),
    "a number": (lambda about, tensors: about.update(step="7"), ""),
    "sums": (lambda about, tensors: about.update(sums=[]), ""),
    "another tensor": (lambda about, tensors: tensors.update(other=torch.zeros(1)), ""),
    "fewer tensors": (lambda about, tensors: tensors.pop(f"network.{BIAS}"), ""),
    "another shape": (lambda about, tensors: tensors.update({f"network.{BIAS}": torch.zeros(3)}), ""),
    "other best weights": (lambda about, tensors: tensors.update({f"best.{BIAS}": torch.zeros(3)}), ""),
    "no moments": (lambda about, tensors: tensors.update({"optimizer.x.step": torch.zeros(1)}), ""),
    "another seed": (lambda about, tensors: about["config"].update(seed=7), ANOTHER_RUN),
    "another size": (lambda about, tensors: about["config"]["model_options"].update(hidden_size=9), ANOTHER_RUN),
    "another rate": (lambda about, tensors: about["config"]["training"].update(lr=0.5), ANOTHER_RUN),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_checkpoint_of_another_form_or_run_is_rejected(run_copy, forgery):
    change, message = FORGERIES[forgery]
    checkpoint = read(run_copy / "last.ckpt")
    change(*checkpoint)
    write(run_copy / "last.ckpt", checkpoint)
    rejected_checkpoint(run_copy, rf"^checkpoint: .*{message}")
