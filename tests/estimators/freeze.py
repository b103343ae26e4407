"""``python -m tests.estimators.freeze FOLDER`` writes a small saved model and what it predicts."""

import json
import sys
from pathlib import Path

from tests.estimators.test_estimators import tones
from unicornn.estimators import UnICORNNClassifier, _base
from unicornn.estimators._bank import OscillatorBank


class SmallBank(OscillatorBank):
    """A bank whose file is small."""

    def __init__(self, random_state=None):
        super().__init__(4, random_state=random_state)


def main(folder: Path) -> None:
    _base.OscillatorBank = SmallBank
    X, y, _ = tones(12)
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
