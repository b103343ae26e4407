"""``python -m tests.estimators.freeze`` writes a small saved model and its predictions to ``frozen``."""

import json
from functools import partial
from pathlib import Path

from tests.estimators.helpers import tones
from unicornn.estimators import UnICORNNClassifier, _base
from unicornn.estimators._bank import OscillatorBank

FROZEN = Path(__file__).parent / "frozen"


def main() -> None:
    _base.OscillatorBank = partial(OscillatorBank, 4, smallest_window=32)  # a small file
    X, y, _ = tones(12, d=2)
    model = UnICORNNClassifier("both", hidden_size=4, num_layers=1, dt=0.5, max_epochs=2, random_state=0).fit(X, y)
    model.save_pretrained(FROZEN)
    some = [x.round(3) for x in X[:3]]
    predictions = {"predict": model.predict(some).tolist(), "predict_proba": model.predict_proba(some).tolist()}
    expected = {"X": [x.tolist() for x in some], **predictions}
    (FROZEN / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
