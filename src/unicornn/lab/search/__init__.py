"""The paper's hyperparameter search: random, judged by the validation set; can be resumed and shared by processes.

Needs Optuna: the extra ``train``.
"""

from unicornn.lab._study import read_study as read_study
from unicornn.lab.search._search import search as search
