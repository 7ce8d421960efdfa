# The two commands that matter: `make demo` does the main job, `make test` runs every check.
# Each makes its own environment in .venv, skips what is up to date, and needs no network then.

PYTHON ?= python3
DEMO_DIR ?= build/demo
PYTEST_ARGS ?=
WORKERS ?= 2
# A file of `make hashes`: what is installed must have the SHA-256 that it states.
LOCK ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALLED := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile
TORCH := $(shell grep -E '^torch==' constraints.txt)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

.PHONY: help
help: ## say what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.PHONY: demo
demo: $(INSTALLED) ## link a text to two small KBs, print it, write build/demo/
	$(BIN)/kglink demo --dir $(DEMO_DIR)

.PHONY: test
test: lint ## check style, types, import rules, docs, packaging, and run all tests but the slow ones
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

.PHONY: test-all
test-all: lint pytest ## the same, with the slow proofs

.PHONY: lint
lint: $(INSTALLED) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: pytest
pytest: $(INSTALLED) ## run all tests alone, or some: make pytest PYTEST_ARGS="tests/project/test_docs.py -x"
	$(PYTEST) $(PYTEST_ARGS)

.PHONY: format
format: $(INSTALLED) ## put the code into its one form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(INSTALLED) ## write the reference pages anew and build the site into site/
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "The site: site/index.html"

.PHONY: budget
budget: $(INSTALLED) ## print how big each room is: lines, modules, classes, settings, flags
	@$(BIN)/python tests/project/test_budget.py

.PHONY: install
install: $(INSTALLED) ## make .venv with everything that the other targets need

# pip reports what it would install from its index, with hashes; kglink itself is no archive.
.PHONY: hashes
hashes: $(INSTALLED) ## write hashes.txt: the SHA-256 of all packages, for make LOCK=hashes.txt
	$(PIP) install --quiet --dry-run --ignore-installed --report - --constraint constraints.txt \
		--no-build-isolation $(TORCH) hatchling editables --editable ".[dev]" > hashes.json
	$(BIN)/python -c "$$LINES_OF_HASHES" < hashes.json > hashes.txt
	@rm hashes.json
	@echo "hashes.txt: $$(wc -l < hashes.txt) packages; make clean, then make LOCK=hashes.txt"

define LINES_OF_HASHES
import json, sys
for one in json.load(sys.stdin)["install"]:
    archive = one["download_info"].get("archive_info")
    if archive:
        print("{name}=={version}".format(**one["metadata"]), "--hash=sha256:" + archive["hashes"]["sha256"])
endef
export LINES_OF_HASHES

.PHONY: clean
clean: ## remove everything that make made, .venv included
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch first and alone: nothing that is installed later may choose another build of it.
# No build isolation: the build back end is then pinned too, and a second run needs no network.
$(INSTALLED): pyproject.toml constraints.txt $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kglink needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "[1/4] an environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) 2>/dev/null || { \
		$(PYTHON) -m venv --clear --without-pip $(VENV) && \
		$(PYTHON) -m pip --quiet --python $(BIN)/python install pip; }
ifeq ($(LOCK),)
	@echo "[2/4] $(TORCH), the largest part"
	@$(PIP) install --quiet $(TORCH)
	@echo "[3/4] the tools that build kglink"
	@$(PIP) install --quiet --constraint constraints.txt hatchling editables
	@echo "[4/4] kglink and what it needs"
	@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable ".[dev]"
else
	@echo "[2/3] the packages of $(LOCK), each with its SHA-256"
	@$(PIP) install --quiet --require-hashes --requirement $(LOCK)
	@echo "[3/3] kglink"
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
endif
	@touch $@
