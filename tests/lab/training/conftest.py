import shutil

import pytest

from tests.lab.training.helpers import config, train


@pytest.fixture(scope="package")
def finished(tmp_path_factory):
    """Folder of a finished run of one epoch, for reading."""
    return train(config(epochs=1), tmp_path_factory.mktemp("finished") / "run").path


@pytest.fixture
def run_copy(finished, tmp_path):
    """Copy of the finished run, to be damaged or resumed."""
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"
