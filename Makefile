# Every target works on a fresh machine with Python 3.10 to 3.12 and the package index.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.10 || echo python3)
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check -q

.PHONY: setup demo test check bench conformance smoke clean

$(VENV)/.made: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

setup: $(VENV)/.made

$(VENV)/.demo: $(VENV)/.made
	$(PIP) -e '.[demo]'
	touch $@

$(VENV)/.test: $(VENV)/.made
	$(PIP) -e '.[test]'
	touch $@

$(VENV)/.dev: $(VENV)/.made
	$(PIP) -e '.[dev]'
	touch $@

demo: $(VENV)/.demo
	$(PY) -m mindtorch examples/digits/train.py

# One thread per worker: the two workers share two cores.
test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 -q

check: $(VENV)/.dev
	$(PY) -m ruff check src tests examples scripts benchmarks setup.py
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) scripts/sizes.py

bench: $(VENV)/.test
	rm -f docs/speed.json
	$(PY) benchmarks/overhead.py --json docs/speed.json
	$(PY) benchmarks/train_steps.py --json docs/speed.json
	$(PY) benchmarks/kernels.py --json docs/speed.json
	$(PY) benchmarks/kernels.py --against torch --json docs/speed.json

conformance: $(VENV)/.test
	$(PY) scripts/conformance.py $(if $(ENGINE),--engine $(ENGINE))

smoke: $(VENV)/.made
	$(PY) scripts/smoke.py

clean:
	rm -rf $(VENV) build dist
