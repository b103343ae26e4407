"""``unicornn fit``, ``predict`` and ``features``: reading files of time series, fitting models to them."""

from unicornn.lab.fit._files import read as read
from unicornn.lab.fit._files import stream as stream
from unicornn.lab.fit._fit import features_file as features_file
from unicornn.lab.fit._fit import fit_file as fit_file
from unicornn.lab.fit._fit import predict_file as predict_file
from unicornn.lab.fit._fit import score_text as score_text

__all__ = ["features_file", "fit_file", "predict_file", "read", "score_text", "stream"]
