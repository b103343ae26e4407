"""The bench, on toy sizes. No test depends on a measured time."""

import io
import json

import pytest
from rich.console import Console

from unicornn.baselines import MODELS
from unicornn.lab.bench import _jobs as jobs
from unicornn.lab.bench import _measure as measure
from unicornn.lab.bench import bench
from unicornn.lab.bench._bench import result_table
from unicornn.lab.bench._chart import chart
from unicornn.lab.bench._jobs import Job, find_candidates, run_jobs

OURS = ("unicornn, stored", "unicornn, reversible")
TINY = {"lengths": (4, 8), "batch_size": 2, "d": 3, "hidden_size": 4, "seconds": 0.01}


@pytest.fixture
def in_this_process(monkeypatch):
    """Measures once, and without new processes, which take seconds to start."""
    monkeypatch.setattr(jobs, "run_in_process", measure.measure)
    monkeypatch.setattr(measure, "LEAST_SECONDS", 0.0)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the returned function moves."""
    now = [0.0]
    monkeypatch.setattr(measure.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measure, "LEAST_SECONDS", 0.0)

    def takes(seconds, name="", log=None):
        def f():
            now[0] += seconds
            if log is not None:
                log.append(name)

        return f

    return takes


def test_candidates_are_those_of_fig_2(monkeypatch):
    monkeypatch.setattr(jobs.importlib.util, "find_spec", lambda name: name)
    candidates = find_candidates()
    assert list(candidates) == [*OURS, *MODELS]
    assert {name for name, each in candidates.items() if each["layers"] == 2} == {*OURS, "sru", "indrnn"}
    assert candidates["sru"]["options"] == candidates["indrnn"]["options"] == {"batch_norm": True}
    assert [candidates[name]["options"]["gradient"] for name in OURS] == ["stored", "reversible"]
    chosen = find_candidates(["gru", "gru:3", "unicornn:1"])
    assert {name: each["layers"] for name, each in chosen.items()} == dict.fromkeys([*OURS, "gru"], 1) | {"gru:3": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": ["elman"]}, "^models: .*'elman'"),
        ({"models": ["gru:0"]}, "^models: .*'gru:0'"),
        ({"seconds": 0}, "^seconds: "),
    ],
)
def test_wrong_arguments_are_named(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        bench(**TINY | {"models": [], "out": tmp_path} | arguments)
    assert not list(tmp_path.iterdir())


def test_rounds_alternate_after_a_warm_up(clock):
    log = []
    times = measure.rounds(clock(1.0, "ours", log), clock(3.0, "theirs", log), limit=1000.0)
    assert times == [(1.0, 3.0)] * measure.ROUNDS
    assert log == ["ours", "theirs", "ours"] * (measure.ROUNDS + 1)


def test_a_killed_bench_is_resumed(tmp_path, monkeypatch):
    path, done = tmp_path / "partial.json", []
    wanted = {name: Job(kind="time", model=name, layers=1, N=4, b=2, d=3, m=4) for name in ("lstm", "gru", "sru")}

    def fake(job):
        if job.model == "sru" and "sru" not in done:
            done.append("sru")
            raise KeyboardInterrupt
        done.append(job.model)
        return {"failed": "no memory left"} if job.model == "gru" else {"ms": 1.0, "N": job.N}

    monkeypatch.setattr(jobs, "run_in_process", fake)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(wanted, path)
    assert done == ["lstm", "gru", "sru"]
    results = run_jobs(wanted, path)
    assert done[3:] == ["gru", "sru"], "finished jobs are kept, failed ones repeated"
    assert results == {"lstm": {"ms": 1.0, "N": 4}, "gru": {"failed": "no memory left"}, "sru": {"ms": 1.0, "N": 4}}
    other = Job(kind="time", model="lstm", layers=1, N=5, b=2, d=3, m=4)
    assert run_jobs({"lstm": other}, path) == {"lstm": {"ms": 1.0, "N": 5}}


@pytest.mark.parametrize("name", find_candidates())
def test_every_model_can_be_measured(name, in_this_process):
    sizes = {"N": 6, "b": 2, "d": 3, "m": 4, "seconds": 0.01}
    time, memory, forward, step = (
        jobs.run_in_process(
            Job(kind=kind, **find_candidates()[name], **sizes | ({"N": 1, "b": 1} if kind == "step" else {}))
        )
        for kind in ("time", "memory", "forward", "step")
    )
    assert set(time) == set(forward) == set(step) == {"ms", "ours_ms", "ratio", "rounds", "parameters"}
    assert set(memory) == {"MiB", "parameters"}
    assert time["parameters"] == memory["parameters"] > 0


def test_bench_writes_a_record_and_a_chart(tmp_path, in_this_process):
    folder = tmp_path / "[/bold]"  # never markup
    console = Console(width=200, file=io.StringIO())
    result = bench(["lstm", "sru"], **TINY, out=folder, console=console)
    assert json.loads((folder / "bench.json").read_text()) == json.loads(json.dumps(result))
    assert {"command", "date", "versions", "platform", "threads", "protocol", "sizes"} <= set(result)
    assert list(result["models"]) == [*OURS, "lstm", "sru"]
    for model in result["models"].values():
        assert model["step"]["ms"] > 0
        assert all(model["forward"][N]["ratio"] > 0 for N in model["time"])
        assert list(model["time"]) == ["4", "8"]
        assert list(model["memory"]) == ["1", "2", "4", "8"]
        assert all(t["ms"] > 0 and t["ratio"] > 0 and t["rounds"] >= 1 for t in model["time"].values())
    assert result["models"]["lstm"]["parameters"] == 4 * 4 * (3 + 4 + 2)
    assert (folder / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert not (folder / "bench.partial.json").exists()
    assert f"wrote {folder / 'bench.json'} and bench.png" in console.file.getvalue()  # type: ignore[attr-defined]
    assert all(name in console.file.getvalue() for name in result["models"])  # type: ignore[attr-defined]


def test_a_model_that_fails_does_not_stop_the_others(tmp_path, in_this_process, monkeypatch):
    def fake(job):
        return {"failed": "no memory left"} if job.model == "gru" else measure.measure(job)

    monkeypatch.setattr(jobs, "run_in_process", fake)
    result = bench(["gru", "lstm"], **TINY, out=tmp_path)
    model = result["models"]["gru"]
    assert (model["time"], model["memory"], model["step"], model["parameters"]) == ({}, {}, {}, None)
    assert set(model["failed"]) == {"no memory left"}
    words = [text.get_text() for axis in chart(result).axes for text in axis.texts]
    assert words.count("failed") == 4
    (row,) = [line for line in result_table(result).splitlines() if line.startswith("gru")]
    assert row.count("failed") == 11, "time, forward, their ratios and memory at two lengths, and its growth"
    assert "gru" not in (tmp_path / "bench.partial.json").read_text(), "only failed jobs are repeated"


@pytest.mark.slow
def test_memory_grows_with_the_length_unless_reversible():
    candidates = find_candidates(["lstm"])

    def MiB(name, N):
        return jobs.run_in_process(Job(kind="memory", **candidates[name], N=N, b=64, d=4, m=64))["MiB"]

    for name, grows in (("unicornn, reversible", False), ("unicornn, stored", True), ("lstm", True)):
        assert (MiB(name, 4000) > 2 * MiB(name, 1000)) == grows, name
