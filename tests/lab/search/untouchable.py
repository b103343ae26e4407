"""A task whose test set must not even be counted."""

from tests.lab.training import small
from unicornn.lab.tasks import Task


class Untouchable:
    def __len__(self):
        raise AssertionError("the test set was looked at")

    def batch(self, indices, draw):
        raise AssertionError("the test set was looked at")


def load(source, options, seed):
    return small.load(source, options, seed)._replace(test=Untouchable())


TASK = Task(
    name="untouchable",
    title="Which was larger",
    kind="classify",
    load=load,
    d=2,
    outputs=2,
    size="little",
    models={"unicornn": {"hidden_size": 8, "num_layers": 2, "dt": (0.01, 0.3)}},
    training=small.TASK.training,
    options=small.TASK.options,
)
