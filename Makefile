# `make` lists the targets. Where make finds nvcc, it builds each step for an NVIDIA GPU (in build/gpu) and for the CPU
# device (common/cpu, in build/cpu); the program for the GPU starts the other one on a machine without a GPU
# (common/fallback.c). Without nvcc it builds for the CPU device, and with DEVICE=gpu or DEVICE=cpu for one of the two.

NVCC := $(or $(wildcard $(CUDA_HOME)/bin/nvcc),$(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
ifeq ($(origin DEVICE),undefined)
DEVICE := $(if $(NVCC),gpu,cpu)
# BUILD names a folder for the objects of one device.
BOTH := $(if $(BUILD),,$(NVCC))
endif
ifneq ($(filter-out cpu gpu,$(DEVICE)),)
$(error DEVICE=$(DEVICE): want cpu or gpu)
endif
BUILD := build/$(DEVICE)
# The GPU to build for, such as native or 90; without it, every generation that nvcc knows from compute capability 6.0 on.
ARCH :=

CFLAGS := -O3 -g
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -Wall -Wextra $(if $(WERROR),-Werror) -fno-math-errno -MMD -MP -pthread $(CFLAGS)
NVCC_FLAGS = $(if $(ARCH),-arch=$(if $(filter-out all all-major native,$(ARCH)),sm_)$(ARCH),$(GENERATIONS)) -O3 --threads 0 \
	-Xcompiler -Wall,-Wextra$(if $(WERROR),$(comma)-Werror) $(if $(WERROR),-Werror all-warnings)
comma := ,
# V=1 shows whole commands.
QUIET = $(if $(V),,@echo '  $@';)

SOURCES := $(filter-out common/fallback.c,$(wildcard common/*.c)) $(if $(filter gpu,$(DEVICE)),common/kernels.cu,$(wildcard common/cpu/*.c))
COMMON := $(patsubst %,$(BUILD)/%.o,$(basename $(SOURCES)))
PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(wildcard 0*/*.c))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help quickstart data programs test-quick test test-all fuzz bench-step1 bench-step2 bench-collectives bench-launcher bench-watchdog bench-step5 check-gpu demo-fsdp diffstat doctor container test-cluster test-container format lint clean
help: ## prints this list
	@sed -n 's/^\([a-z][a-zMN0-9-]*\):.*## /\1|/p' Makefile | awk -F'|' '{printf "make %-17s %s\n", $$1, $$2}'
	@echo 'DEVICE=cpu or DEVICE=gpu after make chooses the device (now: $(if $(BOTH),both,$(DEVICE))); ARCH=native builds for the GPU of this machine only.'

quickstart: export NEXT = Next: make run-step1 ARGS="--epochs 10", or read 01_single_gpu/README.md
quickstart: ## installs packages, downloads the data, builds step 1 and trains it
	@DEVICE=$(if $(BOTH),$(if $(shell nvidia-smi -L 2>/dev/null),gpu,cpu),$(DEVICE)) tools/deps.sh run
	@tools/data.sh || [ -z "$(MNIST_MIRROR)" ]
	@$(MAKE) --no-print-directory run-step1 ARGS="--epochs 3 $(ARGS)"

data: ## downloads MNIST into data/ (on a cluster, run it on a login node)
	@tools/data.sh

programs: $(PROGRAMS)

# If there are no images, as on a machine without internet, the programs that make runs use synthetic images.
IMAGES := $(if $(wildcard $(addprefix data/*mnist/train-images-idx3-ubyte,$() .gz)),,--data synthetic)
MADE_UP = note: these images are synthetic, not digits; make data downloads MNIST if there is internet access

# make stepN builds the programs of step N and links them into its folder; run-stepN runs train, or the
# one program there is. From step 3 on a launcher starts it: LAUNCH is for the launcher, ARGS for what it starts.
LAUNCH := --nproc-per-node auto
launcher = $(if $(filter 3 4 5,$(1)),03_multigpu_launcher/launch $$(LAUNCH))
step_programs = $(filter $(BUILD)/0$(1)_%,$(PROGRAMS))
# Beside each program for the GPU, PROGRAM.cpu leads to the one that common/fallback.c starts in its place.
define step_rules
.PHONY: step$(1) run-step$(1)
step$(1): $(step_programs) $(if $(BOTH),cpu-programs)
	@$$(foreach p,$(step_programs),ln -sf ../$$p $$(p:$(BUILD)/%=%); \
		$(if $(BOTH),ln -sf ../../../$$(p:$(BUILD)/%=build/cpu/%),rm -f) $$p.cpu;)
run-step$(1):
	@$$(MAKE) --no-print-directory $(if $(filter 4 5,$(1)),step3) step$(1)
	$(launcher) $(patsubst $(BUILD)/%,%,$(or $(filter %/train,$(step_programs)),$(step_programs))) \
		$(if $(filter %/train,$(step_programs)),$(IMAGES)) $$(ARGS)
	@[ -z "$$$$NEXT" ] || printf '\n%s\n' "$$$$NEXT"
	$(if $(filter %/train,$(step_programs)),$(if $(IMAGES),@echo '$(MADE_UP)'))
endef
STEPS := $(patsubst 0%,%,$(sort $(foreach d,$(wildcard 0*_*/),$(firstword $(subst _, ,$(d))))))
$(foreach n,$(STEPS),$(eval $(call step_rules,$(n))))
# A single second make builds the programs for the CPU device, because two at the same time would write the same files.
# A login node may lack a library for them; then the programs for the GPU are enough.
cpu-programs:
	@$(MAKE) -s DEVICE=cpu build/cpu/libs.mk >/dev/null 2>&1 || { echo 'note: built for machines with a GPU only,' \
		'as a library of the CPU device is not here: make DEVICE=cpu $(MAKECMDGOALS) names it'; exit; }; \
	$(MAKE) $(if $(V),,-s) --no-print-directory DEVICE=cpu $(patsubst $(BUILD)/%,build/cpu/%,\
		$(foreach step,$(filter step%,$(MAKECMDGOALS)),$(call step_programs,$(step:step%=%))))
.PHONY: cpu-programs
stepN: ## builds step N, such as step1
run-stepN: ## builds and runs step N, such as run-step1 ARGS="--epochs 3"

# make diffNM shows what step M changes in the train.c of step N: for every pair that exists.
define diff_rule
.PHONY: diff$(1)$(2)
diff$(1)$(2):
	@tools/diff_steps.sh $(1) $(2)
endef
TRAINED := $(foreach n,$(STEPS),$(if $(wildcard 0$(n)_*/train.c),$(n)))
$(foreach p,1.2 2.3 3.4 4.5 5.6 6.7 7.8 8.9,$(if $(filter-out $(TRAINED),$(subst ., ,$(p))),,\
	$(eval $(call diff_rule,$(basename $(p)),$(subst .,,$(suffix $(p)))))))
diffNM: ## shows what step M changes in step N, such as diff12 (F=join: only that function; ALL=1: all changes)
diffstat: ## counts the lines that each step changes, and compares them with its budget
	@tools/diffstat.sh

doctor: ## checks whether this machine or job can run the course, and suggests fixes
	@status=0; tools/doctor.sh || status=1; $(MAKE) --no-print-directory step3 step4 && \
		03_multigpu_launcher/launch $(LAUNCH) 04_multinode/doctor $(ARGS) || status=1; exit $$status

demo-fsdp: ## trains a model that does not fit on one device, and compares sharding strategies
	@$(MAKE) --no-print-directory -s QUIET=@ step3 step4 step5
	@tools/demo_fsdp.sh $(IMAGES)

check-gpu: ## tests the course on this machine's GPUs and writes a report (DEVICE=cpu: on the CPU device)
	@tools/check_gpu.sh $(if $(filter file,$(origin DEVICE)),gpu,$(DEVICE))

container: ## builds an Apptainer image with the compilers and libraries that the course needs for DEVICE
	@tools/container.sh $(DEVICE)

test-quick: ## runs the unit tests and the main tests of steps 1 to 3 in a minute; needs a compiler and cmocka
	@tools/deps.sh quick
	@LEVEL=quick tests/run.sh

test: ## tests everything in a few minutes; installs the packages that the tests need (180 MB)
	@tools/deps.sh test
	@tools/data.sh || true
	@LEVEL=test tests/run.sh

test-all: ## also runs the long tests and those with Slurm, PyTorch, Open MPI and MPICH (installs 1.5 GB)
	@tools/deps.sh test-all
	@tools/data.sh || true
	@tests/run.sh

test-cluster: ## runs the Slurm and PBS job scripts on a simulated cluster of four nodes
	@tools/deps.sh cluster
	@tests/run.sh cluster/

test-container: ## builds the contents of containers/cpu.def and runs step 4 in them on two nodes
	@tools/deps.sh container
	@TEST_CONTAINER=1 tests/run.sh cluster/container

# libs.mk holds the flags of the libraries on this machine. Make searches again if the compilers, the variables that name
# folders or the search script have changed, or if a library was missing. Make reads libs.mk again after it has changed.
SEARCH = $(shell { echo '$(CC) $(NVCC) $(PRODUCTS)'; cat tools/find_libs.sh; \
	env | grep -E '^((CUDA|NCCL|NVHPC|OPENBLAS)_(HOME|ROOT)|EBROOT.*|CONDA_PREFIX|CPATH|C_INCLUDE_PATH|LIBRARY_PATH)=' | sort; } | cksum)
ifneq ($(filter-out help clean format lint data quickstart doctor container test test-% check-gpu demo-% fuzz bench-% diff% run-step%,$(or $(MAKECMDGOALS),help)),)
include $(BUILD)/libs.mk
ifneq ($(SEARCHED)$(MISSING),$(SEARCH))
$(BUILD)/libs.mk: $(if $(MAKE_RESTARTS),,always)
endif
endif
$(BUILD)/libs.mk:
	@mkdir -p $(@D)
	@{ echo 'SEARCHED := $(SEARCH)'; CC='$(CC)' FLAGS='$(ALL_CFLAGS)' NVCC='$(NVCC)' PRODUCTS='$(PRODUCTS)' tools/find_libs.sh $(DEVICE); } >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# If the flags differ from those of the last build, make rebuilds everything.
FLAGS_NOW = $(CC) $(ALL_CFLAGS) $(NVCC_FLAGS) $(LIB_FLAGS) $(NCCL_FLAGS)
$(BUILD)/flags: always
	@mkdir -p $(@D)
	@echo '$(FLAGS_NOW)' | cmp -s - $@ || echo '$(FLAGS_NOW)' >$@
.PHONY: always

ifeq ($(DEVICE),cpu)
# gcc keeps calls at the end of functions, so that the checker of ordering can report their lines.
ALL_CFLAGS += -Icommon/cpu/include -fno-optimize-sibling-calls
endif

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(filter gpu,$(DEVICE)),$(if $(NCCL_FLAGS),,@! grep -q '<nccl.h>' $< || NVCC=$(NVCC) tools/find_libs.sh nccl))
	$(QUIET)$(CC) $(ALL_CFLAGS) $(filter -I% -D%,$(NCCL_FLAGS) $(LIB_FLAGS)) -c $< -o $@
