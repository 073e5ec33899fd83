# Everything is one line to run; `make` alone says which lines there are.
#
# Cells need root. What needs it is run with sudo when you are not root, and said so.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test check unit live fresh fix bench screenshots constraints clean

BIN  := .venv/bin
ROOT := $(shell [ "$$(id -u)" -eq 0 ] || echo sudo --preserve-env=CI,CELL_MUST_WORK,COLORTERM,TERM,LANG,LC_ALL)
JOBS ?= jobs
ARGS ?=

help:  ## what can be run
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

setup:  ## install what is missing (asks before sudo) and make .venv
	@tools/setup $(if $(CELL_MUST_WORK),--engine)

# Status 3 says that some rollouts are ungraded: one of the examples is, by design.
demo: setup  ## run the example tasks as real cells, then open the cockpit on them
	@$(if $(ROOT),echo "demo: cells need root: this runs with sudo",:)
	@$(ROOT) $(BIN)/cell run examples/tasks -a oracle --jobs-dir $(JOBS); status=$$?; \
	  if [ $$status -ne 0 ] && [ $$status -ne 3 ]; then exit $$status; fi
	@if [ -t 0 ] && [ -t 1 ]; then $(ROOT) $(BIN)/hudtui $(JOBS); fi

test: setup  ## all tests, the live ones with root
	@$(if $(ROOT),echo "test: the live tests make real cells and need root: sudo",:)
	@$(if $(CELL_MUST_WORK),$(ROOT) tools/images)
	@status=0; \
	echo "── unit tests and the cockpit's, side by side"; \
	$(ROOT) $(BIN)/python -m pytest -q -p no:cacheprovider -n auto tests/unit tests/tui $(ARGS) || status=1; \
	echo "── real cells, one after the other"; \
	$(ROOT) $(BIN)/python -m pytest -p no:cacheprovider tests/live tests/attacks $(ARGS) || status=1; \
	exit $$status

check: setup  ## format, lint, types, import layers, unit tests; under a minute
	@status=0; \
	for step in 'ruff check .' 'ruff format --check .' mypy 'lint-imports --no-cache' \
	  'python -m pytest -q -n auto tests/unit $(ARGS)'; do \
	    echo "── $$step"; $(BIN)/$$step || status=1; \
	done; exit $$status

unit: setup  ## the tests that need no root, the cockpit's too
	$(BIN)/python -m pytest -n auto tests/unit $(wildcard tests/tui) $(ARGS)

live: setup  ## the tests that make real cells
	$(ROOT) $(BIN)/python -m pytest -p no:cacheprovider tests/live tests/attacks $(ARGS)

fresh: setup  ## README's two commands in a fresh clone, everything installed anew (minutes)
	$(ROOT) env CELL_FRESH=1 $(BIN)/python -m pytest -p no:cacheprovider tests/fresh $(ARGS)

fix: setup  ## format, and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## measure, each figure beside its floor
	$(ROOT) $(BIN)/python -m bench $(ARGS)

screenshots: setup  ## draw the pictures of the cockpit again; as root from a new real run, which `--demo` shows then
	$(BIN)/python -m screenshots $(ARGS)

constraints: setup  ## write the installed versions into constraints.txt
	@{ head -n 1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable; } > constraints.new && mv constraints.new constraints.txt

clean:  ## remove the venv and the caches, never a job
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache build *.egg-info
