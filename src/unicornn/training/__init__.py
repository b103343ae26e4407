"""Training: settings, runs that can be killed and resumed, evaluation."""

from unicornn.settings import Config as Config
from unicornn.settings import resolve as resolve
from unicornn.training.checkpoint import BadCheckpoint as BadCheckpoint
from unicornn.training.module import Diverged as Diverged
from unicornn.training.run import RunExists as RunExists
from unicornn.training.run import evaluate as evaluate
from unicornn.training.run import load_network as load_network
from unicornn.training.run import train as train
