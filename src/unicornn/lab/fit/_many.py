"""Fits of a model to many files, together larger than memory, and its application to them; both can be resumed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unicornn._files import atomic_write, atomic_write_all
from unicornn._load import load_model
from unicornn.errors import BadType, BadValue, MissingData
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
from unicornn.estimators._parts import SAMPLE, Part, Sample
from unicornn.estimators._sums import Sums
from unicornn.lab.fit._data import Data
from unicornn.lab.fit._files import stream
from unicornn.lab.fit._fit import NO_TARGET

UNFINISHED = "unfinished"  # folder of a fit that can be resumed
SUMS = "progress.safetensors"
SAVE_SECONDS = 60.0  # between two savings of the sums
NUMBERS = 1 << 19  # of series processed together
Tell = Callable[[str, int, int], None]
"""Receives what is being done, the number of files done, and the number of series."""


def matching(pattern: Path) -> list[Path] | None:
    """The files that a pattern such as data/*.parquet matches, or None if it is not a pattern."""
    if pattern.exists() or not any(mark in str(pattern) for mark in "*?["):
        return None
    fixed = pattern.parts[: _first_mark(pattern)]
    root = Path(*fixed) if fixed else Path()
    files = sorted(path for path in root.glob(str(Path(*pattern.parts[len(fixed) :]))) if path.is_file())
    if not files:
        raise MissingData(f"FILE: expected files that match {pattern}, found none")
    return files


def _first_mark(pattern: Path) -> int:
    return next(i for i, part in enumerate(pattern.parts) if any(mark in part for mark in "*?["))


@dataclass
class Files:
    """Files that are read one after another, some series at a time.

    Attributes:
        paths: Files.
        target: Column or array of the targets.
        reading: Other fields of ``Reading``.
    """

    paths: list[Path]
    target: str | None
    reading: dict[str, Any]

    def data(self, path: Path) -> Iterator[Data]:
        """The series of a file, some at a time."""
        batch: list[Data] = []
        for data in stream(path, self.target, **self.reading):
            batch.append(data)
            if sum(x.size for each in batch for x in each.series) >= NUMBERS:
                yield Data.join(batch)
                batch = []
        if batch:
            yield Data.join(batch)

    def parts(self, path: Path, estimator: Any) -> Iterator[Part]:
        """The series of a file with their targets, as the estimator reads them."""
        for data in self.data(path):
            if data.target is None:
                raise BadValue(NO_TARGET)
            gap = data.first_with_gaps()
            if gap is not None and estimator.missing == "error":
                raise BadValue(f"--missing: expected mask, because {path} has missing values in series {gap}")
            try:
                yield estimator._read_part((data.series, data.target, data.groups))
            except (BadValue, BadType) as error:
                raise type(error)(f"{path}: {error}") from error

    def identity(self, path: Path) -> list[Any]:
        """What a file must have in common with the one that was read before an interruption."""
        state = path.stat()
        return [str(path), state.st_size, state.st_mtime_ns]


def fit_files(
    files: Files, out: Path, *, classify: bool | None = None, tell: Tell | None = None, **options: Any
) -> Any:
    """Fits the bank to the series of many files by ``fit_parts`` and saves it; resumes an unfinished fit in ``out``.

    Args:
        files: Files with targets.
        out: Folder of the model.
        classify: Whether the target is a class; by default the values in the first file decide.
        tell: Receives the progress.
        options: Options of the estimator.
    """
    tell = tell or (lambda doing, files, series: None)
    first = next(files.data(files.paths[0]))
    if first.target is None:
        raise BadValue(NO_TARGET)
    regress = first.regression if classify is None else not classify
    estimator = (UnICORNNRegressor if regress else UnICORNNClassifier)(**options)
    estimator._check_settings()
    estimator._check_summable()
    plan = {"files": [files.identity(path) for path in files.paths], "target": files.target, "reading": files.reading}
    plan |= {"class": type(estimator).__name__, "options": options}
    plan_text = json.dumps(plan, sort_keys=True, default=str)
    unfinished = out / UNFINISHED
    done: list[str] = []
    if (unfinished / SUMS).exists():
        estimator = load_model(unfinished)
        estimator.sums_, state = Sums.from_bytes((unfinished / SUMS).read_bytes())
        known = json.loads(state)
        if known["plan"] != plan_text:
            raise BadValue(
                f"--out: expected the files and options of the unfinished fit in {unfinished}; delete it first"
            )
        done = known["done"]
        estimator.about_ |= known["about"]
    else:
        _fit_sample(files, estimator, tell)
        estimator.channel_names_ = first.channels
        estimator.about_ |= {"reading": first.reading, "target": files.target}
        estimator.save_pretrained(unfinished)
    saved = time.monotonic()
    series = estimator.about_["series"] if done else 0
    for i, path in enumerate(files.paths):
        if str(path) in done:
            continue
        tell("adding", i, series)
        for part in files.parts(path, estimator):
            estimator._add_part(part)
            series += len(part.y)
            tell("adding", i, series)
        done.append(str(path))
        if time.monotonic() - saved > SAVE_SECONDS or i == 0:
            lengths = {name: estimator.about_[name] for name in ("shortest", "longest")} | {"series": series}
            state = json.dumps({"plan": plan_text, "done": done, "about": lengths})
            atomic_write_all(unfinished, {SUMS: estimator.sums_.to_bytes(state)})
            saved = time.monotonic()
    tell("solving", len(files.paths), series)
    estimator._learn_sums()
    estimator.save_pretrained(out)
    shutil.rmtree(unfinished)
    return estimator


def _fit_sample(files: Files, estimator: Any, tell: Tell) -> None:
    """Fits the estimator to a sample of the files, and prepares its sums."""
    sample = Sample(SAMPLE, isinstance(estimator, UnICORNNClassifier))
    for i, path in enumerate(files.paths):
        tell("sampling", i, sample.seen)
        for part in files.parts(path, estimator):
            sample.add(part)
    tell("fitting the sample", len(files.paths), sample.seen)
    estimator._fit_sample(sample.part(), None, sample.is_complete)


def apply_to_files(
    function: Callable[[Any, Data], Any], estimator: Any, files: Files, out: Path, tell: Tell | None = None
) -> int:
    """Writes the tables that a function makes of the series in many files to one .csv file; returns its rows.

    The tables of complete files are kept beside it until it is complete, so the same call resumes.
    """
    tell = tell or (lambda doing, files, series: None)
    folder = out.with_name(f"{out.name}.{UNFINISHED}")
    folder.mkdir(parents=True, exist_ok=True)
    fingerprint, rows, tables = estimator._fingerprint(), 0, []
    for i, path in enumerate(files.paths):
        key = json.dumps([fingerprint, files.identity(path), files.reading, function.__name__], default=str)
        table = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.csv"
        tables.append(table)
        if not table.exists():
            with atomic_write(table, "w") as page:
                for j, data in enumerate(files.data(path)):
                    found = function(estimator, data)
                    found.insert(0, "file", str(path))
                    found.to_csv(page, index=False, header=j == 0)
                    rows += len(found)
                    tell("computing", i, rows)
    rows = 0
    with atomic_write(out) as whole:
        for i, table in enumerate(tables):
            with table.open("rb") as page, contextlib.suppress(StopIteration):
                header = next(page)
                whole.write(header if i == 0 else b"")
                for line in page:
                    whole.write(line)
                    rows += 1
    shutil.rmtree(folder)
    return rows
