"""
A table of sensor readings
==========================

You have recordings in a table, one row per sample, and want to know what each recording shows. No PyTorch is needed:
this tutorial looks at the data, fits a model, examines it, predicts, saves, and follows a recording while it is still
going on. ``pip install 'unicornn[fit]'`` installs what is used here.
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
# Twenty people wear an accelerometer. Each is recorded six times, walking, climbing stairs or resting, for three to
# six seconds at 50 Hz. The numbers are made up here; in your case this is ``pd.read_csv``.

PACE = {"walking": 1.9, "stairs": 1.7, "resting": 0.25}  # steps or breaths per second


def recording(activity, person):
    """Three axes of a recording, (N, 3), with a pace, a phase and a strength that are this person's."""
    t = np.arange(rng.integers(150, 300)) / 50
    swing = 2 * np.pi * PACE[activity] * (1 + 0.02 * (person % 5 - 2)) * t + rng.uniform(0, 6)
    strength = {"walking": 1.0, "stairs": 0.9, "resting": 0.1}[activity] * (1 + 0.1 * (person % 3))
    axes = [np.sin(swing), np.cos(swing), 0.5 * np.sin(2 * swing)]
    return strength * np.stack(axes, axis=1) + 0.7 * rng.normal(size=(len(t), 3))


rows, what, who = [], {}, {}
for person in range(20):
    for activity in [*PACE, *PACE]:
        name = f"r{len(what):03d}"
        frame = pd.DataFrame(recording(activity, person), columns=["x", "y", "z"]).assign(recording=name)
        rows.append(frame.assign(time=np.arange(len(frame)) / 50))
        what[name], who[name] = activity, person
table = pd.concat(rows).set_index(["recording", "time"])
activity, person = pd.Series(what), pd.Series(who)
table.head(4)

# %%
# The estimators take such a table as it is: an index of two levels, recording and time, and one column per channel.
# They also take arrays (n, N, d) and lists of arrays of different lengths.
#
# Look
# ----

figure, panels = plt.subplots(3, 1, sharex=True, figsize=(7, 5), layout="constrained")
for panel, kind in zip(panels, PACE, strict=True):
    table.loc[activity.index[activity == kind][0]].plot(ax=panel, legend=kind == "walking", title=kind)
panels[-1].set_xlabel("seconds")
plt.show()

# %%
# Fit
# ---
# What counts is how well the model does for people it has never seen, so all recordings of some people are left out
# for the test. ``groups`` tells the fit which recordings belong together, so that it does the same when it chooses
# its penalty.

train, test = next(GroupShuffleSplit(1, test_size=0.3, random_state=0).split(activity, groups=person))
names = activity.index
X_train, X_test = table.loc[names[train]], table.loc[names[test]]

model = UnICORNNClassifier(random_state=0).fit(X_train, activity.iloc[train], groups=person.iloc[train])
right = int((model.predict(X_test) == activity.iloc[test]).sum())
print(f"{right} of {len(test)} recordings of {person.iloc[test].nunique()} people never seen: {right / len(test):.2f}")

# %%
# How far can this number be trusted? Two checks take a moment. The first is the range of true accuracies that would
# give such a result with so few recordings. The second is what a plain method gets, here from nothing but how
# strongly each axis moves.

low, high = binomtest(right, len(test)).proportion_ci(method="wilson")
print(f"true accuracies that fit this result: {low:.2f} to {high:.2f}")
strength = np.stack([table.loc[name].std() for name in names])
plain = LogisticRegression().fit(strength[train], activity.iloc[train])
print(f"strengths of the axes alone: {plain.score(strength[test], activity.iloc[test]):.2f}; guessing: 0.33")

# %%
# These recordings were made by a formula, and real people differ in more than pace and strength. **Do not expect the
# same number for your own sensors.** :doc:`The page on your own data </estimators>` has results on published data sets,
# beside other methods.

# %%
# The default model is a bank of untrained oscillators with many time scales, and ridge regression on how strongly each
# of them was driven. It computes no gradient, so a fit takes seconds. ``model="network"`` trains a UnICORNN, and
# ``model="both"`` takes the mean of the two.
#
# Which mistakes does it make?

ConfusionMatrixDisplay.from_predictions(activity.iloc[test], model.predict(X_test), cmap="Blues", colorbar=False)
plt.show()

# %%
# It is a scikit-learn estimator, so cross-validation, grid searches and pipelines work as usual. The folds show how
# much the score depends on who is left out:

series = [table.loc[name].to_numpy() for name in names]
folds = GroupKFold(3).split(series, groups=person)
scores = cross_val_score(UnICORNNClassifier(random_state=0), series, activity.to_numpy(), cv=folds)
print("three folds:", scores.round(2))

# %%
# Predict, with a probability
# ---------------------------

pd.DataFrame(model.predict_proba(X_test), columns=model.classes_, index=names[test]).round(3).head(4)

# %%
# Save
# ----
# A saved model is a folder with weights, settings and a model card that people can read. There are no pickles in it,
# and a file that was changed is refused when the model is loaded.

with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    print(sorted(path.name for path in Path(folder).iterdir()))
    again = UnICORNNClassifier.from_pretrained(folder)
assert (again.predict(X_test) == model.predict(X_test)).all()

# %%
# The same from the command line, for a file: ``unicornn fit walks.csv --target activity --out model``, then
# ``unicornn predict model new.csv``. With ``--dry-run`` it says what it understood of the file.
#
# While it is going on
# --------------------
# Sequences of any length are predicted, so a recording can be judged before it is over. Here is the probability of
# the right answer as a recording of stairs comes in, sample by sample.

stairs = table.loc[names[test][(activity.iloc[test] == "stairs").to_numpy()][0]].to_numpy()
seen = np.arange(20, len(stairs) + 1, 10)
answer = model.predict_proba([stairs[:n] for n in seen])
plt.plot(seen / 50, answer, label=model.classes_)
plt.xlabel("seconds seen")
plt.ylabel("probability")
plt.legend()
plt.show()

# %%
# Live, for many at once
# ----------------------
# Where readings arrive all day long, a trained network follows them with a few numbers of state per person and never
# needs the past again. ``Stream`` takes whatever has arrived, from any number of people, and answers for each of them.
# Here four recordings come in half a second at a time. With ``segments=1`` the network reads its energies at the end of
# all that has come; a network that cuts series into pieces has to know where they end.

network = UnICORNNClassifier("network", segments=1, dt=0.4, hidden_size=32, max_epochs=60, random_state=0)
network.fit(X_train, activity.iloc[train], groups=person.iloc[train])
print(f"the network by itself: {network.score(X_test, activity.iloc[test]):.2f}")

live = {name: table.loc[name].to_numpy() for name in names[test][:4]}
stream = Stream(network)
for start in range(0, 150, 25):
    said = stream.predict_many({name: samples[start : start + 25] for name, samples in live.items()})
for name, answer in said.items():
    print(f"{name} after three seconds: {answer}; in truth: {activity[name]}")
