"""Frames of pandas, Dask, Ray and Spark: moves the rows of a series together, and applies functions to partitions.

``map`` makes a frame of the same engine by a function of one frame; ``gather`` joins the results of a function from
frames as a tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from unicornn.errors import BadType

ROWS = 1 << 20  # of a partition that Spark hands over at a time, at most besides the last series


def engine_of(frame: Any) -> Any:
    """The engine of a frame, by its type."""
    engines = {"pandas": Pandas, "dask": _Dask, "ray": _Ray, "pyspark": _Spark}
    name = type(frame).__module__.partition(".")[0]
    if name not in engines or not hasattr(frame, "columns"):
        raise BadType(f"frame: expected a frame of pandas, Dask, Ray Data or Spark, got {type(frame).__name__}")
    return engines[name]()


def column_names(frame: Any) -> list[str]:
    """Names of a frame's columns."""
    engine_of(frame)
    columns = frame.columns() if callable(frame.columns) else frame.columns
    return [str(name) for name in columns]


class Pandas:
    def together(self, frame: Any, series: str) -> Any:
        return frame

    def map(self, frame: Any, series: str, work: Any, schema: dict[str, str]) -> Any:
        return work(frame)

    def gather(self, frame: Any, series: str, work: Any, merge: Any) -> Any:
        return work([frame])


class _Dask:
    """Partitions are moved by ``shuffle``. The model is one key of the graph, sent to each worker once."""

    def together(self, frame: Any, series: str) -> Any:
        return frame.shuffle(on=series)

    def map(self, frame: Any, series: str, work: Any, schema: dict[str, str]) -> Any:
        import dask
        import pyarrow

        kinds = {"str": "string", "list": pd.ArrowDtype(pyarrow.list_(pyarrow.float32()))}
        meta = pd.DataFrame({name: pd.Series(dtype=kinds.get(kind, kind)) for name, kind in schema.items()})
        return frame.map_partitions(_apply, dask.delayed(work), meta=meta)

    def gather(self, frame: Any, series: str, work: Any, merge: Any) -> Any:
        import dask

        work, merge = dask.delayed(work), dask.delayed(merge)
        states = [work([part]) for part in frame.to_delayed()]
        while len(states) > 1:
            pairs = [states[i : i + 2] for i in range(0, len(states), 2)]
            states = [merge(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return states[0].compute()


def _apply(frame: pd.DataFrame, work: Any) -> pd.DataFrame:
    return work(frame)


class _Ray:
    """Blocks are moved by ``repartition`` with keys. Actors of ``map_batches`` hold the model."""

    def together(self, frame: Any, series: str) -> Any:
        import ray

        return frame.repartition(2 * max(1, int(ray.cluster_resources().get("CPU", 1))), keys=[series])

    def map(self, frame: Any, series: str, work: Any, schema: dict[str, str]) -> Any:
        import pyarrow
        import ray

        kinds = {"str": pyarrow.string(), "list": pyarrow.list_(pyarrow.float32())}
        types = pyarrow.schema({name: kinds.get(kind) or pyarrow.type_for_alias(kind) for name, kind in schema.items()})
        actors = ray.data.ActorPoolStrategy(min_size=1, max_size=max(1, int(ray.cluster_resources().get("CPU", 1))))
        return frame.map_batches(
            _Actor, fn_constructor_args=(work, types), batch_size=None, batch_format="pandas", compute=actors
        )

    def gather(self, frame: Any, series: str, work: Any, merge: Any) -> Any:
        import ray

        state, join, shared = ray.remote(_state), ray.remote(merge), ray.put(work)
        states = [state.remote(shared, block) for block in frame.to_pandas_refs()]
        while len(states) > 1:
            pairs = [states[i : i + 2] for i in range(0, len(states), 2)]
            states = [join.remote(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return ray.get(states[0])


class _Actor:
    """Holds the model for the batches that an actor receives, and makes tables of the same types of all of them."""

    def __init__(self, work: Any, types: Any) -> None:
        self.work, self.types = work, types

    def __call__(self, frame: pd.DataFrame) -> Any:
        import pyarrow

        return pyarrow.Table.from_pandas(self.work(frame), self.types, preserve_index=False)


def _state(work: Any, frame: pd.DataFrame) -> Any:
    return work([frame])


class _Spark:
    """Partitions are moved by ``repartition`` and streamed by ``mapInPandas``. The model is a broadcast variable."""

    def together(self, frame: Any, series: str) -> Any:
        return frame.repartition(series)

    def map(self, frame: Any, series: str, work: Any, schema: dict[str, str]) -> Any:
        kinds = {"str": "string", "int64": "long", "float64": "double", "bool": "boolean", "list": "array<float>"}
        shared = frame.sparkSession.sparkContext.broadcast(work)
        declared = ", ".join(f"`{name.replace('`', '``')}` {kinds[kind]}" for name, kind in schema.items())
        ordered = frame.sortWithinPartitions(series)
        return ordered.mapInPandas(lambda frames: map(shared.value, _whole(frames, series)), declared)

    def gather(self, frame: Any, series: str, work: Any, merge: Any) -> Any:
        from pyspark.serializers import CPickleSerializer

        shared, serializer = frame.sparkSession.sparkContext.broadcast(work), CPickleSerializer()

        def states(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            yield pd.DataFrame({"state": [serializer.dumps(shared.value(_whole(frames, series)))]})

        found = frame.sortWithinPartitions(series).mapInPandas(states, "state binary")
        return found.rdd.map(lambda row: serializer.loads(row[0])).treeReduce(merge)


def _whole(frames: Iterator[pd.DataFrame], series: str) -> Iterator[pd.DataFrame]:
    """Sorted rows that arrive in batches as frames of whole series."""
    waiting: list[pd.DataFrame] = []
    rows = 0
    for frame in frames:
        waiting.append(frame)
        rows += len(frame)
        if rows >= ROWS:
            joined = pd.concat(waiting, ignore_index=True)
            last = joined[series] == joined[series].iloc[-1]
            if not last.all():
                yield joined[~last]
            waiting, rows = [joined[last]], int(last.sum())
    if waiting:
        yield pd.concat(waiting, ignore_index=True)
