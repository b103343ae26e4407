"""scikit-learn estimators for time series given as arrays, lists of arrays or data frames. No PyTorch code needed."""

from unicornn._extras import install_hint as _install_hint

try:
    import huggingface_hub as _huggingface_hub  # noqa: F401
    import jinja2 as _jinja2  # noqa: F401
    import safetensors as _safetensors  # noqa: F401
    import sklearn as _sklearn  # noqa: F401
except ImportError as _error:
    raise ImportError(f"unicornn.estimators needs {_error.name}: {_install_hint('fit')}") from _error

from unicornn.estimators._bank import OscillatorBank as OscillatorBank
from unicornn.estimators._classifier import UnICORNNClassifier as UnICORNNClassifier
from unicornn.estimators._explanation import Explanation as Explanation
from unicornn.estimators._regressor import UnICORNNRegressor as UnICORNNRegressor

__all__ = ["Explanation", "OscillatorBank", "UnICORNNClassifier", "UnICORNNRegressor"]
