"""Breaths per minute from 32 s of PPG and ECG, of patients never seen; `unicornn data bidmc-rr` gets the files."""

import numpy as np
import torch

from unicornn.estimators import UnICORNNRegressor
from unicornn.lab import tasks
from unicornn.lab.data import Source

task = tasks.find("bidmc-rr")
options = {name: values[0] for name, values in task.options.items()} | {"split": "patient"}
parts = task.load(Source(), options, 0)


def windows(part, every):
    """Some of the windows (n, 1000, 2), every fourth sample, and their rates."""
    batch = part.batch(torch.arange(0, len(part), every), draw=0)
    return batch.u[::4].transpose(0, 1).numpy(), batch.target.numpy()


X, y = windows(parts.train, 40)
X_test, y_test = windows(parts.test, 20)
model = UnICORNNRegressor(random_state=0).fit(X, y)
error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
guess = np.sqrt(np.mean((y.mean() - y_test) ** 2))
print(f"{len(X)} windows to learn from: error {error:.2f} breaths per minute; guessing the mean, {guess:.2f}")
