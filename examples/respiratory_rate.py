"""
Heartbeats and breaths per minute from PPG and ECG
==================================================

Windows of 32 s of new patients; `unicornn data bidmc-rr` fetches the files. The heart rate is visible in every beat,
whereas breathing modulates the signals only slightly, and little of it can be learned from few patients.
"""

import numpy as np
import torch

from unicornn.estimators import UnICORNNRegressor
from unicornn.lab import tasks
from unicornn.lab.data import Source


def windows(part, every):
    """Every ``every``-th window (n, 1000, 2) with every fourth sample, its rate, and its recording."""
    batch = part.batch(torch.arange(0, len(part), every), draw=0)
    recording = part.base.begin[part.rows[::every]] // 60_001  # samples of eight minutes
    return batch.u[::4].transpose(0, 1).numpy(), batch.target.numpy(), recording


for name, what in (("bidmc-hr", "heartbeats"), ("bidmc-rr", "breaths")):
    task = tasks.find(name)
    parts = task.load(Source(), task.defaults | {"split": "patient"}, 0)
    X, y, recording = windows(parts.train, 20)
    X_test, y_test, _ = windows(parts.test, 20)
    model = UnICORNNRegressor(random_state=0).fit(
        X, y, groups=recording
    )  # the penalty is chosen by leaving out recordings
    error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
    guess = np.sqrt(np.mean((y.mean() - y_test) ** 2))
    print(f"{len(X)} training windows: error {error:.2f} {what} per minute; guessing the mean: {guess:.2f}")
