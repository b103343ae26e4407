"""The command ``unicornn``."""

from unicornn.lab.cli._app import app as app
from unicornn.lab.cli._app import console as console
from unicornn.lab.cli._commands import main as main
