"""
Intervals of a regression
=========================

Split conformal prediction: the errors on series that were not fitted give an interval that contains 90 % of new targets
on average, whatever their distribution, as long as new series are like those.
"""

import numpy as np

from unicornn.estimators import UnICORNNRegressor

rng = np.random.default_rng(0)
rate = rng.uniform(0.1, 0.4, 240)
X = np.sin(rate[:, None] * np.arange(150) + rng.uniform(0, 6, (240, 1))) + 0.5 * rng.normal(size=(240, 150))
y = 100 * rate + rng.normal(size=240)

fitted, held_out, new = slice(0, 100), slice(100, 160), slice(160, 240)
model = UnICORNNRegressor(random_state=0).fit(X[fitted], y[fitted])

COVERAGE = 0.9
errors = np.sort(np.abs(model.predict(X[held_out]) - y[held_out]))
width = errors[int(np.ceil(COVERAGE * (len(errors) + 1))) - 1]

predicted = model.predict(X[new])
inside = np.abs(predicted - y[new]) <= width
print(f"predictions ± {width:.2f}; targets range from {y.min():.0f} to {y.max():.0f}")
print(f"{inside.mean():.0%} of {len(inside)} new targets are within their interval, {COVERAGE:.0%} were asked for")
