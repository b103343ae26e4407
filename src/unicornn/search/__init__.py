"""The paper's search for hyperparameters: at random, judged by the validation set, killed and resumed, shared.

Needs Optuna: ``pip install 'unicornn[train]'``.
"""

from unicornn.search.run import search as search
from unicornn.studies import Study as Study
from unicornn.studies import Trial as Trial
from unicornn.studies import read_study as read_study
