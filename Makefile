# Every target makes .venv from the pinned constraints first; python3, pip and make are enough.
PYTHON ?= python3
BIN := .venv/bin
# The variable, unlike -c, also pins what builds the package.
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
THREADS ?= auto

.PHONY: demo browser postgres test lint types coverage mutants bench soak docs site clean

# What runs the package and its service, and nothing else.
.venv/demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv || { $(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv .venv; }
	$(PIP) -e ".[serve]"
	touch .venv/demo

.venv/ready: .venv/demo
	$(PIP) -e ".[test,lint,docs]"
	touch .venv/ready

.venv/bench: .venv/ready
	$(PIP) -e ".[bench]"
	touch .venv/bench

# diffprivlib works with an older scikit-learn than ours only.
.venv-peers/ready: benchmarks/peers.txt
	$(PYTHON) -m venv .venv-peers || $(PYTHON) -m virtualenv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	touch .venv-peers/ready

# A tour, then the service on a generated world until Ctrl-C; ONCE=1 ends after the tour.
demo: .venv/demo
	ONCE=$(ONCE) $(BIN)/sfumato demo

# The two targets that install a system package: Debian's chromium, for the tests of web/, and
# PostgreSQL's server, for those of the store (without a cluster: tests make their own).
browser:
	@command -v chromium >/dev/null || { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium >/dev/null; } \
		|| { echo "make browser: chromium is missing and could not be installed; as root: apt-get install chromium" >&2; exit 1; }

postgres:
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || { apt-get -qq update && mkdir -p /etc/postgresql-common \
		&& echo "create_main_cluster = false" >> /etc/postgresql-common/createcluster.conf \
		&& DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends -o Dpkg::Options::=--force-confold postgresql >/dev/null; } \
		|| { echo "make postgres: the server is missing and could not be installed; as root: apt-get install postgresql" >&2; exit 1; }

# A worker a core: threads of the linear algebra beside them only wait for each other. Hundreds of
# commands and services start, so that bytecode is to be kept.
test: .venv/ready
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(THREADS) -m "not soak"

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/docstrings.py

# How much of the public API has types, by pyright's count: at least 95 %.
.venv-types/ready:
	$(PYTHON) -m venv .venv-types || $(PYTHON) -m virtualenv .venv-types
	.venv-types/bin/python -m pip install --quiet --disable-pip-version-check pyright
	touch .venv-types/ready

types: .venv/ready .venv-types/ready
	$(BIN)/python docs/type_completeness.py .venv-types/bin/pyright

# Lines that the suite runs, kernels left out: what runs compiled is not counted.
coverage: .venv/ready
	$(PIP) "coverage>=7.10"
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest -n $(THREADS) -m "not soak"
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --skip-covered --sort=cover --fail-under=92

# Small ways to break privacy code, each of which some test must notice.
mutants: .venv/ready
	$(BIN)/python tests/support/mutants.py

soak: .venv/ready
	$(BIN)/python -m pytest -m soak

# All of them but the comparison of two trees; some with one thread of the linear algebra.
SINGLE := cluster decompose density density_defaults density_speed rank
OTHERS := $(filter-out $(SINGLE) compare_trees,$(basename $(notdir $(wildcard benchmarks/[a-z]*.py))))

bench: .venv/bench .venv-peers/ready
	set -e; for each in $(OTHERS); do $(BIN)/python benchmarks/$$each.py; done
	set -e; for each in $(SINGLE); do OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/$$each.py; done

# The pages and the reference as a site, docs/_build/html; a warning is an error.
site: .venv/ready
	$(BIN)/python -m sphinx -q -W --keep-going -j auto -b html docs docs/_build/html

docs: .venv/bench
	$(BIN)/python docs/api.py
	$(BIN)/python docs/commands.py
	$(BIN)/python docs/journeys.py --write
	$(BIN)/python docs/figures.py
	$(BIN)/python docs/calls.py
	$(BIN)/python docs/service.py
	$(BIN)/python docs/spark.py
	$(BIN)/python docs/factorization.py
	$(BIN)/python docs/reconstruction.py
	$(BIN)/python docs/codes.py
	$(BIN)/python docs/rappor.py
	$(BIN)/python docs/race.py
	$(BIN)/python docs/race_pictures.py
	$(BIN)/python docs/mining.py
	$(BIN)/python docs/home.py
	$(BIN)/python docs/drawings.py
	$(BIN)/python docs/how_private.py
	$(BIN)/python docs/evidence.py
	$(BIN)/python docs/comparison.py
	$(BIN)/python docs/readme.py
	$(BIN)/python docs/licences.py
	$(MAKE) site

clean:
	rm -rf docs/_build docs/reference docs/examples .venv .venv-peers .venv-types .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
