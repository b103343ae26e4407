PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
STAMP := $(VENV)/.stamp
PYTEST := $(PY) -m pytest -n 2 --dist worksteal  # two processes: CI has two cores

.DEFAULT_GOAL := help
.PHONY: help env demo test test-slow coverage lint bench bench-baselines docs release-hashes dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(STAMP) ## make .venv with the pinned packages (PYTHON=... picks the interpreter, 3.11 or newer)

# torch comes first and pinned: left to the resolver it can pull gigabytes of CUDA packages.
# The build tools are pinned like the rest. aeon (benchmarks) and pysiglib come last, without their dependencies: an older numba, and a
# source package.
$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found; try make env PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) -V 2>&1); try make env PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt torch
	$(PIP) install -c constraints.txt hatchling editables
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	$(PIP) install -c constraints.txt --no-deps aeon deprecated wrapt pysiglib
	@touch $@

demo: $(STAMP) ## noisy digits: the layer beside an LSTM, 75 seconds each, and a report
	rm -rf runs/demo
	$(VENV)/bin/unicornn train digits-noise --budget 75s --out runs/demo/unicornn
	$(VENV)/bin/unicornn train digits-noise --budget 75s --out runs/demo/lstm --model lstm
	$(VENV)/bin/unicornn report runs/demo --out runs/demo/report.html

test: $(STAMP) ## the quick tests
	$(PYTEST)

test-slow: $(STAMP) ## the tests marked slow, and no others
	$(PYTEST) -m slow

coverage: $(STAMP) ## line coverage of the quick tests
	$(PYTEST) --cov --cov-report=term

lint: $(STAMP) ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

# An interrupted benchmark resumes: runs/bench keeps the finished parts.
LENGTHS := 1000 2000 5000 10000 20000 50000
FEW := lstm lstm:2 gru:2
WORMS := --length 17984 --input-size 6 --hidden-size 32
bench: $(STAMP) ## measure time and memory of the layer beside torch's (a quarter of an hour); make docs then shows them
	$(VENV)/bin/unicornn bench $(FEW) --length 1000 --out runs/bench/speed
	$(VENV)/bin/unicornn bench $(FEW) $(WORMS) --batch-size 8 --out runs/bench/worms
	$(VENV)/bin/unicornn bench $(FEW) $(WORMS) --batch-size 1 --out runs/bench/one
	$(VENV)/bin/unicornn bench lstm:2 $(LENGTHS:%=--length %) --batch-size 8 --input-size 6 --hidden-size 32 --out runs/bench/lengths
	for name in speed worms one lengths; do cp runs/bench/$$name/bench.json results/bench/$$name.json; done
	$(PY) -m benchmarks.speed

MODELS := $$($(PY) -c 'from unicornn.baselines import MODELS; print(*MODELS)') lstm:2 gru:2
bench-baselines: $(STAMP) ## the same for all models (more than an hour)
	$(VENV)/bin/unicornn bench $(MODELS) --out runs/bench/baselines
	$(VENV)/bin/unicornn bench $(MODELS) $(WORMS) --batch-size 8 --out runs/bench/baselines-worms
	for name in baselines baselines-worms; do cp runs/bench/$$name/bench.json results/bench/$$name.json; done

docs: $(STAMP) ## write the generated parts of the pages and their plots, then the site, into build/site
	$(PY) -m docs.build
	$(PY) -m sphinx -q -W --keep-going docs build/site

# pip's report has the hash of every file that it would install.
HASHES := import json; report = json.load(open("build/report.json"))["install"]; \
  print(*sorted(f"""{i["metadata"]["name"]}=={i["metadata"]["version"]} \
  --hash=sha256:{i["download_info"]["archive_info"]["hashes"]["sha256"]}""" for i in report), sep="\n")
release-hashes: $(STAMP) ## write requirements-release.txt: the tools of a release with their hashes
	mkdir -p build
	$(PIP) install -q --dry-run --ignore-installed --only-binary :all: --report build/report.json -c constraints.txt build hatchling twine
	$(PY) -c '$(HASHES)' > requirements-release.txt

dist: ## build and check the packages of a release with exactly the tools in requirements-release.txt
	rm -rf build/release dist
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install -q --require-hashes --only-binary :all: -r requirements-release.txt
	build/release/bin/python -m build --no-isolation
	build/release/bin/python -m twine check --strict dist/*

clean: ## remove caches and build products (.venv stays)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . \( -path ./$(VENV) -o -path ./.git \) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
