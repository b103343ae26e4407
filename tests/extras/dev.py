"""The tools of those who work on the package."""

import importlib

for name in ("build", "hypothesis", "mypy", "psutil", "pytest", "spacy", "twine", "xdist"):
    importlib.import_module(name)
