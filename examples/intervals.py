"""
Intervals of a regression
=========================

The errors for left-out series give an interval around each prediction. It contains the asked share of new targets as
long as new series are like those that were fitted.
"""

import numpy as np

from unicornn.estimators import UnICORNNRegressor

rng = np.random.default_rng(0)
rate = rng.uniform(0.1, 0.4, 240)
X = np.sin(rate[:, None] * np.arange(150) + rng.uniform(0, 6, (240, 1))) + 0.5 * rng.normal(size=(240, 150))
y = 100 * rate + rng.normal(size=240)

fitted, new = slice(0, 160), slice(160, 240)
model = UnICORNNRegressor(random_state=0).fit(X[fitted], y[fitted])

COVERAGE = 0.9
low, high = model.predict_interval(X[new], COVERAGE).T
inside = (low <= y[new]) & (y[new] <= high)
print(f"intervals are {np.mean(high - low):.2f} wide; targets range from {y.min():.0f} to {y.max():.0f}")
print(f"{inside.mean():.0%} of {len(inside)} new targets are within their interval, {COVERAGE:.0%} were asked for")
