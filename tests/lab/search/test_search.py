"""Results of a search; reproducible, resumable, and without the test set."""

import io
import shlex
from itertools import pairwise

import pytest
from rich.console import Console

from tests.lab.search import helpers
from tests.lab.search.helpers import parameters_of, run_search
from tests.lab.training import helpers as small
from unicornn.lab._run_folder import Run
from unicornn.lab._study import outcome, ranked
from unicornn.lab.search import read_study
from unicornn.lab.training import resolve, train
from unicornn.lab.training._config import parse


def test_files_and_output_of_a_search(tmp_path):
    output = io.StringIO()
    study = run_search(tmp_path / "search", console=Console(file=output, width=300))
    assert {p.name for p in (tmp_path / "search").iterdir()} == {"study.db", "trials"}
    assert read_study(tmp_path / "search").trials == study.trials
    assert [outcome(trial) for trial in study.trials] == ["complete"] * 3
    assert study.best_value == max(trial.value for trial in study.trials)
    for trial in study.trials:
        run = Run(tmp_path / f"search/trials/{trial.number:05d}")
        assert run.result["valid"] == trial.value
        assert "test" not in run.result
        assert run.predictions is None
        assert run.config["seed"] == 0
        assert run.config["training"]["lr"] == trial.params["lr"]
        assert run.config["model_options"]["dt"] == trial.params["dt"]
        assert f"trial {trial.number} · validation accuracy" in output.getvalue()
    assert "3/3" in output.getvalue()


def test_the_command_of_the_best_trial_repeats_it_with_the_test_set(tmp_path):
    study = run_search(tmp_path / "search", task=helpers.__file__, trials=1, seed=3)
    words = shlex.split(study.best_trial.user_attrs["command"])
    assert words[:5] == ["unicornn", "train", helpers.__file__, "--seed", "3"]
    settings = parse(word for before, word in pairwise(words) if before == "--set")
    config = resolve(helpers.TASK, name=helpers.__file__, seed=3, settings=settings)
    again = train(config, tmp_path / "again", task=helpers.TASK, test=False)
    assert again.result["weights_sha256"] == Run(tmp_path / "search/trials/00000").result["weights_sha256"]
    with pytest.raises(AssertionError, match="the test set was read"):
        train(config, tmp_path / "again", task=helpers.TASK, resume=True)


def test_a_run_without_a_test_can_be_tested_later(tmp_path):
    config = resolve(small.TASK, settings={"epochs": 1, "n": 16})
    assert "test" not in train(config, tmp_path / "run", task=small.TASK, test=False).result
    assert "test" not in train(config, tmp_path / "run", task=small.TASK, test=False, resume=True).result
    later = train(config, tmp_path / "run", task=small.TASK, resume=True)
    assert later.result["test"] == train(config, tmp_path / "uninterrupted", task=small.TASK).result["test"]
    assert later.predictions is not None


@pytest.mark.usefixtures("without_training")
def test_parameters_depend_on_the_seed_and_the_number_of_the_trial(tmp_path):
    a, b, c = (run_search(tmp_path / name, seed=seed, trials=5) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert parameters_of(a) == parameters_of(b)
    assert not set(parameters_of(a)) & set(parameters_of(c))
    assert len(set(parameters_of(a))) == 5


@pytest.mark.usefixtures("without_training")
def test_a_finished_search_can_be_extended_even_in_a_renamed_folder(tmp_path):
    first = run_search(tmp_path / "search", trials=2)
    (tmp_path / "search").rename(tmp_path / "other")
    longer = run_search(tmp_path / "other", trials=4)
    assert longer.trials[:2] == first.trials
    assert parameters_of(longer) == parameters_of(run_search(tmp_path / "uninterrupted", trials=4))
    assert len(longer.trials) == 4
    assert run_search(tmp_path / "other", trials=1).trials == longer.trials


def test_trials_of_a_lost_database_are_not_overwritten(tmp_path):
    run_search(tmp_path / "search", trials=1)
    (tmp_path / "search/study.db").unlink()
    with pytest.raises(ValueError, match=r"^folder: .*search has trials"):
        run_search(tmp_path / "search", trials=1)


@pytest.mark.usefixtures("without_training")
@pytest.mark.parametrize(
    "other", [{"seed": 5}, {"epochs": 2}, {"space": {"lr": (1, 2)}}, {"sampler": "tpe"}, {"model": "gru"}]
)
def test_a_search_is_resumed_with_the_same_settings_only(tmp_path, other):
    run_search(tmp_path / "search", trials=1)
    with pytest.raises(ValueError, match=r"^search: .*, got "):
        run_search(tmp_path / "search", trials=2, **other)


@pytest.mark.filterwarnings("ignore:.*left the range of")
def test_a_diverging_trial_counts_as_failed(tmp_path):
    study = run_search(tmp_path / "search", trials=2, space={"dt": (1e20, 1e30)})
    assert [outcome(trial) for trial in study.trials] == ["failed"] * 2
    assert study.trials[0].user_attrs["failure"].startswith("loss: ")
    assert ranked(study) == []


@pytest.mark.usefixtures("without_training")
@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_pruners_stop_worse_trials(tmp_path, pruner):
    study = run_search(tmp_path / "search", pruner=pruner, trials=12, epochs=4)
    assert {outcome(trial) for trial in study.trials} == {"complete", "pruned"}
    assert all((len(t.intermediate_values) == 4) == (outcome(t) == "complete") for t in study.trials)
    assert ranked(study)[0].value == max(t.value for t in study.trials if outcome(t) == "complete")


def test_a_password_is_not_stored(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["unicornn", "search", "--storage", "postgresql://me:secret@host:5432/name"])
    run_search(tmp_path / "search", trials=1)
    for path in (tmp_path / "search").rglob("*.json"):
        assert "secret" not in path.read_text()
    assert "me:***@host" in Run(tmp_path / "search/trials/00000").config["command"]
