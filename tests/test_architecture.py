"""The library doesn't need the lab; nothing in the package executes data."""

import ast
import importlib.metadata
import re
from pathlib import Path

import pytest

import unicornn
from tests.processes import python

ROOT = Path(unicornn.__file__).parent
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
LIBRARY = [name for name in TREES if not name.startswith("lab/") and name != "__main__.py"]

CORE = {"torch", "numpy", "numba", "llvmlite"}
"""Dependencies of the package without extras."""

OWN_EXTRA = {"triton", "estimators", "export", "distributed", "_engines", "_bank", "_bank_kernels"}
"""Modules and packages of the library that need an extra."""

FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml"}
FORBIDDEN_CALLS = {"eval", "exec", "compile"}
EXECUTES = {"lab/tasks/_registry.py"}  # a task file named by the user


def module(name):
    return ".".join(("unicornn", *Path(name).with_suffix("").parts)).removesuffix(".__init__")


def imports(name):
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import"
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_does_not_import_the_lab(name):
    assert not [imported for imported in imports(name) if f"{imported}.".startswith("unicornn.lab.")]


def extras():
    """Packages of all extras, by import name."""
    names = set()
    for text in importlib.metadata.requires("unicornn") or []:
        if "extra ==" in text:
            name = text.split(";")[0].split("[")[0].strip().split(">")[0].split("=")[0].split("<")[0].split(" ")[0]
            names.add(name.lower().replace("-", "_"))
    names |= {"lightning", "lightning_fabric", "torchmetrics", "sklearn", "psycopg", "onnxruntime", "onnxscript"}
    return names - CORE - {"unicornn"}


def test_the_library_imports_without_the_extras():
    missing = extras()
    assert {"optuna", "typer", "rich", "matplotlib", "safetensors", "pandas", "sklearn", "triton"} <= missing
    basic = [module(name) for name in LIBRARY if not OWN_EXTRA & set(Path(name).with_suffix("").parts)]
    code = f"""
import importlib, sys

for name in {sorted(missing)!r}:
    sys.modules[name] = None  # as if it were not installed
for name in {basic!r}:
    importlib.import_module(name)
assert "unicornn.lab" not in sys.modules
"""
    python("-c", code)


@pytest.mark.parametrize("name", TREES)
def test_data_is_never_executed(name):
    assert not FORBIDDEN_MODULES & {imported.split(".")[0] for imported in imports(name)}
    for node in ast.walk(TREES[name]):
        if not isinstance(node, ast.Call):
            continue
        options = {keyword.arg: getattr(keyword.value, "value", None) for keyword in node.keywords}
        called = ast.unparse(node.func)
        assert called not in FORBIDDEN_CALLS
        assert options.get("allow_pickle") is not True
        if called == "torch.load":
            assert options.get("weights_only", True) is True
        if called == "np.load":
            assert options.get("allow_pickle") is False, "explicitly, not by numpy's default"
        if called.endswith("exec_module"):
            assert name in EXECUTES


PRIVATE = re.compile(r"\btorch(\.\w+)*\._[a-z]|\bnumba\.(core|np)\b|from torch\S* import _", re.IGNORECASE)
"""APIs of PyTorch and Numba without documentation."""


def test_private_apis_are_used_in_one_module_each():
    users = {path.name for path in ROOT.rglob("*.py") if PRIVATE.search(path.read_text())}
    assert users == {"_torch_internals.py", "_numba_internals.py"}
