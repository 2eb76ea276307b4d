# `make demo` and `make test` do all their set-up themselves.
PYTHON ?= python3
BIN := .venv/bin
TORCH := torch==2.13.0
BUDGET ?= 3m

.PHONY: setup demo test exact truth endurance frameworks bench score lint clean

setup: .venv/ready

# torch first and pinned: a CPU build where one is at hand, and no second download by the packages that ask for it.
.venv/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("hotlap needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet --editable '.[train,dev]'
	touch $@

# A slow script: why it is slow, the experiments that prove it, and what makes it faster.
demo: setup
	$(BIN)/hotlap investigate casestudies/snake_dqn.py --python $(BIN)/python --budget $(BUDGET)
	@echo; echo "The same as a page, with plots; open it in a browser:"
	@$(BIN)/hotlap report latest --format html

test: setup
	$(BIN)/python -m pytest -n auto --ignore tests/frameworks

# Against oracles: exhaustively, where `make test` takes a fixed sample.
exact: setup
	$(BIN)/python -m pytest -n auto -m exact --durations=10

# Ten thousand damaged records, two hundred of them through the command line, and a hundred kills of hotlap. Before a release.
endurance: setup
	$(BIN)/python -m pytest -n auto -m endurance

# About wall-clock time: alone, one test after the other, with statistics instead of single readings.
truth: setup
	$(BIN)/python -m pytest -m truth

# The heavy frameworks live in an environment of their own: some of them pin the versions of what they share. importnb comes with
# mettagrid, and its plugin does not work with this pytest.
frameworks: .venv-frameworks/ready
	.venv-frameworks/bin/python -m pytest -n 2 -p no:importnb tests/frameworks

.venv-frameworks/ready: pyproject.toml
	test -x .venv-frameworks/bin/python || $(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/python -c 'import torch' 2>/dev/null || .venv-frameworks/bin/pip install --quiet '$(TORCH)'
	.venv-frameworks/bin/pip install --quiet --editable '.[train,sb3,torchrl,rllib,tianshou,skrl,wandb,mettagrid]' pettingzoo pytest pytest-xdist
	touch $@

bench: setup
	$(BIN)/python benchmarks/foundation.py
	$(BIN)/python benchmarks/snake.py
	$(BIN)/python benchmarks/probe_cost.py
	$(BIN)/python benchmarks/compare_truth.py
	$(BIN)/python benchmarks/games.py
	$(BIN)/python benchmarks/cage2.py
	$(BIN)/python benchmarks/hearts.py
	$(BIN)/python benchmarks/hearts_update.py
	$(BIN)/python benchmarks/petri.py
	$(BIN)/python benchmarks/petri_learning.py
	$(BIN)/python benchmarks/mettagrid_speed.py
	$(BIN)/python benchmarks/mettagrid_learning.py
	$(BIN)/python benchmarks/workers.py
	$(BIN)/python benchmarks/ppo.py
	$(BIN)/python benchmarks/ppo_native.py
	$(BIN)/python benchmarks/ppo_learning.py

# The scripts with a planted cause need TorchRL, pandas and OpenCV too. Takes about an hour.
score: setup
	$(BIN)/pip install --quiet --editable '.[train,dev,score]'
	$(BIN)/python benchmarks/planted/score.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv .venv-frameworks build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
