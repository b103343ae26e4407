"""Run and search folders made without training, and the page as a reader sees it."""

import json
from datetime import datetime, timedelta

import numpy as np
import optuna
import pandas as pd
import torch
from bs4 import BeautifulSoup
from optuna.distributions import CategoricalDistribution, FloatDistribution, distribution_to_json
from optuna.trial import TrialState
from safetensors.torch import save_file

from unicornn.lab._run_folder import Run
from unicornn.lab._study import STUDY_NAME, copy_to_folder
from unicornn.lab.report import report
from unicornn.lab.tasks import Quoted, Task, Training
from unicornn.lab.tasks import _registry as registry
from unicornn.lab.tasks._base import KINDS

TITLES = {"classify": "Permuted digits", "regress": "Heart rate", "forecast": "Lorenz 96"}


def curve(kind, epochs, end, rng):
    """A validation metric that improves up to the last epoch."""
    way = np.exp(-np.linspace(0, 5, epochs)) * (1 + 0.2 * rng.random(epochs))
    way[-1:] = 0
    return end - 0.6 * way if kind == "classify" else end * (1 + 8 * way)


def write_run(
    folder, kind="classify", *, test=0.97, valid=None, finished=True, epochs=12, of=None, seed=1, hidden=8, **config
):
    """A run folder after some epochs ``of`` all; ``config`` replaces entries of config.json."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    valid = test if valid is None else valid
    metric = KINDS[kind]
    config = {
        "task": kind, "variant": None, "model": "unicornn", "seed": seed, "title": TITLES[kind],
        "training": {"lr": 0.001, "batch_size": 32, "epochs": of or epochs}, "task_options": {}, "budget": None,
        "model_options": {"hidden_size": hidden, "num_layers": 3, "dt": [0.1, 0.2, 0.4], "alpha": 1.0},
        "command": f"unicornn train {kind} --seed {seed}", "parameters": 35338, "metric": metric.name,
        "more_is_better": metric.more_is_better, "protocol": "48,000 / 2,000 / 10,000 sequences",
    } | config  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "environment.json").write_text(json.dumps({"started": "2024-05-01", "versions": {"torch": "2.6"}}))
    table = {"epoch": np.arange(1, epochs + 1), "seconds": np.arange(1, epochs + 1) * 61.7}
    table |= {"lr": 0.001, "train_loss": 1.0, "valid_loss": 1.0, "valid": curve(kind, epochs, valid, rng)}
    if config["model"] == "unicornn":
        table |= {f"w_norm_{l}": l + 2 * (1 - np.exp(-np.arange(epochs) / 4)) + 0.1 * rng.random() for l in (1, 2, 3)}
        c = {f"rnn.c.{l}": torch.linspace(-4 + l, 2, hidden) for l in range(3)}
        save_file(c | {"rnn.w.0": torch.ones(hidden)}, folder / "best.safetensors")
    pd.DataFrame(table).to_csv(folder / "metrics.csv", index=False)
    if finished:
        result = {"best_epoch": epochs, "valid": valid, "test": test, "seconds": 61.7 * epochs, "epochs": epochs}
        result |= {"stopped": "budget" if config["budget"] else "all epochs", "weights_sha256": "0" * 64}
        (folder / "result.json").write_text(json.dumps(result))
        if kind == "classify":
            target = rng.integers(0, 10, 500)
            wrong = rng.random(500) > test
            np.savez(folder / "predictions.npz", target=target, prediction=np.where(wrong, (target + 3) % 10, target))
        if kind == "regress":
            target = rng.normal(90, 15, 3000)
            np.savez(folder / "predictions.npz", target=target, prediction=target + rng.normal(0, test, 3000))
    return Run(folder)


PUBLISHED = {
    "classify": [Quoted("UnICORNN", 0.984, units=256, parameters=135_000, source="Table 1"), Quoted("LSTM", 0.929)],
    "regress": [Quoted("UnICORNN", 1.39, 0.09, source="Table 4")],
    "forecast": [],
}


def replace_tasks(monkeypatch):
    """Replaces the tasks of the package by tasks with these names."""

    def task(kind):
        options = {"split": ("random", "patient")}
        return Task(
            kind, TITLES[kind], kind, lambda *_: None, 1, 1, "", {"unicornn": {}}, Training(), options,
            paper=PUBLISHED[kind],
        )  # fmt: skip

    made = {kind: task(kind) for kind in KINDS}
    monkeypatch.setattr(registry, "_built_in", lambda: made)


AXES = {
    "lr": FloatDistribution(1e-4, 1e-1, log=True),
    "batch_size": CategoricalDistribution((16, 32, 64)),
    "alpha": FloatDistribution(0.0, 30.0),
}
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.PRUNED}


def write_study(
    folder, kind="classify", *, trials=12, title=None, command="unicornn train classify --set lr=0.1", **plan
):
    """The folder of a search: every sixth trial has failed, every fourth was pruned."""
    rng, begin = np.random.default_rng(0), datetime(2026, 1, 1)
    metric = KINDS[kind]
    plan = {
        "task": kind, "model": "unicornn", "variant": None, "metric": metric.name, "seed": 0, "budget": None,
        "settings": {"epochs": "5"}, "sampler": "random", "pruner": "median",
        "space": {name: json.loads(distribution_to_json(axis)) for name, axis in AXES.items()},
    } | plan  # fmt: skip
    study = optuna.create_study(direction="maximize" if metric.more_is_better else "minimize", study_name=STUDY_NAME)
    for name, value in {"plan": plan, "title": title or TITLES[kind], "requested": 50}.items():
        study.set_user_attr(name, value)
    for i in range(trials):
        state = "failed" if i % 6 == 5 else "pruned" if i % 4 == 3 else "complete"
        drawn = {"lr": float(10 ** rng.uniform(-4, -1)), "batch_size": int(rng.choice([16, 32, 64]))}
        drawn["alpha"] = float(rng.uniform(0, 30))
        value = None if state == "failed" else float(rng.random())
        trial = optuna.trial.create_trial(
            state=STATES[state], value=value, params=drawn, distributions=AXES,
            intermediate_values=dict.fromkeys(range(1, 6), 0.1),
            user_attrs={"command": command} | ({"failure": "loss: nan"} if state == "failed" else {}),
        )  # fmt: skip
        trial.datetime_start, trial.datetime_complete = begin, begin + timedelta(seconds=61.7)
        study.add_trial(trial)
    folder.mkdir(parents=True)
    copy_to_folder(folder, study._storage, STUDY_NAME)
    return study


def write_many(root):
    """Runs of every kind: several seeds, baselines, other settings, a variant, unfinished and just begun runs."""
    hostile = "<script>alert('x')</script>"
    for seed, test in ((1, 0.968), (2, 0.972), (3, 0.975)):
        write_run(root / f"digits/{seed}", test=test, seed=seed, hidden=128, epochs=40)
    write_run(root / "digits/4", test=0.9, seed=4, hidden=128, epochs=17, of=40, finished=False)
    write_run(root / "digits/lstm", test=0.931, model="lstm", parameters=68000, epochs=30, of=40, budget=1800)
    write_run(root / "digits/small", test=0.95, epochs=40, hidden=16)
    write_run(root / "digits/256", test=0.98, hidden=256, variant="256")
    write_run(root / "heart/1", "regress", test=1.312, epochs=80, task_options={"split": "patient"})
    write_run(root / "heart/2", "regress", test=1.498, seed=2, epochs=80, task_options={"split": "patient"})
    write_run(root / "lorenz/1", "forecast", test=0.0123, epochs=25)
    write_run(root / "odd/<b>", task=hostile, title=hostile, model="$\\frac_" + hostile, command="a && b <i>")
    write_study(root / "search", title=hostile, settings={"n": hostile}, command="a && b <i>")
    write_run(root / "begun", "regress", finished=False, task="mine/task.py", title="", protocol="", epochs=0)


class Page:
    """A parsed page: tables as lists of rows of texts, tags with attributes, all text."""

    def __init__(self, text):
        page = BeautifulSoup(text, "html.parser", multi_valued_attributes=None)
        self.tags, self.text = [(tag.name, tag.attrs) for tag in page.find_all(True)], page.text
        rows = [table.find_all("tr") for table in page.find_all("table")]
        self.tables = [[[cell.text for cell in row.find_all(["td", "th"])] for row in table] for table in rows]


def read_page(tmp_path):
    """The report about tmp_path/runs."""
    return Page(report([tmp_path / "runs"], tmp_path / "report.html").read_text(encoding="utf-8"))


def images_of(page):
    """The first words of each image's caption."""
    return [a["alt"].partition(": ")[2].partition(":")[0].partition(",")[0] for tag, a in page.tags if tag == "img"]


MEASURE = """page => {
  const root = page.documentElement, images = [...page.images];
  page.querySelectorAll("details").forEach(each => each.open = true);
  return {
    scripts: page.scripts.length, images: images.length,
    shown: images.filter(each => each.naturalWidth > 0 && each.clientWidth > 200).length,
    sideways: [...page.querySelectorAll(".scroll")].filter(each => each.scrollWidth > each.clientWidth).length,
    sections: page.querySelectorAll("section[id]").length, text: page.body.innerText,
    beyond: [...page.querySelectorAll("main *")].filter(each =>
      !each.closest(".scroll table, pre") && each.getBoundingClientRect().right > root.clientWidth).length,
  };
}"""
