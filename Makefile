# `make` lists the targets. tools/build.mk says how make compiles, and for which device; tests/tests.mk tests, and bench/bench.mk measures.

# The programs of each step. All other sources in the folder of a step are modules, which later steps use too.
step1 := 01_single_gpu/train 01_single_gpu/classify 01_single_gpu/ladder/ladder
step2 := 02_multigpu_fork/train
step3 := 03_multigpu_launcher/launch 03_multigpu_launcher/train
step4 := 04_multinode/doctor 04_multinode/launch 04_multinode/train
step5 := 05_fsdp/train
step6 := 06_allreduce_demo/allreduce
step7 := 07_large_models/train 07_large_models/generate
step8 := 08_pipeline/train
step9 := 09_tensor/train
STEPS := step1 step2 step3 step4 step5 step6 step7 step8 step9
LAUNCHED := $(filter-out step1 step2 step6,$(STEPS))
DIFFS := diff12 diff23 diff34 diff45 diff57 diff48 diff89
PROGRAMS := $(foreach step,$(STEPS),$($(step)))

# Where numbers have a comma, mawk reads 2.5 as 2.
export LC_ALL := C.UTF-8
.DEFAULT_GOAL := help
.PHONY: help help-all quickstart first-run data programs diffstat doctor demo demo-fsdp demo-gpt rehearse images check-gpu docs record slides schedule site test-quick test test-all clean
.PHONY: $(STEPS) $(STEPS:%=run-%) $(DIFFS) $(PROGRAMS)
include tools/build.mk tools/see.mk exercises/exercises.mk tests/tests.mk bench/bench.mk

# make help lists these targets, and make help-all all of them.
LEARNER := quickstart data stepN run-stepN diffNM exercise check hint doctor test
help: ## lists the targets that most readers need
help-all: ## lists all targets
help: LISTED = grep -E '^make ($(subst $() ,|,$(LEARNER))) '
help-all: LISTED = cat
help help-all:
	@sed -n 's/^\([a-z][a-zMN0-9-]*\):.*## /\1|/p' Makefile tools/*.mk exercises/exercises.mk tests/tests.mk bench/bench.mk | \
		awk -F'|' '{printf "make %-17s %s\n", $$1, $$2}' | $(LISTED)
	@$(if $(filter help,$@),echo 'make help-all lists all targets.')
	@echo 'DEVICE=cpu or DEVICE=gpu after make chooses the device (now: $(if $(BOTH),both,$(DEVICE))); ARCH=native builds for the GPU of this machine only.'

# The device on which this machine runs the programs.
HERE = $(if $(BOTH),$(if $(shell nvidia-smi -L 2>/dev/null),gpu,cpu),$(DEVICE))

quickstart: ## installs packages, downloads the data, builds step 1 and trains it
	@DEVICE=$(HERE) NVCC=$(if $(filter gpu,$(HERE)),$(NVCC)) tools/deps.sh run
	@tools/data.sh
# To train soon, it builds for this machine only: for the CPU device, or for no other GPU than the one here.
	@$(MAKE) --no-print-directory DEVICE=$(HERE) $(if $(filter gpu,$(HERE)),BUILD=build/native ARCH=$(or $(ARCH),native)) step1 first-run
	$(if $(and $(BOTH),$(filter cpu,$(HERE))),@echo 'note: this machine has no GPU: the run was on the CPU device; make step1 builds for GPUs as well')

FIRST := build/quickstart
first-run: step1
	@rm -rf $(FIRST) && mkdir -p $(FIRST)
	01_single_gpu/train --epochs 3 --log-every 26 --snapshot $(FIRST)/model --csv $(FIRST)/loss.csv $(ARGS)
	@echo && tools/curve.sh $(FIRST)/loss.csv && echo
	01_single_gpu/classify --snapshot $(FIRST)/model $(ARGS)
	@printf '\n%s\n' 'Next: make exercise'

data: ## downloads MNIST, or SET=fashion-mnist, cifar10 or shakespeare, into data/ (on a cluster, on a login node); without internet, draws digits
	@tools/data.sh $(SET)

# make stepN links the programs of step N into its folder, too: 01_single_gpu/train leads to build/cpu/01_single_gpu/train.
.SECONDEXPANSION:
$(STEPS): $$($$@)
stepN: ## builds step N, such as step1, as make alone does in the folder of the step

# make run-stepN starts train, or the only program there is. From step 3 on, a launcher starts it on all GPUs: LAUNCH
# holds the options of the launcher, ARGS those of the program.
LAUNCH := --nproc-per-node auto
$(LAUNCHED:%=run-%): LAUNCHER = 03_multigpu_launcher/launch $(LAUNCH)
$(LAUNCHED:%=run-%): 03_multigpu_launcher/launch
TRAINER = $(filter %/train,$($*))
$(STEPS:%=run-%): run-%: %
	$(LAUNCHER) $(or $(TRAINER),$($*)) $(ARGS)
run-stepN: ## builds and runs step N, such as run-step1 ARGS="--epochs 3"

# What runs Python asks for it first.
demo rehearse docs record schedule launches figures $(STEPS:%=trace-%): python
.PHONY: python
python:
	@tools/deps.sh python

# Without --data, a program takes images in data/. As long as nobody has downloaded any, they are drawn.
IMAGES := $(if $(findstring --data,$(ARGS))$(wildcard $(addprefix data/*/,train-images?idx3-ubyte train-images?idx3-ubyte.gz *.bin*)),,images)
$(foreach step,$(filter-out step6,$(STEPS)),run-$(step) trace-$(step) profile-$(step)) ladder $(if $(S),demo): $(IMAGES)
images:
	@tools/data.sh digits

