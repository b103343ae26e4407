"""
Anomaly detection
=================

An isolation forest on the features of a bank, fitted to normal series only. No labels are needed; those below only
measure the result.
"""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unicornn.estimators import OscillatorBank

rng = np.random.default_rng(0)


def vibration(defect: bool) -> np.ndarray:
    """200 samples of a machine (N,), with a short burst if it has a defect."""
    x = np.sin(rng.normal(0.2, 0.005) * np.arange(200) + rng.uniform(0, 6)) + 0.15 * rng.normal(size=200)
    if defect:
        start = rng.integers(40, 150)
        x[start : start + 15] += 1.2 * np.sin(1.5 * np.arange(15))
    return x


normal = [vibration(False) for _ in range(150)]
defect = np.arange(80) % 8 == 0
mixed = [vibration(each) for each in defect]

bank = OscillatorBank(random_state=0)
model = make_pipeline(bank, StandardScaler(), PCA(20), IsolationForest(random_state=0)).fit(normal)
suspicion = -model.score_samples(mixed)  # higher is more unusual
print(f"area under the ROC curve: {roc_auc_score(defect, suspicion):.2f}")
first = np.argsort(-suspicion)[: defect.sum()]
print(f"of the {len(first)} most suspicious series, {defect[first].sum()} have a defect")
