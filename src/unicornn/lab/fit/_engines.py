"""Parquet files as frames of Dask, Ray or Spark: the option ``--engine`` of the commands."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unicornn import _checks as checks
from unicornn._extras import install_hint
from unicornn.errors import BadValue, MissingData

ENGINES = ("dask", "ray", "spark")


@contextlib.contextmanager
def open_frame(engine: str, address: str | None, pattern: Path) -> Iterator[Any]:
    """Yields a frame of Parquet files. Without an address, the engine runs on this machine.

    Args:
        engine: "dask", "ray" or "spark".
        address: Address of the cluster: tcp://HOST:8786, ray://HOST:10001, spark://HOST:7077.
        pattern: File, folder or pattern of files.
    """
    checks.choice("engine", engine, ENGINES)
    if not (pattern.exists() or any(pattern.parent.glob(pattern.name))):
        raise MissingData(f"FILE: expected Parquet files, found none at {pattern}")
    try:
        with contextlib.ExitStack() as stack:
            yield _OPENERS[engine](address, str(pattern), stack)
    except ModuleNotFoundError as error:
        raise BadValue(f"engine: {engine} needs {error.name}: {install_hint(engine)}") from error


def _dask(address: str | None, pattern: str, stack: contextlib.ExitStack) -> Any:
    import dask
    import dask.dataframe
    from distributed import Client

    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})  # after it, local workers are not restarted
    stack.enter_context(Client(address) if address else Client(threads_per_worker=1, dashboard_address=None))
    return dask.dataframe.read_parquet(pattern)


def _ray(address: str | None, pattern: str, stack: contextlib.ExitStack) -> Any:
    import ray.data

    ray.init(address=address, include_dashboard=False)
    stack.callback(ray.shutdown)
    paths = sorted(map(str, Path(pattern).parent.glob(Path(pattern).name)))
    return ray.data.read_parquet(paths)


def _spark(address: str | None, pattern: str, stack: contextlib.ExitStack) -> Any:
    from pyspark.sql import SparkSession

    if address is None or address.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master(address or "local[*]").appName("unicornn").getOrCreate()
    stack.callback(session.stop)
    return session.read.parquet(pattern)


_OPENERS = {"dask": _dask, "ray": _ray, "spark": _spark}


def write_frame(frame: Any, out: Path) -> None:
    """Writes a frame to a new folder of Parquet files, which appears only when it is complete."""
    if out.exists():
        raise BadValue(f"--out: expected a new folder, got {out}")
    unfinished = out.with_name(f"{out.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    if hasattr(frame, "to_parquet"):
        frame.to_parquet(str(unfinished))
    elif hasattr(frame, "write_parquet"):
        frame.write_parquet(str(unfinished))
    else:
        frame.write.parquet(str(unfinished))
    unfinished.rename(out)
