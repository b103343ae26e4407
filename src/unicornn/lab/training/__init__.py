"""Training: settings, runs that can be killed and resumed, evaluation."""

from unicornn.lab.training._config import Config as Config
from unicornn.lab.training._config import resolve as resolve
from unicornn.lab.training._evaluate import evaluate as evaluate
from unicornn.lab.training._evaluate import load_network as load_network
from unicornn.lab.training._train import train as train
