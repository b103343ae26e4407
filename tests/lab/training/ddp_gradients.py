"""For test_ddp: trains one step on the small task, and saves the gradient that the optimiser was given."""

import sys

import lightning.pytorch as pl
import torch

from tests.lab.training import small
from unicornn.lab.training import resolve, train


class Gradients(pl.Callback):
    def on_before_optimizer_step(self, trainer, module, optimizer):
        if trainer.global_step == 0 and trainer.is_global_zero:
            torch.save({k: p.grad for k, p in module.network.named_parameters()}, f"{sys.argv[1]}.gradients")


if __name__ == "__main__":
    settings = {"epochs": 1, "dropout": 0.0, "batch_size": 25, "n": 51}
    config = resolve(small.TASK, name=small.__file__, settings=settings)
    train(config, sys.argv[1], callbacks=[Gradients()], devices=int(sys.argv[2]))
