"""No code from data: nothing in the package unpickles, evaluates or executes what it reads."""

import ast
from pathlib import Path

import pytest

import unicornn

ROOT = Path(unicornn.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml"}
FORBIDDEN_CALLS = {"eval", "exec", "compile"}
EXECUTES = {"lab/tasks/_registry.py"}  # the file of a task that the user names


def name(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name)
def test_nothing_that_is_read_is_executed(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            assert not FORBIDDEN_MODULES & {module.split(".")[0] for module in modules}
        if not isinstance(node, ast.Call):
            continue
        options = {keyword.arg: getattr(keyword.value, "value", None) for keyword in node.keywords}
        called = ast.unparse(node.func)
        assert called not in FORBIDDEN_CALLS
        assert options.get("allow_pickle") is not True
        if called == "torch.load":
            assert options.get("weights_only", True) is True
        if called == "np.load":
            assert options.get("allow_pickle") is False, "said, not left to numpy's default"
        if called.endswith("exec_module"):
            assert name(path) in EXECUTES
