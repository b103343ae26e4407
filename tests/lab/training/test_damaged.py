"""What is done to the folder of a run: every damage is named, and nothing waits or is executed."""

import dataclasses
import json
import os
import shutil
import signal
import sys
import threading

import numpy as np
import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from tests.lab.training import helpers
from tests.lab.training.test_train import config, evaluate, load_network, train
from unicornn._files import write_json
from unicornn.errors import BadCheckpoint, BadValue, CorruptData, NotARun, UnicornnError
from unicornn.lab import cli, training
from unicornn.lab._run_folder import Run
from unicornn.lab.data import _archives
from unicornn.lab.diagnose import diagnose
from unicornn.lab.report import report
from unicornn.lab.show import write_run_page
from unicornn.lab.tasks import Sequences
from unicornn.lab.training._checkpoint import read

DAMAGE = {
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
TEXTS = {
    "empty": "",
    "half": '{"task": "sm',
    "nested": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "digits": '{"seed": ' + "9" * 400 + "}",
    "more digits": '{"seed": ' + "9" * 5000 + "}",
    "infinity": '{"seed": Infinity}',
    "overflow": '{"seed": 1e999}',
    "nan": '{"seed": NaN}',
    "bytes": "\udcff",
    "nothing": "null",
}


@pytest.mark.parametrize("damage", [*DAMAGE, *TEXTS])
def test_a_damaged_config_is_named(tmp_path, finished, damage):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    if damage in TEXTS:
        (folder / "config.json").write_text(TEXTS[damage], errors="surrogateescape")
    if damage in DAMAGE:
        content = json.loads((folder / "config.json").read_text())
        DAMAGE[damage](content)
        write_json(folder / "config.json", content)
    for use in (load_network, evaluate, lambda run: diagnose(run, task=helpers.TASK)):
        with pytest.raises(UnicornnError):
            use(folder)
    before = helpers.files(folder)
    with pytest.raises(UnicornnError):
        train(config(epochs=2), folder, resume=True)
    assert helpers.files(folder) == before


@pytest.mark.parametrize("name", ["predictions.npz", "result.json", "environment.json"])
def test_truncated_files_are_named(tmp_path, finished, name):
    whole = (finished / name).read_bytes()
    for share in (0.0, 0.3, 0.6, 0.9):
        folder = tmp_path / f"run{share}"
        shutil.copytree(finished, folder)
        (folder / name).write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(NotARun, match=name):
            Run(folder).check()


def test_predictions_of_another_kind(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    for target, prediction in ((np.zeros(3), np.array(["a", "b", "c"])), (np.zeros(()), np.zeros(()))):
        np.savez(folder / "predictions.npz", target=target, prediction=prediction)
        with pytest.raises(NotARun, match=r"predictions\.npz"):
            Run(folder).check()


def test_predictions_that_unpack_to_too_much(finished, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    np.savez_compressed(folder / "predictions.npz", target=np.zeros(10000), prediction=np.zeros(10000))
    monkeypatch.setattr(_archives, "MAX_MEMBER", 10000)
    with pytest.raises(NotARun, match=r"predictions\.npz: expected .* at most 10,000 bytes"):
        Run(folder).check()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,1,0.5,text\n", "a column of numbers 'lr'"),
        ("1,1,1e308,1\n2,2,-1e308,1\n", "up to 1e\\+100 in the column 'valid'"),
    ],
)
def test_metrics_of_another_kind(finished, tmp_path, rows, message):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "metrics.csv").write_text(f"epoch,seconds,valid,lr\n{rows}")
    with pytest.raises(NotARun, match=message):
        report([folder], tmp_path / "report.html")


def test_names_that_are_no_unicode(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    write_json(folder / "config.json", Run(folder).config | {"title": "half \ud800", "command": "half \ud801"})
    assert r"half \ud800" in report([folder], tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["best.safetensors", "last.ckpt", "metrics.csv", "environment.json"])
def test_pipes_are_not_waited_for(finished, tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)

    def waited(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(60)
    try:
        with pytest.raises(CorruptData, match=name):
            train(config(epochs=2), folder, resume=True)
        if name == "best.safetensors":
            with pytest.raises(NotARun, match=name):
                load_network(folder)
        if name == "last.ckpt":
            with pytest.raises(BadCheckpoint, match=name):
                read(folder / name)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "use", [diagnose, lambda run, task: write_run_page(run, run / "page.html", split="valid", task=task)]
)
def test_what_looks_at_a_run_names_an_empty_split(finished, use):
    def load(source, options, seed):
        splits = helpers.load(source, options, seed)
        return splits._replace(valid=Sequences(splits.valid.u[:0], splits.valid.target[:0]))

    with pytest.raises(BadValue, match="valid: expected at least one sequence, got none"):
        use(finished, task=dataclasses.replace(helpers.TASK, load=load))


def test_a_full_disk_in_tensorboards_thread_is_not_printed_too(tmp_path, capfd, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordWriter, "write", full)
    hook = threading.excepthook
    with pytest.raises(OSError, match="No space left"):
        train(config(epochs=1), tmp_path / "run")
    assert "Traceback" not in capfd.readouterr().err
    assert threading.excepthook is hook


@pytest.mark.parametrize("text", ["name", "name:which", "relative"])
def test_no_file_that_a_run_folder_names_is_executed(tmp_path, finished, text, monkeypatch):
    folder, evil = tmp_path / "run", tmp_path / "evil.py"
    shutil.copytree(finished, folder)
    evil.write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'executed')!r}).touch()\n")
    monkeypatch.chdir(tmp_path)
    name = {"name": str(evil), "name:which": f"{evil}:small", "relative": "evil.py"}[text]
    write_json(folder / "config.json", Run(folder).config | {"task": name})
    for use in (training.evaluate, training.load_network, diagnose):
        with pytest.raises(BadValue, match=r"task: expected a task of this package.*is not executed.*--task mine.py"):
            use(folder)
    report([folder], tmp_path / "report.html")
    monkeypatch.setattr(sys, "argv", ["unicornn", "evaluate", str(folder)])
    with pytest.raises(SystemExit):
        cli.main()
    assert not (tmp_path / "executed").exists()
    assert evaluate(folder)[0] == Run(folder).result["test"]  # the user's own word for the task


def test_a_task_that_is_not_the_runs(tmp_path, finished):
    shutil.copytree(finished, tmp_path / "run")
    write_json(tmp_path / "run/config.json", Run(finished).config | {"task": "digits"})
    with pytest.raises(BadValue, match="task: expected the run's, 'digits', got 'small'"):
        evaluate(tmp_path / "run")
