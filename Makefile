# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet install -c constraints.txt
PEERS  ?= .venv-peers
OUT    ?= truerisk-out

.PHONY: demo test test-long test-peers bench certificates verdicts gallery pictures lint docs clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/truerisk certify --out $(OUT) --force
	$(BIN)/truerisk verify $(OUT)
	@echo
	$(BIN)/truerisk tour --out $(OUT)
	@echo
	@echo "Open $(OUT)/tour.html and $(OUT)/report.html in a browser. Next: $(BIN)/truerisk certify --help"

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Tests that take minutes: how often do certificates fail, what survives when processes are killed, MNIST.
test-long: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal -m long

# Other programs on the same numbers, in an environment of their own.
test-peers: $(PEERS)/.peers
	$(PEERS)/bin/python -m pytest tests/peers

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

# Hours on two cores; goes on where it was stopped. Needs MNIST, Fashion-MNIST and CIFAR-10 (see README).
certificates: $(VENV)/.test
	$(BIN)/truerisk lab run benchmarks/certificates.py --scale paper --out benchmarks/records
	$(BIN)/python -m benchmarks.certificates_table
	$(BIN)/truerisk lab run rescaling-bounds --scale paper --out benchmarks/records
	$(BIN)/python -m benchmarks.rescaling_table

# All experiments at quick scale, and docs/verdicts.rst: about forty minutes; resumes where it was stopped.
verdicts: $(VENV)/.test
	$(BIN)/truerisk lab run --all --out runs
	$(BIN)/python -m benchmarks.verdicts runs

# Ten figures of the lab, and docs/gallery.rst: seconds after `make verdicts`.
gallery: $(VENV)/.test
	$(BIN)/truerisk lab run --all --out runs
	$(BIN)/python -m benchmarks.gallery runs

# The pictures and numbers of README.md: some four minutes.
pictures: $(VENV)/.test
	$(BIN)/python -m benchmarks.pictures

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W -q -b html docs docs/_build
	@echo "Open docs/_build/index.html"

clean:
	rm -rf $(VENV) $(PEERS) $(OUT) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "truerisk needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of extras; a second call finds them fresh and is quick.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[report]"
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[report,cluster,test]"
	@touch $@ $(VENV)/.demo

$(PEERS)/.peers: pyproject.toml constraints.txt constraints-peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt -e ".[test]" \
	  -r constraints-peers.txt
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[report,docs]"
	@touch $@
