"""Damaged run folders: the damaged file is named, nothing is changed, and nothing blocks or is executed."""

import dataclasses
import os
import sys

import pytest
import torch
from safetensors.torch import save

from tests.lab.training import helpers
from tests.lab.training.helpers import BIAS, config, evaluate, load_network, train
from unicornn._files import write_json
from unicornn.errors import BadCheckpoint, BadValue, UnicornnError
from unicornn.lab import cli, training
from unicornn.lab._run_folder import Run
from unicornn.lab.diagnose import diagnose
from unicornn.lab.errors import NotARun
from unicornn.lab.report import report
from unicornn.lab.show import write_run_page
from unicornn.lab.tasks import Sequences
from unicornn.lab.training._checkpoint import read_checkpoint, write_checkpoint

CHANGED_CONFIGS = {
    "missing": lambda c: c.pop("training"),
    "unknown option": lambda c: c["model_options"].update(wings=2),
    "unknown model": lambda c: c.update(model="ltsm"),
}


@pytest.mark.parametrize("change", CHANGED_CONFIGS)
def test_a_damaged_config_is_rejected(run_copy, change):
    content = Run(run_copy).config
    CHANGED_CONFIGS[change](content)
    write_json(run_copy / "config.json", content)
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


def shorten(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGED_FILES = [
    *[(name, shorten, name) for name in ("predictions.npz", "result.json", "environment.json", "config.json")],
    ("metrics.csv", lambda path: path.write_text("epoch,seconds,valid,lr\n1,1,text,0.5\n"), "'valid'"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGED_FILES)
def test_a_damaged_file_is_named(run_copy, name, damage, message):
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


@pytest.mark.parametrize("kind", ["truncated", "pickle"])
def test_a_checkpoint_that_is_not_ours_is_rejected(run_copy, kind):
    path = run_copy / "last.ckpt"
    if kind == "pickle":
        torch.save({"unicornn": os.system}, path)
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
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
    "another version": (lambda checkpoint: checkpoint.update(version=2), "version 1 .*got 2"),
    "another shape": (lambda checkpoint: checkpoint["network"].update({BIAS: torch.zeros(3)}), ""),
    "another seed": (lambda checkpoint: checkpoint["config"].update(seed=7), ANOTHER_RUN),
    "another rate": (lambda checkpoint: checkpoint["config"]["training"].update(lr=0.5), ANOTHER_RUN),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_checkpoint_of_another_form_or_run_is_rejected(run_copy, forgery):
    change, message = FORGERIES[forgery]
    checkpoint = read_checkpoint(run_copy / "last.ckpt")
    change(checkpoint)
    write_checkpoint(run_copy / "last.ckpt", checkpoint)
    rejected_checkpoint(run_copy, rf"^checkpoint: .*{message}")
