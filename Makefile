# One front door. Everything happens in .venv, which the first target that needs it makes.

.DEFAULT_GOAL := help
.PHONY: help demo install test test-fast test-hive3 check sweep fuzz mutate histories lint bench fixtures docs clean

# Byte code is kept: pytest rewrites all tests anew in each process otherwise, half a minute every time.
unexport PYTHONDONTWRITEBYTECODE

# Tests write and remove files by the ten thousand. In memory no stage waits for the disk of another; a container may
# have too little of it.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "/dev/shm"}')
ifneq ($(IN_MEMORY),)
export TMPDIR ?= $(IN_MEMORY)
endif

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := fixtures/tables/hive4/demo_orders
DEMO_STEP = $(lastword $(sort $(wildcard $(DEMO)/*-*)))
SERVICES := hive or hive3 or metastore or hdfs or s3 or spark or orctools
SLOW := $(SERVICES) or slow
# Nothing below these is fast; not even to be collected.
FAST_SKIPS := --ignore=tests/live --ignore=tests/services --ignore=tests/bench
PYTEST = $(BIN)/python -m pytest -q
# The files that have such tests; to collect all others takes each stage several seconds.
marked = $(shell grep -rlE 'mark[.]($(1))\b' tests --include='test_*.py')
# A process each: PySpark changes py4j for all of its process, and holds one session in it. Who takes that of all tests
# (`spark_session`) goes together, with whom starts none in this process.
SPARK_SHARED = $(shell grep -rl spark_session tests --include='test_*.py') tests/cli/test_secrets.py
SPARK_TESTS = $(filter-out $(SPARK_SHARED),$(call marked,spark))
SLOW_TESTS = $(call marked,slow)
SLOW_COMPACTION = tests/unit/compaction/% tests/cli/%
# Services wait much, so one stage more than cores runs at a time, the longest first; each shows at its end what it
# had to say.
SPARK_STAGES = spark-shared $(patsubst %,spark-%,$(notdir $(basename $(SPARK_TESTS))))
LONGER_SPARK = spark-test_spark_hdfs spark-test_spark_compact
STAGES = metastore storages hive slow-others slow-compaction $(filter $(LONGER_SPARK),$(SPARK_STAGES)) hive-on-hdfs fast \
	$(filter-out $(LONGER_SPARK),$(SPARK_STAGES))
JOBS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
SIDE_BY_SIDE = --no-print-directory --jobs=$(JOBS) --output-sync=target --keep-going

help: ## Print this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## Make .venv with acidctl, all its storages and engines, and the development tools

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "acidctl needs Python 3.11 or newer; name one with make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,dev]'
	$(BIN)/python fixtures/restore.py
	@touch $@

demo: install ## Show a small table that real Hive has written, compact a copy of it and clean that
	@$(BIN)/python -m tests.support.demo $(DEMO_STEP)

test: install ## Run all tests but those of Hive 3 and 2: those of real Hive 4, its metastore, HDFS, S3, Spark and ORC tools too
	@$(MAKE) $(SIDE_BY_SIDE) $(addprefix stage-,$(STAGES))

test-fast: install ## Run the tests that are quick and need no service (about a minute)
	$(PYTEST) -n auto --dist worksteal -o faulthandler_timeout=0 -m "not ($(SLOW))" $(FAST_SKIPS)

test-hive3: install ## Run the tests against Hive 3.1.3 and 2.3.10 on Java 8
	$(PYTEST) -m hive3 $(call marked,hive3)

check: install ## Run what a change has to pass: lint, test with all its cases, and test-hive3, side by side
	@ACIDCTL_EXTENT=check $(MAKE) $(SIDE_BY_SIDE) $(addprefix stage-,hive3 $(STAGES) lint)

stage-fast:
	$(PYTEST) -m "not ($(SLOW))" $(FAST_SKIPS)

stage-slow-compaction:
	$(PYTEST) -m "slow and not ($(SERVICES))" $(filter $(SLOW_COMPACTION),$(SLOW_TESTS))

stage-slow-others:
	$(PYTEST) -m "slow and not ($(SERVICES))" $(filter-out $(SLOW_COMPACTION),$(SLOW_TESTS))

stage-hive:
	$(PYTEST) -m "hive and not (hive3 or metastore or hdfs or s3 or orctools or spark)" $(call marked,hive)

stage-hive-on-hdfs:
	$(PYTEST) -m "hive and (hdfs or s3 or orctools) and not (hive3 or metastore or spark)" $(call marked,hive)

stage-metastore:
	$(PYTEST) -m "metastore and not (hive3 or spark)" $(call marked,metastore)

stage-storages:
	$(PYTEST) -m "(hdfs or s3 or orctools) and not (hive or hive3 or metastore or spark)" $(call marked,hdfs|s3|orctools)

stage-spark-shared:
	$(PYTEST) -m spark $(SPARK_SHARED)

stage-spark-%:
	$(PYTEST) -m spark $(filter %/$*.py,$(SPARK_TESTS))

stage-hive3:
	@$(MAKE) --no-print-directory test-hive3

stage-lint:
	@$(MAKE) --no-print-directory lint

sweep: install ## All that make test chooses from: fixture steps and ways to compact them, faults at every call, histories (hours)
	ACIDCTL_EXTENT=sweep $(PYTEST) -n auto -m "slow and not ($(SERVICES))" $(SLOW_TESTS)
	ACIDCTL_EXTENT=sweep $(BIN)/python -m pytest -v -o log_cli=true -o log_cli_level=INFO \
		tests/live/test_compact_hive.py tests/live/test_hdfs_hive.py tests/live/test_service_faults.py \
		tests/live/test_stitched_hive.py tests/live/test_conditions_hive.py tests/live/test_formats_hive.py
	$(BIN)/python -m tests.support.metastore_histories --minutes 30
	ACIDCTL_EXTENT=sweep $(PYTEST) tests/live/test_spark_compact.py
	ACIDCTL_EXTENT=sweep $(PYTEST) tests/live/test_spark_hdfs.py
	ACIDCTL_EXTENT=sweep $(PYTEST) tests/live/test_spark_source.py
	ACIDCTL_EXTENT=sweep $(PYTEST) tests/live/test_spark_source_cluster.py
	ACIDCTL_EXTENT=sweep $(PYTEST) tests/live/test_exported_readers.py

fuzz: install ## 100,000 seeded cases over files, tables, leftovers, lists, conditions, plans (half an hour): make fuzz SEED=2
	PYTHONPATH=fixtures $(BIN)/python -m tests.support.fuzz --cases 100000 --seed $(or $(SEED),1)

mutate: install ## Put 100 listed faults into compactions (nine of ten must be refused), 100 random ones into the code (95 noticed)
	$(BIN)/python -m tests.support.mutants
	$(BIN)/python -m tests.support.line_mutants 100@$(or $(SEED),1) $(if $(ONLY),--only $(ONLY))

histories: install ## 200 histories of a table whose compactors and cleaner are killed: no reader sees other rows
	PYTHONPATH=fixtures $(BIN)/python -m tests.support.killed_histories --histories 200

lint: install ## Check format, style, types and generated documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tests.support.reference --check

bench: install ## Measure compacting and reading beside Hive, Spark, cp, plain passes and orc-tools: make bench ROWS=5000000
	$(BIN)/python -m tests.bench $(if $(ROWS),--rows $(ROWS))

fixtures: install ## Make fixtures/tables anew with real Hive 4, 3 and 2 (an hour; needs Java 17 and Maven)
	$(BIN)/python fixtures/generate.py --engine hive4
	$(BIN)/python fixtures/generate.py --engine hive3
	$(BIN)/python fixtures/generate.py --engine hive2

docs: install ## Write the generated parts of the documents, then build the site in build/site
	$(BIN)/python -m tests.support.reference --write
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean: ## Remove .venv, caches and build results
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
