"""The paper's search for hyperparameters: at random, judged by the validation set, killed and resumed, shared.

Needs Optuna: ``pip install 'unicornn[train]'``.
"""

from unicornn.lab._study import Study as Study
from unicornn.lab._study import Trial as Trial
from unicornn.lab._study import read_study as read_study
from unicornn.lab.search._search import search as search
