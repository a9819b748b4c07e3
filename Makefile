# Two commands do everything: `make demo` and `make test`. Each sets up what it needs, and a second run costs seconds.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11
EXPERT := target/release/expert-cli
STEP := $(PYTHON) scripts/dev/show_progress.py

# Some container images set it. Then each of hundreds of processes would compile torch and transformers again, for ten
# seconds; empty, the first one keeps what it compiled.
export PYTHONDONTWRITEBYTECODE :=

# For two cores: one process more than cores, because many tests wait for the processes that they start.
PYTEST_JOBS ?= 3

# Every file, because templates, presets and texts are compiled in. What an editor leaves begins with a dot.
RUST_SOURCES := $(shell find contract cli -type f ! -name '.*' 2>/dev/null) Cargo.toml Cargo.lock
NATIVE_SOURCES := $(shell find worker/native -type f ! -name '.*' 2>/dev/null) Cargo.toml Cargo.lock pyproject.toml

.PHONY: setup runtime demo wheels test test-all test-oldest test-newest mutants adversary fuzz test-rust test-python programs lint lint-platforms format lock bench experts clean help

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# --- set-up ---------------------------------------------------------------------------------------------------

# Debian's Python without its package python3-venv leaves an environment without pip; `venv` completes it later.
$(UV): requirements/bootstrap.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "expert-cli needs Python 3.11 or newer; $(PYTHON) is older. Name another: make PYTHON=python3.12" >&2; exit 3; }
	@echo "setting up $(VENV)" >&2
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml 2>/dev/null)

# Before gigabytes are downloaded, not after.
define DEMAND_RUST
	@found=$$(cargo --version 2>/dev/null | cut -d ' ' -f 2); test -n "$$found" || \
		{ echo "expert-cli needs Rust $(RUST) or newer, and there is no cargo: install it as https://rustup.rs says, then open a new shell" >&2; exit 3; }; \
		$(PYTHON) -c 'import sys; found, wanted = ([int(it) for it in text.split("-")[0].split(".")] for text in sys.argv[1:]); sys.exit(found < wanted)' \
		"$$found" $(RUST) || { echo "expert-cli needs Rust $(RUST) or newer; cargo is $$found: run rustup update" >&2; exit 3; }
endef

# What running needs. On a terminal uv and cargo show their progress; elsewhere a line every ten seconds does.
$(VENV)/.runtime: requirements/worker.lock | $(UV)
	$(DEMAND_RUST)
	@$(STEP) "Python packages (about 6 GB: torch with its CUDA libraries)" --grows $(VENV) -- \
		$(UV) pip install --python $(BIN)/python --no-deps --require-hashes -r $<
	@touch $@

# What tests, linters and benches need besides.
$(VENV)/.packages: requirements/dev.lock $(VENV)/.runtime | $(UV)
	@$(STEP) "packages for tests and linters" -- \
		$(UV) pip install --python $(BIN)/python --no-deps --require-hashes -r $<
	@touch $@

$(VENV)/.worker: $(NATIVE_SOURCES) $(VENV)/.runtime
	@PATH="$(abspath $(BIN)):$$PATH" $(STEP) "the native module (Rust, a minute or two the first time)" --grows target -- \
		$(UV) pip install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(EXPERT): $(RUST_SOURCES)
	@$(STEP) "expert-cli (Rust, a minute or two the first time)" --grows target -- \
		cargo build --release --locked
	@touch $@

runtime: $(VENV)/.worker $(EXPERT)

setup: runtime $(VENV)/.packages ## Virtual environment, native module, CLI, tools of the tests

# --- what people run ------------------------------------------------------------------------------------------

# Simple questions about one table are learnt in a few minutes, the expert's own data in one to two hours.
demo: runtime ## Train the SQL expert on simple questions, on this machine, with scores before and after
	@$(EXPERT) train --manifest experts/expert-sql/manifest.json --model smollm2-135m --resume --evaluate \
		--output experts/expert-sql/weights/demo --max-steps 120 --set training.config.learning_rate=0.002 \
		--set training.dataset.path=datasets/simple/train.jsonl \
		--set training.dataset.validation_path=datasets/simple/validation.jsonl \
		--set training.dataset.test_path=datasets/simple/test.jsonl \
		--set evaluation.test_set_size=60 --set evaluation.test_sets=null
	@command -v expert-cli > /dev/null || echo 'to type it: export PATH="$$PWD/$(EXPERT:%/expert-cli=%):$$PATH"'

