"""
A table of sensor readings
==========================

You have recordings in a table, one row per sample, and want to classify them. This
tutorial plots the data, fits and evaluates a model, predicts, saves, and classifies
recordings while they arrive. No PyTorch is needed; ``pip install '.[fit]'``
installs all requirements.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, cross_val_score

from unicornn.estimators import UnICORNNClassifier
from unicornn.streams import Stream

rng = np.random.default_rng(0)

# %%
# The table
# ---------
# Twenty people wear an accelerometer. Each is recorded six times, walking, climbing
# stairs or resting, for three to six seconds at 50 Hz. The data are synthetic; use
# ``pd.read_csv`` for yours.

PACE = {"walking": 1.9, "stairs": 1.7, "resting": 0.25}  # steps or breaths per second


def recording(activity, person):
    """Three axes of a recording, (N, 3); pace and strength depend on the person."""
    t = np.arange(rng.integers(150, 300)) / 50
    swing = 2 * np.pi * PACE[activity] * (
        1 + 0.02 * (person % 5 - 2)
    ) * t + rng.uniform(0, 6)
    strength = {"walking": 1.0, "stairs": 0.9, "resting": 0.1}[activity] * (
        1 + 0.1 * (person % 3)
    )
    axes = [np.sin(swing), np.cos(swing), 0.5 * np.sin(2 * swing)]
    return strength * np.stack(axes, axis=1) + 0.7 * rng.normal(size=(len(t), 3))


rows, what, who = [], {}, {}
for person in range(20):
    for activity in [*PACE, *PACE]:
        name = f"r{len(what):03d}"
        frame = pd.DataFrame(
            recording(activity, person), columns=["x", "y", "z"]
        ).assign(recording=name)
        rows.append(frame.assign(time=np.arange(len(frame)) / 50))
        what[name], who[name] = activity, person
table = pd.concat(rows).set_index(["recording", "time"])
activity, person = pd.Series(what), pd.Series(who)
table.head(4)

# %%
# The estimators accept such a table directly: an index with two levels, recording and
# time, and one column per channel. They also accept arrays (n, N, d) and lists of
# arrays of different lengths.
#
# Plot
# ----

figure, panels = plt.subplots(3, 1, sharex=True, figsize=(7, 5), layout="constrained")
for panel, kind in zip(panels, PACE, strict=True):
    table.loc[activity.index[activity == kind][0]].plot(
        ax=panel, legend=kind == "walking", title=kind
    )
panels[-1].set_xlabel("seconds")
plt.show()

# %%
# Fit
# ---
# The model should work for people whom it has never seen, so all recordings of some
# people are held out for the test. ``groups`` tells ``fit`` which recordings belong
# together, so that it does the same when it chooses its penalty.

train, test = next(
    GroupShuffleSplit(1, test_size=0.3, random_state=0).split(activity, groups=person)
)
names = activity.index
X_train, X_test = table.loc[names[train]], table.loc[names[test]]

model = UnICORNNClassifier(random_state=0).fit(
    X_train, activity.iloc[train], groups=person.iloc[train]
)
right = int((model.predict(X_test) == activity.iloc[test]).sum())
people = person.iloc[test].nunique()
print(
    f"{right} of {len(test)} recordings of {people} new people: {right / len(test):.2f}"
)

# %%
# How reliable is this number? Two quick checks: the confidence interval for this number
# of recordings, and the accuracy of a simple method, here based only on the standard
# deviation of each axis.

low, high = binomtest(right, len(test)).proportion_ci(method="wilson")
print(f"95 % confidence interval: {low:.2f} to {high:.2f}")
strength = np.stack([table.loc[name].std() for name in names])
plain = LogisticRegression().fit(strength[train], activity.iloc[train])
alone = plain.score(strength[test], activity.iloc[test])
print(f"standard deviations alone: {alone:.2f}; guessing: 0.33")

# %%
# Real people differ in more than pace and strength. **Do not expect the same accuracy
# for your own sensors.** :doc:`The page on your own data </estimators>` has results on
# published data sets and compares them with other methods.

# %%
# The default model is a bank of untrained oscillators with many time scales, and ridge
# regression on their energies. It needs no gradients, so a fit takes seconds.
# ``model="network"`` trains a UnICORNN, and ``model="both"`` averages the predictions
# of the two.
#
# Which mistakes does it make?

ConfusionMatrixDisplay.from_predictions(
    activity.iloc[test], model.predict(X_test), cmap="Blues", colorbar=False
)
plt.show()

# %%
# It is a scikit-learn estimator, so cross-validation, grid searches and pipelines work
# as usual. The folds show how much the score depends on the people held out:

series = [table.loc[name].to_numpy() for name in names]
folds = GroupKFold(3).split(series, groups=person)
scores = cross_val_score(
    UnICORNNClassifier(random_state=0), series, activity.to_numpy(), cv=folds
)
print("three folds:", scores.round(2))

# %%
# Predict probabilities
# ---------------------

pd.DataFrame(
    model.predict_proba(X_test), columns=model.classes_, index=names[test]
).round(3).head(4)

# %%
# Save
# ----
# A saved model is a folder with weights, settings and a readable model card. It
# contains no pickles, and loading rejects files that were changed.

with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    print(sorted(path.name for path in Path(folder).iterdir()))
    again = UnICORNNClassifier.from_pretrained(folder)
assert (again.predict(X_test) == model.predict(X_test)).all()

# %%
# The command line does the same with files: ``unicornn fit walks.csv --target activity
# --out model``, then ``unicornn predict model new.csv``. ``--dry-run`` shows how it
# interprets the file.
#
# Predict early
# -------------
# Predictions work for sequences of any length, so a recording can be classified before
# it ends. The plot shows the probabilities of all classes as a recording of stairs
# arrives.

stairs = table.loc[
    names[test][(activity.iloc[test] == "stairs").to_numpy()][0]
].to_numpy()
seen = np.arange(20, len(stairs) + 1, 10)
answer = model.predict_proba([stairs[:n] for n in seen])
plt.plot(seen / 50, answer, label=model.classes_)
plt.xlabel("seconds seen")
plt.ylabel("probability")
plt.legend()
plt.show()

# %%
# Live streams
# ------------
# For readings that arrive all day long, a trained network needs only a small state per
# person and never the past samples. ``Stream`` accepts new samples of any number of
# people and returns a prediction for each of them. Here four recordings arrive half a
# second at a time. With ``segments=1`` the network reads its energies at the end of all
# that has come; a network that cuts series into pieces has to know where they end.

network = UnICORNNClassifier(
    "network", segments=1, dt=0.4, hidden_size=32, max_epochs=60, random_state=0
)
network.fit(X_train, activity.iloc[train], groups=person.iloc[train])
print(f"the network by itself: {network.score(X_test, activity.iloc[test]):.2f}")

live = {name: table.loc[name].to_numpy() for name in names[test][:4]}
stream = Stream(network)
for start in range(0, 150, 25):
    said = stream.predict_many(
        {name: samples[start : start + 25] for name, samples in live.items()}
    )
for name, answer in said.items():
    print(f"{name} after three seconds: {answer}; in truth: {activity[name]}")
