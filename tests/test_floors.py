"""Two floors: the library stands without the lab and without what only the lab needs."""

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import unicornn

ROOT = Path(unicornn.__file__).parent
DOOR = ROOT / "__main__.py"
LIBRARY = sorted(path for path in ROOT.rglob("*.py") if ROOT / "lab" not in path.parents and path != DOOR)

CORE = {"torch", "numpy", "numba", "llvmlite"}
"""What ``pip install unicornn`` brings."""

OWN_EXTRA = {"triton": {"triton"}, "estimators": {"sklearn", "safetensors", "pandas"}, "export": {"onnx"}}
"""Rooms of the library behind an extra of their own, and what it brings."""


def module(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


@pytest.mark.parametrize("path", LIBRARY, ids=module)
def test_nothing_in_the_library_imports_the_lab(path):
    assert not [name for name in imports(path) if f"{name}.".startswith("unicornn.lab.")]


def test_the_library_imports_without_the_labs_dependencies():
    modules = [module(path) for path in LIBRARY]
    basic = [name for name in modules if not OWN_EXTRA.keys() & set(name.split("."))]
    code = f"""
import importlib, sys

for name in {sorted(extras())!r}:
    sys.modules[name] = None  # as if it were not installed
for name in {basic!r}:
    importlib.import_module(name)
assert "unicornn.lab" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def extras():
    """The packages of all extras, by the names they are imported by."""
    own = set()
    for text in importlib.metadata.requires("unicornn") or []:
        if "extra ==" in text:
            name = text.split(";")[0].split("[")[0].strip().split(">")[0].split("=")[0].split("<")[0].split(" ")[0]
            own.add(name.lower().replace("-", "_"))
    own |= {"lightning", "lightning_fabric", "torchmetrics", "sklearn", "psycopg", "onnxruntime", "onnxscript"}
    return own - CORE - {"unicornn"}


def test_the_extras_are_read():
    assert {"optuna", "typer", "rich", "matplotlib", "safetensors", "pandas", "sklearn", "triton"} <= extras()


def test_the_version_is_the_packages():
    assert unicornn.__version__ == importlib.metadata.version("unicornn")


LIMIT = 10
"""Parameters of a function. Keyword-only ones do not count."""

LONGER = {"cornn_adjoint", "gated_adjoint", "lem_adjoint", "pool"}
"""Kernels of the baselines and the bank that take more."""


def crowded(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name in LONGER:
            continue
        if any("triton.jit" in ast.unparse(decorator) for decorator in node.decorator_list):
            continue  # launched by keyword
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls", "ctx")]
        if len([name for name in names if name != "typingctx"]) > LIMIT:
            yield f"{path.name}: {node.name}({', '.join(names)})"


def test_no_function_takes_more_than_ten_parameters():
    assert not [text for path in ROOT.rglob("*.py") for text in crowded(path)]