$(BUILD)/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(QUIET)$(NVCC) $(NVCC_FLAGS) -MMD -MP $(filter -I%,$(LIB_FLAGS)) -c $< -o $@
# An archive and --as-needed keep the CUDA libraries out of the launcher, which does not use them.
$(BUILD)/common.a: $(COMMON)
	@rm -f $@
	$(QUIET)$(AR) -rc $@ $^
$(filter-out %/launch,$(PROGRAMS)): $(if $(filter gpu,$(DEVICE)),$(BUILD)/common/fallback.o)
$(PROGRAMS): %: %.o $(BUILD)/common.a
	$(QUIET)$(CC) $(ALL_CFLAGS) $^ -o $@ -Wl,--as-needed $(NCCL_FLAGS) $(LIB_FLAGS) -lm -ldl

# Make builds the unit tests like the programs. clang also compiles kernels.cu for the host, so that a test can compare
# its formulas with the plain kernels without a GPU. Tests that use the internals of the CPU device exist for it only.
INSIDE_CPU := $(shell grep -lsE 'common/cpu/|CPU_DEVICE' tests/unit/test_*.c)
LEFT_OUT := $(if $(filter gpu,$(DEVICE)),$(INSIDE_CPU)) $(if $(shell command -v clang),,tests/unit/test_kernels_cu.c)
UNIT_TESTS := $(patsubst %.c,$(BUILD)/%,$(filter-out $(LEFT_OUT),$(wildcard tests/unit/*.c)))
unit-tests: $(UNIT_TESTS)
.PHONY: unit-tests
$(UNIT_TESTS): %: %.o $(COMMON)
	$(QUIET)$(CC) $(ALL_CFLAGS) $^ -o $@ $(LIB_FLAGS) -lcmocka -lm
$(BUILD)/tests/unit/test_kernels_cu: $(BUILD)/tests/unit/kernels_cu.o
$(BUILD)/tests/unit/kernels_cu.o: common/kernels.cu tests/unit/host_cuda.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(QUIET)clang -x c++ -include tests/unit/host_cuda.h -Icommon/cpu/include -Wall -Wextra -Werror -MMD -MP -O1 -c $< -o $@

fuzz: ## tests each file reader with random input for an hour (FUZZ_SECONDS=60: for a minute)
	@tools/deps.sh fuzz
	@tests/fuzz/run.sh $(or $(FUZZ_SECONDS),3600)

bench-step1: ## compares step 1 with PyTorch and bare matrix products (ARGS="--rounds 2": faster; --accuracy: also 5 seeds)
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory -s DEVICE=cpu QUIET=@ programs build/cpu/tests/bench/sgemm
	@/usr/bin/python3 -B tests/bench/step1.py build/cpu $(ARGS)
bench-step2: ## compares step 2 with PyTorch DDP and step 1, and times communication (ARGS="--rounds 2": faster)
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory -s DEVICE=cpu QUIET=@ programs
	@/usr/bin/python3 -B tests/bench/step2.py build/cpu $(ARGS)
bench-collectives: ## times all-reduce on the CPU device beside Open MPI and a plain memory exchange
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory -s DEVICE=cpu QUIET=@ build/cpu/tests/bench/collectives build/cpu/tests/bench/exchange \
		$$(command -v mpicc >/dev/null && echo build/cpu/tests/bench/mpi_allreduce)
	@/usr/bin/python3 -B tests/bench/collectives.py build/cpu $(ARGS)
bench-launcher: ## times the launcher beside torchrun
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory -s DEVICE=cpu QUIET=@ programs
	@/usr/bin/python3 -B tests/bench/launcher.py build/cpu $(ARGS)
bench-watchdog: ## times a collective on the host, with and without the watchdog of step 4
	@$(MAKE) --no-print-directory -s DEVICE=$(DEVICE) QUIET=@ $(BUILD)/tests/bench/watchdog
	@$(BUILD)/tests/bench/watchdog
bench-step5: ## measures the speed of step 5's strategies beside step 4
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory -s DEVICE=cpu QUIET=@ programs
	@/usr/bin/python3 -B tests/bench/step5.py build/cpu $(ARGS)

BENCHMARKS := $(addprefix $(BUILD)/tests/bench/,sgemm exchange collectives watchdog)
$(BENCHMARKS): %: %.o
	$(QUIET)$(CC) $(ALL_CFLAGS) $^ -o $@ $(LIB_FLAGS) $(NCCL_FLAGS) -lm
$(BUILD)/tests/bench/exchange $(BUILD)/tests/bench/collectives: $(BUILD)/tests/bench/allreduce.o
$(BUILD)/tests/bench/collectives $(BUILD)/tests/bench/watchdog: $(COMMON)
$(BUILD)/tests/bench/exchange.o: private CFLAGS += -march=native # a bound may use all that is here
$(BUILD)/tests/bench/mpi_allreduce: $(addprefix tests/bench/,mpi_allreduce.c allreduce.c allreduce.h) $(BUILD)/flags
	@mkdir -p $(@D)
	$(QUIET)OMPI_CC='$(CC)' mpicc $(filter-out -MMD -MP,$(ALL_CFLAGS)) $(filter %.c,$^) -o $@

C_SOURCES = $(shell find 0* common tests -name '*.[ch]' -o -name '*.cu')
format: ## formats the C sources
	@tools/deps.sh format
	@clang-format -i $(C_SOURCES)
lint: ## checks the format of the C sources, the shell scripts and common mistakes
	@tools/deps.sh lint
	@clang-format --dry-run -Werror $(C_SOURCES)
	@shellcheck tools/*.sh .ci/run slurm/site.sh pbs/site.sh tests/cluster/qsub \
		$(shell find tests -name '*.sh' -o -name '*.bash' -o -name '*.bats')
	@tools/lint_jobs.sh
	@cppcheck --quiet --error-exitcode=1 --enable=warning,portability --inline-suppr \
		--suppress=missingInclude --suppress=normalCheckLevelMaxBranches -Icommon/cpu/include 0*/ common/

clean: ## removes build/ and the links to it, and keeps data/
	rm -rf build $(foreach p,$(PROGRAMS),$(patsubst $(BUILD)/%,%,$(p)))

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
