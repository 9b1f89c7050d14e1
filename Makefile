# Every target works on a fresh checkout with make and Python 3.11 or newer: the first one creates .venv.
# PYTHON=... chooses the interpreter for it.

.POSIX:
.PHONY: all check test test-fast test-real test-older test-long demo bench generate screenshots clean

PYTHON =
W =
K = 1.35
VENV = .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready
BESIDE = -n 2 --dist loadfile --no-loadscope-reorder

# Containers often forbid Python to keep what it has compiled: every process of a lane would compile all of Tollbar anew.
export PYTHONDONTWRITEBYTECODE =

all: check test

$(READY): pyproject.toml
	@python=; \
	for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    python=$$candidate; break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo 'error: no Python 3.11 or newer on PATH; install one, or name it: make PYTHON=/path/to/python3' >&2; exit 1; \
	fi; \
	if [ ! -x $(BIN)/python ]; then \
	  echo "creating $(VENV) with $$python ($$("$$python" --version))"; \
	  "$$python" -m venv $(VENV) || { \
	    echo "error: $$python cannot create a virtual environment; on Debian install python3-venv" >&2; exit 1; }; \
	fi
	@echo 'installing tollbar and its development tools into $(VENV) (a minute or two the first time)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(READY)

# Style, types, layers, and that generated files are up to date.
check: $(READY)
	$(BIN)/ruff check --no-cache
	$(BIN)/ruff format --check --no-cache
	$(BIN)/mypy
	$(BIN)/mypy manifests/examples/scheduler-plugins/sample_plugins
	$(BIN)/lint-imports
	@for script in scripts/generate_*.py; do \
	  [ -e "$$script" ] || continue; \
	  echo "$(BIN)/python $$script --check"; \
	  $(BIN)/python "$$script" --check || exit 1; \
	done

# Everything but the full volumes.  The first run builds a real control plane, which takes about eleven minutes and says
# so; it comes first because it brings the kubectl that the embedded one is tried with.
test: test-real test-fast

# What needs no real control plane, on all cores.
test-fast: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not real' --ignore tests/e2e

# What needs the real control plane: drills under load by themselves, then all others, on two planes side by side; the
# main job with Tollbar's scheduler in the place of kube-scheduler; and the demonstration, which needs no real plane.
test-real: $(READY)
	$(BIN)/python -m pytest -m 'real and alone'
	$(BIN)/python -m pytest $(BESIDE) -m 'real and not alone'
	TOLLBAR_SCHEDULER=tollbar $(BIN)/python -m pytest $(BESIDE) -m real \
	  tests/e2e/test_main_job.py tests/e2e/test_examples.py
	$(BIN)/python -m pytest -n 2 -m 'not real' tests/e2e

# The lanes about behaviour on an older Kubernetes, which is built once as well; `make test-older K=1.36` takes another.
test-older: $(READY)
	TOLLBAR_KUBERNETES=$(K) $(BIN)/python -m pytest -m real tests/contract tests/integration tests/e2e \
	  --ignore tests/e2e/test_demo.py

# The full volumes of load, faults and fuzzing, of which the other lanes run a little.
test-long: $(READY)
	TOLLBAR_PODS=10000 $(BIN)/python -m pytest tests/integration/test_many_pods.py --log-cli-level=INFO
	TOLLBAR_DRILLS=10 $(BIN)/python -m pytest tests/faults/test_under_load.py tests/e2e/test_removal.py \
	  tests/integration/test_flood.py tests/integration/test_large_*.py tests/integration/test_dev.py \
	  tests/integration/test_drain.py --log-cli-level=INFO
	TOLLBAR_QUOTA_PODS=5000 $(BIN)/python -m pytest tests/faults/test_quota.py --log-cli-level=INFO
	TOLLBAR_LIFE_CYCLES=10000 $(BIN)/python -m pytest tests/faults/test_claims.py
	TOLLBAR_GATES=20000 $(BIN)/python -m pytest tests/faults/test_gates.py
	TOLLBAR_MIGRATIONS=5000 $(BIN)/python -m pytest tests/property/test_ordinals.py
	TOLLBAR_ORDINAL=20 $(BIN)/python -m pytest tests/faults/test_ordinal.py --log-cli-level=INFO
	TOLLBAR_CLAIM_SCENARIOS=2000 $(BIN)/python -m pytest tests/parity
	TOLLBAR_CONSUMERS=2000 $(BIN)/python -m pytest tests/e2e/test_many_consumers.py
	TOLLBAR_SCHEDULED_PODS=2000 $(BIN)/python -m pytest tests/faults/test_scheduler.py
	TOLLBAR_SOAK_SECONDS=1800 $(BIN)/python -m pytest tests/faults/test_soak.py --log-cli-level=INFO
	TOLLBAR_CEL_CASES=100000 TOLLBAR_CEL_PAIRS=100000 TOLLBAR_CEL_SECONDS=3600 TOLLBAR_CEL_LOOPS=200 \
	  $(BIN)/python -m pytest tests/cel
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[mutation]'
	$(BIN)/python scripts/mutate.py
	TOLLBAR_PROMETHEUS=1 $(BIN)/python -m pytest tests/integration/test_prometheus.py
	TOLLBAR_DRA_PROBLEMS=50000 $(BIN)/python -m pytest tests/dra
	TOLLBAR_SCHEDULER_HISTORIES=20000 $(BIN)/python -m pytest --hypothesis-profile=random tests/property tests/unit
	TOLLBAR_SCHEDULER=tollbar $(BIN)/python -m pytest -m real tests/e2e --ignore tests/e2e/test_demo.py
	TOLLBAR_SCHEDULER_CLUSTERS=13000 TOLLBAR_SCHEDULER_HINTS=5000 TOLLBAR_QUEUE_TRACES=10000 \
	  $(BIN)/python -m pytest tests/scheduler

demo: $(READY)
	@$(BIN)/tollbar demo

# About a quarter of an hour, on a machine that does nothing else; `make bench W=ungate` runs one workload.
# W=schedule takes an hour or more, and is not one of those that run unnamed.
bench: $(READY)
	$(BIN)/python -m benchmarks $(W)

generate: $(READY)
	@for script in scripts/generate_*.py; do \
	  [ -e "$$script" ] || continue; \
	  echo "$(BIN)/python $$script"; \
	  $(BIN)/python "$$script" || exit 1; \
	done

# The pictures of pages in the docs, taken with the browser of the tests.
screenshots: $(READY)
	$(BIN)/python scripts/screenshots.py

# Everything that these targets made here; the built control plane stays in the user's cache.
clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
