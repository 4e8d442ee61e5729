# What tests, measures and formats the course, in addition to `make test`. tests/README.md says where a test goes.
.PHONY: unit-tests test-nightly test-machines fuzz bench-step1 bench-models bench-step2 bench-collectives bench-launcher bench-watchdog bench-step5 test-cluster test-container format lint style

test-cluster: ## runs the Slurm and PBS job scripts on a simulated cluster of four nodes
	@tools/deps.sh cluster
	@tests/run.sh cluster/

test-nightly: export SEEDS := 1 2 3 4 5 6 7 8 9 10
test-nightly: export FUZZ_SECONDS := 3600
test-nightly: test-all ## runs make test-all with ten seeds for random delays and kills, and an hour of random input

test-machines: ## tries the first commands of new users on bare Debian and Ubuntu systems (needs root; ARGS=sudo: by name)
	@tests/machines/run.sh $(ARGS)

test-container: ## builds the contents of containers/cpu.def and runs step 4 in them on two nodes
	@tools/deps.sh container
	@TEST_CONTAINER=1 tests/run.sh cluster/container

# Make builds the unit tests like the programs; those of the CPU device exist for it only.
UNIT_SOURCES := $(wildcard tests/unit/test_*.c) $(if $(filter cpu,$(DEVICE)),$(wildcard tests/device/test_*.c))
UNIT_TESTS := $(UNIT_SOURCES:%.c=$(BUILD)/%)
# The tests of kernels with the .cu files, which clang compiles for the host, so that no GPU is needed.
CU_TESTS := $(if $(and $(filter cpu,$(DEVICE)),$(shell command -v clang)),\
	$(patsubst %,$(BUILD)/tests/unit/test_%_cu,kernels image_kernels sequence_kernels))
unit-tests: $(UNIT_TESTS) $(CU_TESTS) $(BUILD)/exercises/observe.o
# Without root, cmocka may come from conda.
ifneq ($(CONDA_PREFIX),)
$(UNIT_TESTS:=.o): private ALL_CFLAGS += -I$(CONDA_PREFIX)/include
$(UNIT_TESTS) $(CU_TESTS): private LIB_FLAGS += -L$(CONDA_PREFIX)/lib -Wl,-rpath,$(CONDA_PREFIX)/lib
endif
$(UNIT_TESTS): %: %.o $(COMMON_ARCHIVES)
	$(QUIET)$(CC) $(ALL_CFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIB_FLAGS) -lcmocka -lm
$(filter $(BUILD)/tests/device/test_nccl_% $(BUILD)/tests/device/test_modelled_clock,$(UNIT_TESTS)): $(addprefix $(BUILD)/tests/device/,nccl_ranks.o ranks.o)
# The linker takes no kernels from the archive, because it has those of the .cu files.
$(CU_TESTS): %_cu: %.o $(patsubst %.cu,$(BUILD)/%_on_host.o,$(wildcard common/kernels/*.cu)) $(COMMON_ARCHIVES)
	$(QUIET)$(CC) $(ALL_CFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIB_FLAGS) -lcmocka -lm
$(BUILD)/%_on_host.o: %.cu tests/unit/host_cuda.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(QUIET)clang -x c++ -std=c++17 -include tests/unit/host_cuda.h -I. -Icpu_device/include -Wall -Wextra $(if $(WERROR),-Werror) -MMD -MP -O1 -c $< -o $@

fuzz: ## tests each file reader with random input for an hour (FUZZ_SECONDS=60: for a minute)
	@tools/deps.sh fuzz
	@tests/fuzz/run.sh $(or $(FUZZ_SECONDS),3600)

bench-step1: ## compares step 1 with PyTorch and bare matrix products (ARGS="--rounds 2": faster; --accuracy: also 5 seeds)
bench-models: ## compares the image models with PyTorch (ARGS="--rounds 1": faster; --accuracy: also their accuracy)
bench-step2: ## compares step 2 with PyTorch DDP and step 1, and times communication (ARGS="--rounds 2": faster)
bench-collectives: ## times all-reduce on the CPU device, compared with Open MPI
bench-launcher: ## times the launcher, compared with torchrun
bench-step5: ## measures the speed of steps 5 and 7, compared with step 4
# What they need besides the programs:
bench-step1: private BENCHMARK = build/cpu/tests/bench/sgemm
bench-collectives: private BENCHMARK = build/cpu/tests/bench/collectives \
	$$(echo '\#include <mpi.h>' | $(MPICC) -E - >/dev/null 2>&1 && echo build/cpu/tests/bench/mpi_allreduce)
bench-step1 bench-models bench-step2 bench-collectives bench-launcher bench-step5:
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory -s DEVICE=cpu QUIET=@ programs $(BENCHMARK)
	@/usr/bin/python3 -B tests/bench/$(@:bench-%=%).py build/cpu $(ARGS)
bench-watchdog: ## times a collective on the host, with and without the watchdog of step 4
	@$(MAKE) --no-print-directory -s DEVICE=$(DEVICE) QUIET=@ $(BUILD)/tests/bench/watchdog
	@$(BUILD)/tests/bench/watchdog

MPICC := $(or $(shell command -v mpicc.openmpi),mpicc)
BENCHMARKS := $(addprefix $(BUILD)/tests/bench/,sgemm collectives watchdog)
$(BENCHMARKS): %: %.o
	$(QUIET)$(CC) $(ALL_CFLAGS) $^ -o $@ $(LIB_FLAGS) $(NCCL_FLAGS) -lm
$(BUILD)/tests/bench/collectives: $(BUILD)/tests/bench/allreduce.o $(COMMON_ARCHIVES)
$(BUILD)/tests/bench/watchdog: $(BUILD)/steps.a $(COMMON_ARCHIVES)
$(BUILD)/tests/bench/mpi_allreduce: $(addprefix tests/bench/,mpi_allreduce.c allreduce.c allreduce.h) $(BUILD)/flags
	@mkdir -p $(@D)
	$(QUIET)OMPI_CC='$(CC)' $(MPICC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) $(filter %.c,$^) -o $@

C_SOURCES = $(shell find 0* common cpu_device exercises tests -name '*.[ch]' -o -name '*.cu')
format: ## formats the C sources
	@tools/deps.sh format
	@clang-format -i $(C_SOURCES)
style: ## prints notes, such as that a text has grown too long; a note is no failure
	@tests/style.sh
lint: ## checks the format of the C sources, the shell scripts and common mistakes
	@tools/deps.sh lint
	@clang-format --dry-run -Werror $(C_SOURCES)
	@shellcheck .ci/run slurm/site.sh pbs/site.sh tests/cluster/qsub \
		$(shell find tools exercises tests -name '*.sh' -o -name '*.bash' -o -name '*.bats' | grep -v '^exercises/checks/')
# exercises/check.bash sets and reads variables of the checks.
	@shellcheck --shell bash --exclude SC2034,SC2154 exercises/checks/*.bash exercises/*/check exercises/debug/*/check
	@tools/lint_jobs.sh
	@cppcheck --quiet --error-exitcode=1 --enable=warning,portability --inline-suppr \
		--suppress=missingInclude --suppress=normalCheckLevelMaxBranches -I. -Icpu_device/include 0*/ common/ cpu_device/
