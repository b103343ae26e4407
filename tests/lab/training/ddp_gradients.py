"""For test_ddp: trains one epoch of the small task, and saves the gradient that the optimiser was given first."""

import sys

import torch

from tests.lab.training import helpers
from unicornn.lab.training import resolve, train
from unicornn.lab.training._processes import rank


def save(loop):
    if loop.step == 1 and rank() == 0:
        torch.save({k: p.grad for k, p in loop.network.named_parameters()}, f"{sys.argv[1]}.gradients")


if __name__ == "__main__":
    config = resolve(helpers.TASK, settings={"epochs": 1, "dropout": 0.0, "batch_size": 25, "n": 51})
    with helpers.after_each_step(save):
        train(config, sys.argv[1], task=helpers.TASK)