# The program is packed from a copy of what `make setup` compiled, because maturin moves it away for a moment and
# somebody may be running it. A release's wheels come from .github/workflows/release.yml.
BUILD_PACKAGES = PATH="$(abspath $(BIN)):$$PATH" $(UV) build --quiet --no-build-isolation --python $(BIN)/python \
	--sdist --wheel --out-dir target/packages

wheels: runtime ## Wheels and source packages of expert-cli-lora and expert-worker, in target/packages
	@rm -rf target/packages target/packaging && mkdir -p target/packaging
	@$(BUILD_PACKAGES) .
	@cp -a target/release target/packaging/
	@CARGO_TARGET_DIR=$(abspath target/packaging) $(BUILD_PACKAGES) cli
	@rm -rf target/packaging
	@ls target/packages

experts: runtime ## Train and score every expert on the embedded base; unchanged experts are skipped
	@$(EXPERT) train --all experts --model smollm2-135m --set evaluation.test_set_size=128

# The Rust tests mostly wait for processes, so they run beside the Python tests.
test: setup programs ## The tests that guard every change
	@$(MAKE) --no-print-directory --keep-going -j 2 test-rust test-python

test-all: export EXPERT_FULL_TESTS = 1
test-all: test ## Also the long tests: every crash trial, compiled layers, parity with TRL

test-rust: setup
	@MAKEFLAGS= scripts/dev/cargo_test.py --locked --workspace --no-fail-fast $(if $(filter 1,$(EXPERT_FULL_TESTS)),-- --include-ignored)

# Tests open the report in a browser, type into terminals and shells, and run the commands that messages name. The tests
# of a program that is missing and cannot be installed are skipped with a message; in CI (EXPERT_NO_SKIPS=1) they fail.
AS_ROOT := test "$$(id -u)" = 0 || set -- sudo -n "$$@"; "$$@"
INSTALL := as_root() { $(AS_ROOT); }; command -v apt-get >/dev/null && as_root true 2>/dev/null && as_root apt-get update -qq && \
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends
# program:package
PROGRAMS := tmux:tmux zsh:zsh fish:fish jq:jq unzip:unzip bunzip2:bzip2 unxz:xz-utils

programs:
	@for name in chromium chromium-browser google-chrome chrome; do command -v $$name >/dev/null && exit 0; done; \
		echo "installing Chromium for the tests" >&2; { $(INSTALL) chromium >/dev/null; } || \
		echo "no Chromium: the report is not tested in a browser" >&2
	@missing=; for one in $(PROGRAMS); do command -v $${one%%:*} >/dev/null || missing="$$missing $${one##*:}"; done; \
		test -z "$$missing" || { echo "installing$$missing for the tests" >&2; { $(INSTALL) $$missing >/dev/null; } || \
		echo "not here:$$missing; the tests that use them are skipped" >&2; }

test-python: setup programs
	@MAKEFLAGS= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(PYTEST_JOBS) --dist loadfile --no-loadscope-reorder

# $(1): a virtual environment; $(2): which packages it has; $(3): their locks.
define worker_environment
	@$(UV) venv --quiet --allow-existing --seed --python $(BIN)/python $(1)
	@$(STEP) "the $(2) Python packages (about 6 GB)" --grows $(1) -- sh -c '\
		for lock in $(3); do \
			$(UV) pip install --quiet --python $(1)/bin/python --no-deps --require-hashes -r $$lock || exit; \
		done'
	@PATH="$(abspath $(BIN)):$$PATH" $(STEP) "the native module" --grows target -- \
		$(UV) pip install --quiet --python $(1)/bin/python --no-deps --no-build-isolation --editable .
endef

# The packages of the tests, and over them the oldest of those that the worker needs.
OLDEST := .venv-oldest
OLDEST_LOCKS := $(patsubst %,requirements/%.lock,bootstrap dev oldest)

$(OLDEST)/.worker: requirements/oldest.lock requirements/dev.lock $(NATIVE_SOURCES) | $(VENV)/.packages
	$(call worker_environment,$(OLDEST),oldest,$(OLDEST_LOCKS))
	@touch $@

