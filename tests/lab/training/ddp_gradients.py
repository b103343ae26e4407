"""Script for test_ddp: trains the small task for one epoch and saves the first gradient."""

import sys

import torch

from tests.lab.training import helpers
from unicornn.lab.training._processes import rank


def save(trainer):
    if trainer.step == 1 and rank() == 0:
        torch.save({k: p.grad for k, p in trainer.network.named_parameters()}, f"{sys.argv[1]}.gradients")


if __name__ == "__main__":
    with helpers.after_each_step(save):
        helpers.train(helpers.config(epochs=1, dropout=0.0, batch_size=25, n=51), sys.argv[1])
