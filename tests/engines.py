"""Run by test_distributed.py in an environment with the engines: ``python -m tests.engines ENGINE``."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from unicornn import distributed
from unicornn.estimators import UnICORNNClassifier

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

    dask.config.set({"dataframe.convert-string": False, "dataframe.shuffle.method": "tasks"})
    client = Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))

    def make(frame, marker=None):
        found = dd.concat([dd.from_pandas(piece, npartitions=1) for piece in pieces(frame) if len(piece)])
        return found if marker is None else found.map_partitions(killer(marker), meta=frame[:0])

    return make, lambda frame: frame.compute(), client.close


def ray_frames():
    import ray
    import ray.data

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def make(frame, marker=None):
        found = ray.data.from_pandas([piece for piece in pieces(frame) if len(piece)])
        return found if marker is None else found.map_batches(killer(marker), batch_format="pandas", batch_size=None)

    return make, lambda frame: frame.to_pandas(), ray.shutdown


def spark_frames():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {"spark.sql.shuffle.partitions": 3, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2,4]")  # two workers, four attempts
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def make(frame, marker=None):
        found = session.createDataFrame(frame).repartition(2)
        if marker is None:
            return found
        kill = killer(marker)
        return found.mapInPandas(lambda frames: map(kill, frames), found.schema)

    return make, lambda frame: frame.toPandas(), session.stop


def main(engine):
    make, collect, close = {"dask": dask_frames, "ray": ray_frames, "spark": spark_frames}[engine]()
    frame = table()
    options = {"time": "time", "sample": 40, "max_features": 50}

    def fit(frame, **more):
        return distributed.fit(UnICORNNClassifier(random_state=0), frame, "label", **options, **more)

    def predictions(model, frame, **more):
        found = distributed.predict(model, frame, time="time", **more)
        found = found if isinstance(found, pd.DataFrame) else collect(found)
        return found.sort_values("series", ignore_index=True)

    expected = fit(frame)
    of_pandas = predictions(expected, frame)
    with tempfile.TemporaryDirectory() as folder:
        markers = [str(Path(folder) / name) for name in ("fit", "predict")]
        model = fit(make(frame, markers[0]))
        print(engine, "fitted", flush=True)
        found = predictions(model, make(frame, markers[1]))
        assert all(map(os.path.exists, markers)), "no worker was killed"
    assert np.array_equal(model.sums_.low, expected.sums_.low), "sums differ"
    pd.testing.assert_frame_equal(found, of_pandas, check_dtype=False, check_exact=True)
    print(engine, "identical, with killed workers", flush=True)

    some = collect(distributed.features(model, make(frame), time="time")).sort_values("series", ignore_index=True)
    same = distributed.features(model, frame, time="time")
    assert np.array_equal(np.stack(some["features"]), np.stack(same["features"]))

    frame.loc[(frame["series"] == "s7") & (frame["time"] == 3), "x"] = np.inf
    for function in (fit, lambda frame: predictions(model, frame)):
        try:
            function(make(frame))
        except Exception as error:
            if "s7" not in str(error):
                raise
        else:
            raise AssertionError("expected an error")
    rest = fit(make(frame), malformed="report")
    assert list(rest.about_["malformed"]) == ["s7"]
    assert rest.about_["series"] == COUNT - 1
    reported = predictions(model, make(frame), malformed="report").set_index("series")
    assert reported["error"].notna().sum() == 1
    assert "inf" in reported.loc["s7", "error"]
    intact = of_pandas.set_index("series").drop(index="s7")
    assert np.array_equal(reported.loc[intact.index, "p(low)"], intact["p(low)"])
    print(engine, "malformed series reported", flush=True)
    close()


if __name__ == "__main__":
    main(sys.argv[1])
