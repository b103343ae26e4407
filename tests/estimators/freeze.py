"""``python -m tests.estimators.freeze FOLDER`` writes a small saved model and what it predicts."""

import json
import sys
from functools import partial
from pathlib import Path

from tests.estimators.test_estimators import tones
from unicornn.estimators import UnICORNNClassifier, _base
from unicornn.estimators._bank import OscillatorBank


def main(folder: Path) -> None:
    _base.OscillatorBank = partial(OscillatorBank, 4)  # whose file is small
    X, y, _ = tones(12, d=2)
    model = UnICORNNClassifier("both", hidden_size=4, num_layers=1, dt=0.5, max_epochs=2, random_state=0).fit(X, y)
    model.save_pretrained(folder)
    few = [x.round(3).tolist() for x in X[:3]]
    expected = {
        "X": few,
        "predict": model.predict(X[:3]).tolist(),
        "predict_proba": model.predict_proba(X[:3]).tolist(),
    }
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
