"""
A classifier for your own arrays
================================

The series have unequal lengths and two channels. The model is saved and loaded again.
"""

import tempfile

import numpy as np
from sklearn.model_selection import train_test_split

from unicornn.estimators import UnICORNNClassifier

rng = np.random.default_rng(0)


def walk(slow: bool) -> np.ndarray:
    """A gait of 80 to 200 time steps, (N, 2), with random phase and pace."""
    n = np.arange(rng.integers(80, 200))
    pace = rng.normal(0.15 if slow else 0.2, 0.01)
    forward, sideways = np.sin(pace * n + rng.uniform(0, 6)), np.sin(pace / 2 * n + rng.uniform(0, 6))
    return np.stack([forward, sideways], axis=1) + 0.3 * rng.normal(size=(len(n), 2))


y = np.array(["slow", "quick"] * 60)
X = [walk(label == "slow") for label in y]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

model = UnICORNNClassifier(random_state=0).fit(X_train, y_train)
print(f"accuracy: {model.score(X_test, y_test):.2f}")

with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)  # config.json, model.safetensors, README.md
    again = UnICORNNClassifier.from_pretrained(folder)
for series, probabilities in zip(X_test[:3], again.predict_proba(X_test[:3]), strict=True):
    print(f"{len(series)} steps:", dict(zip(again.classes_.tolist(), probabilities.round(2).tolist(), strict=True)))
