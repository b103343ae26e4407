"""UnICORNN: recurrent networks of undamped oscillators for very long sequences, exactly reversible in time."""

from importlib.metadata import version as _version

from unicornn import functional as functional
from unicornn._layer import UnICORNN as UnICORNN
from unicornn._layer import UnICORNNCell as UnICORNNCell
from unicornn._load import load_model as load_model
from unicornn._state import State as State
from unicornn._suggest import suggest_dt as suggest_dt

__version__ = _version("unicornn")
