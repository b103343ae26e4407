import pytest

from tests.lab.training.test_train import config, train


@pytest.fixture(scope="package")
def finished(tmp_path_factory):
    """The folder of a run that came to its end; to be copied, not changed."""
    return train(config(epochs=1), tmp_path_factory.mktemp("finished") / "run").path
