"""Fit and predict, for arrays and for files."""

import subprocess
import sys

import numpy as np

from unicornn.estimators import UnICORNNClassifier

X = np.sin(np.outer(np.repeat([0.2, 0.5], 6), np.arange(40)) + np.arange(12)[:, None])
y = np.repeat(["low", "high"], 6)
model = UnICORNNClassifier(random_state=0).fit(X, y)
model.save_pretrained("model")
assert (UnICORNNClassifier.from_pretrained("model").predict(X) == model.predict(X)).all()

np.savez("series.npz", X=X, pitch=y)
for words in ("fit series.npz --target pitch --out fitted", "predict fitted series.npz"):
    subprocess.run([sys.executable, "-m", "unicornn", *words.split()], check=True)
