"""
Clustering
==========

k-means on the features of a bank finds three wave forms in series of different lengths, phases and amplitudes, without
labels.
"""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unicornn.estimators import OscillatorBank

rng = np.random.default_rng(0)
SHAPES = {"sine": np.sin, "peaks": lambda x: np.sin(x) ** 3, "square": lambda x: np.sign(np.sin(x))}


def wave(name: str) -> np.ndarray:
    n = np.arange(rng.integers(150, 250))
    return SHAPES[name](0.3 * n + rng.uniform(0, 6)) + 0.2 * rng.normal(size=len(n))


names = np.array(list(SHAPES) * 30)
X = [wave(name) for name in names]
model = make_pipeline(OscillatorBank(random_state=0), StandardScaler(), PCA(10), KMeans(3, n_init=10, random_state=0))
clusters = model.fit_predict(X)
for cluster in range(3):
    found, counts = np.unique(names[clusters == cluster], return_counts=True)
    print(f"cluster {cluster}:", dict(zip(found.tolist(), counts.tolist(), strict=True)))
print(f"adjusted Rand index: {adjusted_rand_score(names, clusters):.2f} (0 for chance, 1 for perfect agreement)")