# $(call NPM,FROM,INTO) installs the packages of FROM/package.json into the folder INTO, unless they are there.
NPM = mkdir -p $2 && cp $1/package*.json $2 && { cmp -s $2/package-lock.json $2/installed || { \
	echo 'npm installs the packages of $1/package.json'; \
	cd $2 && npm ci --prefer-offline --no-audit --no-fund --loglevel=error && cp package-lock.json installed; }; }

$(DIFFS): diff%:
	@pair=$*; tools/diff_steps.sh $${pair%?} $${pair#?}
diffNM: ## shows what step M changes in step N, such as diff12 (F=join: that whole function; ALL=1: all of them)
diffstat: ## counts the lines that each step changes and asks to be read, and compares them with their limits
	@tools/author/diffstat.sh && echo && tools/author/reading.sh
# A file .d is no target: build.mk includes all that it finds, and another make may remove one meanwhile.
.DEFAULT:
	$(if $(filter %.d,$@),,$(error There is no $@: the steps are $(STEPS), and the differences are $(DIFFS); \
		make help-all lists all targets))

DOCTOR = build/$(HERE)/03_multigpu_launcher/launch build/$(HERE)/04_multinode/doctor
# make takes the files for targets, too, so they need a rule.
COMPARED := $(if $(filter compare,$(firstword $(MAKECMDGOALS))),$(filter-out compare,$(MAKECMDGOALS)))
.PHONY: compare $(sort $(COMPARED))
$(sort $(COMPARED)): ; @:
compare: ## says whether the losses of two runs differ by rounding or by a fault (make compare one.csv three.csv)
	@tools/compare.sh $(COMPARED)

doctor: ## checks whether this machine or job can run the course, and suggests fixes
	@status=0; tools/doctor.sh || status=1; $(MAKE) --no-print-directory DEVICE=$(HERE) $(DOCTOR) && \
		$(firstword $(DOCTOR)) $(LAUNCH) $(lastword $(DOCTOR)) $(ARGS) || status=1; exit $$status

demo: ## runs the commands of a slide, and draws its chart from what they print (S=1.26; without S, it lists the slides)
	@python3 -B tools/demo.py $(S)

demo-fsdp: ## trains language models that do not fit on one device: sharded, with recomputation, with accumulation (MEMORY=24G)
	@$(MAKE) --no-print-directory -s QUIET=@ step3 step7
	@tools/demo_fsdp.sh $(ARGS)

demo-gpt: ## trains a language model in two minutes, and shows what it writes before and after (TEXT=file, PROMPT="The ")
	@$(MAKE) --no-print-directory -s QUIET=@ step3 step5 step7 build/story.txt
	@tools/demo_gpt.sh $(ARGS)

rehearse: ## shows how a run would scale to 64 modelled GPUs (ARGS="--hidden 8192,8192": options of the step; ARGS=--help: more options)
	@$(MAKE) --no-print-directory -s QUIET=@ DEVICE=cpu $(addprefix build/cpu/,$(step3) $(step7) $(step9))
	@python3 -B tools/rehearse.py $(ARGS)

docs: ## fills the marked blocks of the texts with the current code, differences and numbers
	@tools/author/reading.sh --write && python3 -B tools/author/render.py

record: ## runs the commands whose output a text quotes, and refreshes the quotes and the timelines (ARGS=README.md: only of this text)
	@$(MAKE) --no-print-directory -s QUIET=@ DEVICE=cpu programs $(if $(ARGS),,build/cpu/bench/ring_rounds)
	@env -u ARGS python3 -B tools/author/record.py $(ARGS)
	@$(if $(ARGS),,python3 -B tools/author/timelines.py)

slides: ## makes the slides, as HTML and PDF in build/slides (DECK=2: only those of session 2)
	@tools/deps.sh slides
	@$(call NPM,docs/slides,build/node)
	@python3 -B tools/author/slides.py build $(DECK)

schedule: ## adds up the minutes of the slides and of their exercises (ARGS=--slides: when each slide begins)
	@python3 -B tools/author/slides.py schedule $(ARGS)

site: ## makes the web site of the course, with the steps side by side: build/site/index.html (make slides site: with the slides)
	@tools/deps.sh site
	@$(call NPM,docs/site,build/site-node)
	@tools/author/site.sh build/site

check-gpu: ## runs make test DEVICE=gpu, measures some runs, and writes a report (DEVICE=cpu: on the CPU device)
	@tools/check_gpu.sh $(if $(filter file,$(origin DEVICE)),gpu,$(DEVICE))

test-quick: ## runs the unit tests and the main tests of steps 1 to 3 in a minute; needs a compiler and cmocka
	@tools/deps.sh quick
	@LEVEL=quick tests/run.sh

test: ## shows that the steps work on this machine; installs the packages that the tests need (180 MB) (DEVICE=gpu: on its GPUs)
	@tools/deps.sh $(ON)
	@tools/data.sh || echo 'note: make test continues without MNIST, and skips the tests that need it'
	@LEVEL=$(ON) tests/run.sh
# Where nvcc is, DEVICE is gpu unless someone has set it.
test: ON = $(if $(filter file,$(origin DEVICE)),test,$(if $(filter gpu,$(DEVICE)),gpu,test))

test-all: ## also tests exercises, tools and texts, and runs the long tests and those with Slurm, PyTorch, Open MPI, MPICH and Chromium (installs 2 GB)
	@tools/deps.sh test-all
	@tools/data.sh || echo 'note: make test-all continues without MNIST, and skips the tests that need it'
	@tests/run.sh

clean: ## removes build/ and the links to it, and keeps data/
	rm -rf build $(PROGRAMS)
