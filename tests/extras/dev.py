"""Development tools."""

import importlib

for name in ("build", "hypothesis", "mypy", "psutil", "pytest", "spacy", "twine", "xdist"):
    importlib.import_module(name)
