"""
Forecasting
===========

A regressor learns the next value from the last 64 and is compared with repeating the last value. Its own predictions
continue the series.
"""

import numpy as np

from unicornn.estimators import UnICORNNRegressor

rng = np.random.default_rng(0)
t = np.arange(500)
series = np.sin(0.2 * t) + 0.5 * np.sin(0.063 * t + 1) + 0.1 * rng.normal(size=len(t))

PAST = 64
windows = np.lib.stride_tricks.sliding_window_view(series, PAST + 1)
X, y = windows[:, :PAST], windows[:, PAST]
split = 350  # the future is never part of the training set

model = UnICORNNRegressor(random_state=0).fit(X[:split], y[:split])


def error(prediction: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))


print(f"one step ahead: {error(model.predict(X[split:]), y[split:]):.3f}")
print(f"repeating the last value: {error(X[split:, -1], y[split:]):.3f}, noise of the series: 0.100")

past = X[split].tolist()
for _ in range(30):
    past.append(float(model.predict([past[-PAST:]])[0]))
print(f"30 steps ahead: {error(np.array(past[PAST:]), y[split : split + 30]):.3f}")
