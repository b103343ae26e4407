"""Run by test_distributed.py in an environment with the engines: ``python -m tests.engines ENGINE``."""

import os
import signal
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from unicornn import distributed, load_model
from unicornn._engines import engine_of
from unicornn.estimators import UnICORNNClassifier
from unicornn.lab.cli import app

rng = np.random.default_rng(0)
COUNT, STEPS = 60, 10


def table():
    """Series of two classes; most rows are in the first partitions, and the steps of each series in several."""
    names = np.repeat([f"s{i}" for i in range(COUNT)], STEPS)
    x = np.sin((0.4 + 0.6 * (np.arange(COUNT) % 2))[:, None] * np.arange(STEPS) + rng.uniform(0, 6, (COUNT, 1)))
    label = np.repeat(np.where(np.arange(COUNT) % 2, "high", "low"), STEPS)
    frame = pd.DataFrame({"series": names, "time": np.tile(np.arange(STEPS), COUNT), "x": x.ravel(), "label": label})
    return frame.sample(frac=1, random_state=0, ignore_index=True)


def killer(marker):
    """A function that kills the first worker which calls it."""

    def run(frame):
        if len(frame):
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return frame
            os.kill(os.getpid(), signal.SIGKILL)
        return frame

    return run


def pieces(frame):
    """Skewed: four fifths of the rows, nothing, the rest."""
    cut = len(frame) * 4 // 5
    return [frame[:cut], frame[:0], frame[cut:]]


def dask_frames():
    import dask
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})  # a busy machine restarts workers slowly
    client = Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))

    def make(frame):
        return dd.concat([dd.from_pandas(piece, npartitions=1) for piece in pieces(frame) if len(piece)])

    def apply(frame, function):
        return frame.map_partitions(function, meta=frame._meta)

    return make, apply, lambda frame: frame.compute(), client.close


def ray_frames():
    import ray
    import ray.data

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def make(frame):
        return ray.data.from_pandas([piece for piece in pieces(frame) if len(piece)])

    def apply(frame, function):
        return frame.map_batches(function, batch_format="pandas", batch_size=None)

    return make, apply, lambda frame: frame.to_pandas(), ray.shutdown


def spark_frames():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {"spark.sql.shuffle.partitions": 3, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2,4]")  # two workers, four attempts
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def make(frame):
        return session.createDataFrame(frame).repartition(2)

    def apply(frame, function):
        return frame.mapInPandas(lambda frames: map(function, frames), frame.schema)

    return make, apply, lambda frame: frame.toPandas(), session.stop


def in_order(table):
    return table.sort_values("series", ignore_index=True)


def check_functions(engine, frame):
    """Fits, predictions and features equal those on pandas, though a worker is killed in each of the first two."""
    make, apply, collect, close = {"dask": dask_frames, "ray": ray_frames, "spark": spark_frames}[engine]()

    def fit(frame):
        options = {"time": "time", "sample": 40, "max_features": 50}
        return distributed.fit(UnICORNNClassifier(random_state=0), frame, "label", **options)

    expected = fit(frame)
    with tempfile.TemporaryDirectory() as folder:
        markers = [Path(folder) / name for name in ("fit", "predict")]
        model = fit(apply(make(frame), killer(markers[0])))
        print(engine, "fitted", flush=True)
        together = engine_of(make(frame)).together(make(frame), "series")
        table = distributed.predict(model, apply(together, killer(markers[1])), time="time", shuffle=False)
        found = in_order(collect(table))
        assert all(marker.exists() for marker in markers), "no worker was killed"
    assert np.array_equal(np.triu(model.sums_.low), np.triu(expected.sums_.low)), "sums differ"
    of_pandas = in_order(distributed.predict(expected, frame, time="time"))
    pd.testing.assert_frame_equal(found, of_pandas, check_dtype=False, check_exact=True)
    print(engine, "identical, with killed workers", flush=True)

    some = in_order(collect(distributed.features(model, make(frame), time="time")))
    same = in_order(distributed.features(model, frame, time="time"))
    assert np.array_equal(np.stack(some["features"]), np.stack(same["features"]))
    try:
        fit(make(malformed(frame)))
    except Exception as error:
        if "series 's7'" not in str(error):
            raise
    else:
        raise AssertionError("expected an error")
    close()


def malformed(frame):
    """With an infinite number in series s7."""
    return frame.assign(x=frame["x"].where((frame["series"] != "s7") | (frame["time"] != 3), np.inf))


def check_commands(engine, frame):
    """The commands leave the malformed series out, or write nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder, model, frame = Path(name), Path(name) / "model", malformed(frame)
        (folder / "data").mkdir()
        for i, piece in enumerate(pieces(frame)):
            piece.to_parquet(folder / "data" / f"{i}.parquet")
        new = frame.drop(columns="label")
        new.to_parquet(folder / "new.parquet")

        def run(*words):
            return CliRunner().invoke(app, [*map(str, words), "--engine", engine])

        with mock.patch("unicornn.estimators._parts.FEATURES", 50):
            done = run(
                "fit", folder / "data" / "*.parquet", "--target", "label", "--malformed", "report", "--out", model
            )
        assert "left out: series s7" in done.output, done
        done = run("predict", model, folder / "new.parquet", "--malformed", "report", "--out", folder / "predictions")
        assert done.exit_code == 0, done
        found = in_order(pd.read_parquet(folder / "predictions"))
        expected = distributed.predict(load_model(model), new, time="time", malformed="report")
        pd.testing.assert_frame_equal(found, in_order(expected), check_dtype=False, check_exact=True)
        assert found["series"][found["error"].notna()].tolist() == ["s7"]
        done = run("features", model, folder / "new.parquet", "--out", folder / "features")
        assert "series 's7'" in str(done.exception)
        assert not (folder / "features").exists()


def main(engine):
    frame = table()
    check_functions(engine, frame)
    print(engine, "malformed series reported", flush=True)
    check_commands(engine, frame)
    print(engine, "commands run", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
