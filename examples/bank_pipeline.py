"""
A bank of oscillators in a pipeline
===================================

Features from untrained oscillators, a scaler, a linear model and a grid search, with scikit-learn.
"""

import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unicornn.estimators import OscillatorBank

rng = np.random.default_rng(0)
y = np.arange(90) % 3
pitch = np.array([0.3, 0.35, 0.4])[y]
X = np.sin(pitch[:, None] * np.arange(150) + rng.uniform(0, 6, (90, 1))) + 0.5 * rng.normal(size=(90, 150))

model = make_pipeline(OscillatorBank(random_state=0), StandardScaler(), RidgeClassifierCV(alphas=np.logspace(0, 6, 13)))
search = GridSearchCV(model, {"oscillatorbank__n_oscillators": [8, 32]}, cv=3).fit(X[:60], y[:60])
print("best:", search.best_params_, f"with {search.best_score_:.2f} in cross-validation")
print(f"accuracy on new series: {search.score(X[60:], y[60:]):.2f}")
names = search.best_estimator_[0].get_feature_names_out()
print(f"{len(names)} features, the first is {names[0]}")
