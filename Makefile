# Every target sets up what it needs in .venv and says what it does.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
COMPILED := build/compiled
COMPILE_IF_CC = if command -v $${CC:-cc} >/dev/null; then $(MAKE) --no-print-directory compile; else echo "No C compiler: this runs as pure Python."; fi
SHELL  := /bin/bash
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-engines test-compiled coverage check format docs compile bench suite clean
.DELETE_ON_ERROR:

help: ## Show this list
	@echo "ARGS='…' passes options on; PYTHON=python3.12 chooses the interpreter."
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

# A stamp per extra: the environment is brought up to date when pyproject.toml changes.
$(VENV)/.installed-%: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"warmroute needs Python 3.11 or newer; {sys.executable} is {v[0]}.{v[1]}. Try: make PYTHON=python3.12 …")'
	@echo "==> Installing warmroute[$*] into $(VENV) (once; about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@

demo: $(VENV)/.installed-demo ## Four real model servers, four routing strategies, one table
	@$(BIN)/warmroute demo $(ARGS)

serve: $(VENV)/.installed-demo ## Run warmroute in the foreground; ARGS='--instances http://… --endpoint llm'
	@exec $(BIN)/warmroute serve $(ARGS)

test: $(VENV)/.installed-test ## All tests this machine can run; what it lacks is skipped with the reason
	@$(BIN)/python -m pytest $(ARGS)

test-engines: $(VENV)/.installed-test ## Only the tests that start real model servers
	@$(BIN)/python -m pytest -m engine $(ARGS)

coverage: $(VENV)/.installed-test ## Every module of the pure floors against its own test file
	@$(BIN)/python tools/check_coverage.py $(ARGS)

check: $(VENV)/.installed-test ## Format, lint, types, import contract, a test file per module
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/check_coverage.py --files-only

format: $(VENV)/.installed-test ## Let ruff write what it can
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

docs: $(VENV)/.installed-test ## Write the generated reference pages anew
	@$(BIN)/warmroute config reference settings > $(VENV)/configuration.md
	@$(BIN)/warmroute config reference metrics > $(VENV)/metrics.md
	@$(BIN)/warmroute config reference errors > $(VENV)/errors.md
	@$(BIN)/warmroute config reference operations > $(VENV)/sagemaker-operations.md
	@$(BIN)/warmroute config reference cli > $(VENV)/cli.md
	@mv $(VENV)/{configuration,metrics,errors,sagemaker-operations,cli}.md docs/reference/
	@echo "The generated pages in docs/reference/ are up to date: cli, configuration, errors, metrics, sagemaker-operations"

compile: $(COMPILED)/.built ## Compile the way of a request and the simulated engines to C, into build/compiled (needs a C compiler)

$(COMPILED)/.built: pyproject.toml $(shell find src -name '*.py') | $(VENV)/.installed-test
	@echo "==> Compiling the way of a request and the simulated engines with mypyc into $(COMPILED) (about two minutes)"
	@# In a copy: the build leaves its extensions beside the sources, where they would be imported for them.
	@rm -rf $(COMPILED) && mkdir -p $(COMPILED)/source $(COMPILED)/site
	@cp -r pyproject.toml README.md LICENSE src $(COMPILED)/source
	@HATCH_BUILD_HOOK_ENABLE_MYPYC=1 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(COMPILED) $(COMPILED)/source
	@rm -rf $(COMPILED)/source
	@$(BIN)/python -m zipfile -e $(COMPILED)/*.whl $(COMPILED)/site
	@touch $@

test-compiled: $(COMPILED)/.built ## The tests of the compiled modules, against what was compiled
	@PYTHONPATH=$(COMPILED)/site $(BIN)/python -c 'import warmroute.routing.router as m; print("testing", m.__file__)'
	@PYTHONPATH=$(COMPILED)/site $(BIN)/python -m pytest tests/unit/{auth,dataplane,engine,observe,routing,sim,wire} tests/property tests/wire $(ARGS)

bench: $(VENV)/.installed-test ## Speed beside vllm-router, sglang-router, HAProxy and nginx; cost of KV_AWARE
	@$(COMPILE_IF_CC)
	@PYTHONPATH=$(COMPILED)/site $(BIN)/python benchmarks/gateway/run.py $(ARGS)
	@PYTHONPATH=$(COMPILED)/site $(BIN)/python benchmarks/routing/kv_aware.py $(if $(filter --smoke,$(ARGS)),--targets 7 --rounds 1)

suite: $(VENV)/.installed-test ## Every routing policy on every simulated case, and the bar; WARMROUTE_DATA adds recordings
	@$(COMPILE_IF_CC)
	@PYTHONPATH=$(COMPILED)/site $(BIN)/python -m warmroute simulate suite $(ARGS)

clean: ## Remove the environment, caches and the demo's files
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage out build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