# Not what tests/cuda counts, which is another number with every torch.
test-oldest: setup $(OLDEST)/.worker ## The worker's tests with the oldest packages that pyproject.toml allows
	@MAKEFLAGS= OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n $(PYTEST_JOBS) --dist loadfile --no-loadscope-reorder \
		tests/worker tests/cuda/test_runs.py tests/cuda/test_first_use.py

# What `pip install` takes today: resolved at that moment; the locks have what was tested last.
NEWEST := .venv-newest
NEWEST_LOCK := target/newest.lock

test-newest: setup ## The worker's tests with the newest packages that pyproject.toml allows
	@$(COMPILE) --override requirements/overrides.txt --upgrade requirements/dev.in -o $(NEWEST_LOCK)
	$(call worker_environment,$(NEWEST),newest,requirements/bootstrap.lock $(NEWEST_LOCK))
	@MAKEFLAGS= OMP_NUM_THREADS=1 $(NEWEST)/bin/python -m pytest -n $(PYTEST_JOBS) --dist loadfile --no-loadscope-reorder \
		tests/worker

# cargo-mutants takes minutes to build, so it is built only here.
CARGO_MUTANTS := $(VENV)/mutants/bin/cargo-mutants
CARGO_MUTANTS_VERSION := 27.1.0
MODULES ?=

$(CARGO_MUTANTS):
	@echo "building cargo-mutants (some minutes)" >&2
	@cargo install --quiet --locked --root $(VENV)/mutants cargo-mutants@$(CARGO_MUTANTS_VERSION)

mutants: setup $(CARGO_MUTANTS) ## Mutation testing of all areas or MODULES="compatible loss"; OPTIONS="--sample 30 --keep"
	@PATH="$(abspath $(dir $(CARGO_MUTANTS))):$$PATH" $(BIN)/python tests/mutation $(MODULES) $(OPTIONS)

lint: setup ## Formatting, lints and types, Rust and Python, and the workflows
	@cargo fmt --check
	@cargo clippy --quiet --locked --workspace --all-targets -- --deny warnings
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python scripts/dev/plain_words.py
	@$(BIN)/python scripts/dev/structure.py
	@$(BIN)/zizmor --offline --quiet --pedantic .github/workflows

# What can be checked of other systems from here. `rustup target add` fetches a target; none needs a C compiler.
TARGETS := x86_64-pc-windows-msvc aarch64-apple-darwin

lint-platforms: setup ## Rust and Python as Windows and macOS see them: clippy with those targets, mypy with --platform
	@for target in $(TARGETS); do \
		if rustup target list --installed | grep -qx $$target; then \
			cargo clippy --quiet --locked -p expert-contract -p expert-cli --all-targets --target $$target -- --deny warnings || exit $$?; \
		else echo "not checked: $$target is missing; rustup target add $$target" >&2; fi; done
	@for platform in win32 darwin; do \
		$(BIN)/mypy --platform $$platform --cache-dir .mypy_cache/$$platform || exit $$?; done

format: setup ## Format everything in place
	@cargo fmt
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

lock: | $(UV) ## Resolve the Python packages again, with hashes
	@$(COMPILE) requirements/bootstrap.in -o requirements/bootstrap.lock
	@$(COMPILE) --override requirements/overrides.txt requirements/dev.in -o requirements/dev.lock
	@$(COMPILE) --override requirements/overrides.txt -c requirements/dev.lock requirements/worker.in -o requirements/worker.lock
	@$(COMPILE) --override requirements/overrides.txt -c requirements/dev.lock requirements/container.in -o requirements/container.lock
	@$(COMPILE) --resolution lowest-direct --override requirements/overrides.txt requirements/oldest.in -o requirements/oldest.lock

bench: setup ## Every benchmark, each a ratio of two programs in one run
	@$(BIN)/python -m benches

adversary: setup ## Every attack on the tool, as a table; OPTIONS="--area sql --results FILE"
	@$(BIN)/python -m tests.adversary $(OPTIONS)

TARGET ?=
SECONDS ?= 60

fuzz: setup ## Search for inputs that break a parser: TARGET="manifest events", SECONDS=600; all targets without TARGET
	@nice -n 10 $(BIN)/python scripts/dev/fuzz.py $(TARGET) --seconds $(SECONDS)

clean: ## Remove what was built; keep trained weights and caches
	@cargo clean --quiet
	@rm -rf $(VENV) worker/python/expert_worker/_native*.so
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
