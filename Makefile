# Everything a developer or a newcomer runs. Needs Python 3.10 to 3.14 with pip, and nothing else.
#
#   make demo       three real kernels: compiled for four SMs, run in the simulator, compared with NumPy
#   make test       all that guards a commit (under 20 minutes on two cores)
#   make test-all   the same and the slow tests (hours; the join of the whole suite goes on where it stopped)
#   make public PUBLIC=/path/to/cuda-tile  the public definition's own tests, from a checkout; writes docs/public-tests.md
#   make coverage   the whole kernel suite at -O0 and -O3 on every SM; writes docs/coverage.md (an hour or more)
#   make tables     every op x type x rounding x flag, compiled, run and compared; writes docs/numerics.md (five minutes)
#   make fuzz N=1000    random programs at -O0 to -O3 on all SMs, and ten times as many damaged files (docs/fuzzing.md)
#   make bench      compile time and code beside the original's
#   make bench-suite  compile time of the whole kernel suite beside the original's, file by file
#   make speed [KERNELS=...] [MACHINES=...]   our code beside the original's, predicted without a GPU; writes docs/speed.md
#   make hardware   build what only a GPU can answer, packed for a machine with one
#   make gpu        run that here, where a GPU is; answers into docs/hardware.md
#   make clean      forget the environments and everything built

PYTHON ?= python3
JOBS ?= 2
N ?= 1000
SEED ?= 0
VENV := .venv
REFERENCE := .venv-reference
BIN := $(CURDIR)/$(VENV)/bin
# The frontend looks for `tileiras` on PATH.
export PATH := $(BIN):$(PATH)

# The commands that pip writes import `re` before it's 25.3: 7 ms more for each.
NEWER_PIP = $(BIN)/python -m pip install -q --upgrade --disable-pip-version-check 'pip>=25.3'

.PHONY: demo test test-all lint original public coverage tables fuzz bench bench-suite speed hardware gpu clean
.NOTPARALLEL:

demo: $(VENV)/.demo
	@$(BIN)/python -m bench.demo $(ARGS)

test: lint original
	@$(BIN)/lit -q -j $(JOBS) tests/filecheck
	@$(BIN)/pytest -n $(JOBS) -m "not slow" $(ARGS)

test-all: lint original
	@$(BIN)/lit -q -j $(JOBS) tests/filecheck
	@$(BIN)/pytest -n $(JOBS) $(ARGS)

# The simulator is also tested on code that the original made; where that can't be installed, those tests are skipped.
original:
	-@test -f $(REFERENCE)/.installed || $(MAKE) --no-print-directory $(REFERENCE)/.installed

lint: $(VENV)/.test
	@$(BIN)/ruff check -q .
	@$(BIN)/pyright --level error --pythonpath $(BIN)/python

public: $(VENV)/.test
	@test -n "$(PUBLIC)" || { echo "which checkout? make public PUBLIC=/path/to/cuda-tile"; exit 1; }
	@$(BIN)/python -m tests.public.run_public $(PUBLIC) --write docs/public-tests.md $(ARGS)

coverage: $(VENV)/.test
	@$(BIN)/python -m tests.kernels.coverage --jobs $(JOBS) --write docs/coverage.md $(ARGS)

tables: $(VENV)/.test
	@$(BIN)/python -m tests.tables --write docs/numerics.md $(ARGS)

fuzz: $(VENV)/.test
	@$(BIN)/python -m tests.fuzz --programs $(N) --seed $(SEED) $(ARGS)

bench: $(VENV)/.demo $(REFERENCE)/.installed
	@$(BIN)/python -m bench --reference $(REFERENCE)/bin/python $(ARGS)
	@$(BIN)/python -m bench.sim_speed
	@$(BIN)/python -m bench.code_table --compare bench/results/code-before.json bench/results/code-after.json

bench-suite: $(VENV)/.demo $(REFERENCE)/.installed
	@$(BIN)/python -m bench.suite_ratio --reference $(REFERENCE)/bin/python $(ARGS)

speed: $(VENV)/.test $(REFERENCE)/.installed
	@$(BIN)/python -m bench.speed $(KERNELS) $(if $(MACHINES),--machines "$(MACHINES)") $(if $(KERNELS),,--write) --jobs $(JOBS) $(ARGS)

hardware: $(VENV)/.demo $(REFERENCE)/.installed
	@$(BIN)/python -m bench.hardware.prepare --reference $(REFERENCE)/bin/python --tar $(ARGS)

# Only the system's Python and NumPy: the frontend and PyTorch join in where they are installed.
gpu:
	@test -f build/hardware/plan.json || $(MAKE) hardware
	@$(PYTHON) bench/hardware/run.py build/hardware --out build/hardware-results.json $(ARGS)
	@$(PYTHON) -m bench.hardware.report build/hardware-results.json --keep bench/results/hardware.json --write docs/hardware.md

clean:
	rm -rf $(VENV) $(REFERENCE) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis tests/filecheck/Output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Where Python comes without venv (Debian splits it off), the virtualenv package stands in.
%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' \
	  || { echo "Python 3.10 to 3.14 is needed: make PYTHON=python3.x ..."; exit 1; }
	@$(PYTHON) -m venv $* || { rm -rf $*; $(PYTHON) -m pip install -q --target build/virtualenv virtualenv \
	  && PYTHONPATH=build/virtualenv $(PYTHON) -m virtualenv -q $*; }

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@echo "installing into $(VENV)"
	-@$(NEWER_PIP)
	@$(BIN)/python -m pip install -q -e '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	@echo "installing into $(VENV)"
	-@$(NEWER_PIP)
	@$(BIN)/python -m pip install -q -e '.[test]'
	@touch $@ $(VENV)/.demo

$(REFERENCE)/.installed: | $(REFERENCE)/bin/python
	@echo "installing the original into $(REFERENCE)"
	@$(REFERENCE)/bin/python -m pip install -q 'nvidia-cuda-tileiras==13.5.*' 'nvidia-cuda-nvcc==13.5.*' 'nvidia-nvvm==13.5.*'
	@touch $@
