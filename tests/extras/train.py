"""Training, a search, a report and the command."""

import subprocess
import sys

from unicornn.lab import report, tasks, training
from unicornn.lab.search import search

settings = {"hidden_size": 4}
training.train(training.resolve(tasks.find("digits"), settings=settings | {"epochs": 1}), "run")
search(tasks.find("digits"), folder="search", trials=1, epochs=1, settings=settings)
assert report.report(["run", "search"], "report.html").exists()
subprocess.run([sys.executable, "-m", "unicornn", "tasks"], check=True)
