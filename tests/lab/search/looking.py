"""Searches that take no time: a tiny task, or no training at all."""

import math
from types import SimpleNamespace

from tests.lab.training import small
from unicornn.lab.search import search


def look(folder, task=small.__file__, **options):
    return search(task, folder=folder, **({"trials": 3, "epochs": 1, "settings": {"n": 16}} | options))


def imagined(config, folder, *, callbacks, **_):
    """In place of ``train``: the accuracy depends on lr alone, is best at 1e-3, and rises with the epochs."""
    merit = math.exp(-abs(math.log(config.training.lr / 1e-3)))
    module = SimpleNamespace(history=[], config=config)
    for epoch in range(1, config.training.epochs + 1):
        module.history.append({"epoch": epoch, "valid": merit * epoch / config.training.epochs})
        for callback in callbacks:
            callback.on_train_epoch_end(None, module)
    return SimpleNamespace(result={"valid": merit})


def drawn(study):
    """The parameters of all trials, to be compared."""
    return [tuple(sorted(trial.parameters.items())) for trial in study.trials]
