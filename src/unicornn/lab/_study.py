"""Searches as Optuna's studies: reading one from its folder, and what Optuna has no name for.

User attributes of a study: ``title`` of the task, ``requested`` number of trials, and ``plan``, see ``search``. Of a
trial: ``command``, which trains with its settings and evaluates on the test set, and ``failure``, the reason if it
diverged or ran out of memory; Optuna regards such trials as pruned.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from unicornn._files import atomic_path
from unicornn.lab._metric import Metric
from unicornn.lab.errors import NotARun

if TYPE_CHECKING:
    import optuna
    from optuna.storages import BaseStorage

DATABASE, STUDY_NAME = "study.db", "search"  # in the folder of a search, which can be renamed


def read_study(folder: Path | str) -> optuna.Study:
    """The search in a folder, as an Optuna study in memory. Raises ``NotARun`` if it cannot be read.

    Example:
        >>> from unicornn.lab.search import read_study
        >>> read_study("nowhere")
        Traceback (most recent call last):
        ...
        unicornn.lab.errors.NotARun: study: expected the folder of a search, but there is no nowhere/study.db
    """
    from optuna.exceptions import StorageInternalError
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import SQLAlchemyError

    path = Path(folder) / DATABASE
    if not path.is_file():
        raise NotARun(f"study: expected the folder of a search, but there is no {path}")
    with quiet_optuna():
        try:
            storage = RDBStorage(f"sqlite:///file:{path.resolve()}?mode=ro&uri=true")
            try:
                study = in_memory(storage, STUDY_NAME)
            finally:
                storage.engine.dispose()
            if "plan" not in study.user_attrs:
                raise KeyError("a search of another program")
        except (SQLAlchemyError, StorageInternalError, RuntimeError, KeyError) as error:
            raise NotARun(f"study: expected {path} as `unicornn search` writes it, got {error}") from None
    return study


def in_memory(storage: BaseStorage, name: str) -> optuna.Study:
    """A copy of a study that needs no database."""
    import optuna

    memory = optuna.storages.InMemoryStorage()
    optuna.copy_study(from_study_name=name, from_storage=storage, to_storage=memory)
    return optuna.load_study(study_name=name, storage=memory)


def copy_to_folder(folder: Path, storage: BaseStorage, name: str) -> None:
    """Copies a study from another storage to the folder of its search, where `unicornn report` reads it."""
    import optuna

    with atomic_path(folder / DATABASE) as path:
        local = optuna.storages.RDBStorage(f"sqlite:///{path.resolve()}")
        optuna.copy_study(from_study_name=name, to_study_name=STUDY_NAME, from_storage=storage, to_storage=local)
        local.engine.dispose()


def metric_of(study: optuna.Study) -> Metric:
    return Metric(study.user_attrs["plan"]["metric"], study.direction.name == "MAXIMIZE")


def outcome(trial: optuna.trial.FrozenTrial) -> str:
    """ "complete", "pruned" (stopped early), or "failed" (loss not finite, or out of memory); "" for other trials."""
    if trial.state.name not in ("COMPLETE", "PRUNED"):
        return ""
    return "failed" if "failure" in trial.user_attrs else trial.state.name.lower()


def ranked(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """The complete trials, best first; ties by number."""
    complete = [trial for trial in study.trials if outcome(trial) == "complete"]
    return metric_of(study).ranked(complete, value=lambda trial: trial.value)


def seconds(trial: optuna.trial.FrozenTrial) -> float:
    """Time of a trial."""
    return 0.0 if trial.duration is None else trial.duration.total_seconds()


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Turns off Optuna's log messages and its warnings about experimental functions."""
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
