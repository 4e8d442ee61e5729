# What tests and formats the course, in addition to `make test`. tests/README.md says where a test goes.
.PHONY: unit-tests device-tests pack-tests test-nightly test-machines fuzz test-cluster test-container format lint style

test-cluster: ## runs the Slurm and PBS job scripts on a simulated cluster of four nodes
	@tools/deps.sh cluster
	@tests/run.sh cluster/

test-nightly: export SEEDS := 1 2 3 4 5 6 7 8 9 10
test-nightly: export WRONG_ANSWERS := 99
test-nightly: export FUZZ_SECONDS := 3600
test-nightly: test-all ## runs make test-all with ten seeds for random delays and kills, all wrong answers, and an hour of random input

test-machines: ## tries the first commands of new users on bare Debian and Ubuntu systems (needs root; ARGS=sudo: by name)
	@tests/machines/run.sh $(ARGS)

test-container: ## builds the contents of containers/cpu.def and runs step 4 in them on two nodes
	@tools/deps.sh container
	@TEST_CONTAINER=1 tests/run.sh cluster/container

PACKED := build/packed
pack-tests: ## copies bats and cmocka to build/packed; copy that folder to a machine that can install nothing, for make check-gpu there
	@tools/deps.sh gpu
	@rm -rf $(PACKED) && mkdir -p $(PACKED)/include $(PACKED)/lib
	@bats=$$(readlink -f "$$(PATH=build/npm/node_modules/bats/bin:$$PATH command -v bats)") && \
		tar -C "$${bats%/bin/bats}" -c bin/bats libexec/bats-core lib/bats-core | tar -C $(PACKED) -x
	@cp $$(echo '#include <cmocka.h>' | $(CC) -M -x c - | grep -o '/[^ ]*/cmocka[^ ]*') $(PACKED)/include
	@cp "$$($(CC) -print-file-name=libcmocka.so)"* $(PACKED)/lib
	@du -sh $(PACKED)

# Make builds the unit tests like the programs; those of the CPU device's kernels exist for it only.
UNIT_SOURCES := $(filter-out $(if $(filter gpu,$(DEVICE)),tests/unit/test_cpu_%),$(wildcard tests/unit/test_*.c))
UNIT_TESTS := $(UNIT_SOURCES:%.c=$(BUILD)/%)
# The tests of kernels with the .cu files, which clang compiles for the host, so that no GPU is needed.
CU_TESTS := $(if $(and $(filter cpu,$(DEVICE)),$(shell command -v clang)),\
	$(patsubst %.c,$(BUILD)/%_cu,$(wildcard tests/unit/test_kernels.c tests/unit/test_layers_in_parts.c)))
unit-tests: $(UNIT_TESTS) $(CU_TESTS) $(BUILD)/exercises/observe.o $(if $(filter cpu,$(DEVICE)),device-tests)
device-tests: $(LIBRARY)
	@+$(CPU_DEVICE) tests
# Without root, cmocka may come from conda.
ifneq ($(CONDA_PREFIX),)
$(UNIT_TESTS:=.o): private ALL_CFLAGS += -I$(CONDA_PREFIX)/include
$(UNIT_TESTS) $(CU_TESTS): private LIB_FLAGS += -L$(CONDA_PREFIX)/lib -Wl,-rpath,$(CONDA_PREFIX)/lib
endif
$(UNIT_TESTS): %: %.o $(ZOO_OBJECTS) $(COMMON_ARCHIVES)
	$(QUIET)$(CC) $(ALL_CFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ -Wl,--as-needed $(LIB_FLAGS) $(NCCL_FLAGS) -lcmocka -lm -ldl
$(BUILD)/tests/unit/test_pipeline: $(addprefix $(BUILD)/,08_pipeline/pipeline.o 05_fsdp/shard.o 04_multinode/watchdog.o 02_multigpu_fork/share_gpus.o)
# The linker takes no kernels from the archive, because it has those of the .cu files.
$(CU_TESTS): %_cu: %.o $(ZOO_OBJECTS) $(patsubst %.cu,$(BUILD)/%_on_host.o,$(wildcard */kernels/*.cu)) $(COMMON_ARCHIVES)
	$(QUIET)$(CC) $(ALL_CFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIB_FLAGS) -lcmocka -lm -ldl
$(BUILD)/%_on_host.o: %.cu tests/unit/host_cuda.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(QUIET)clang -x c++ -std=c++17 -include tests/unit/host_cuda.h -I. -Icpu_device/include -Wall -Wextra -Wvla $(if $(WERROR),-Werror) -fsanitize=alignment -fsanitize-trap=alignment -MMD -MP -O1 -c $< -o $@

fuzz: ## tests each file reader with random input for an hour (FUZZ_SECONDS=60: for a minute)
	@tools/deps.sh fuzz
	@tests/fuzz/run.sh $(or $(FUZZ_SECONDS),3600)

C_SOURCES = $(shell find 0* bench common cpu_device exercises tests tools watch zoo -name '*.[ch]' -o -name '*.cu')
format: ## formats the C sources
	@tools/deps.sh format
	@clang-format -i $(C_SOURCES)
style: ## prints notes, such as that a text has grown too long; a note is no failure
	@tests/style.sh
lint: ## checks the format of the C sources, the shell scripts and common mistakes
	@tools/deps.sh lint
	@clang-format --dry-run -Werror $(C_SOURCES)
	@shellcheck --external-sources --source-path=. slurm/*.sbatch pbs/*.pbs
	@shellcheck .ci/run slurm/*.sh pbs/site.sh tests/cluster/qsub exercises/*/check exercises/debug/*/check exercises/checks/slurm/* \
		$(shell find tools exercises tests cpu_device -name '*.sh' -o -name '*.bash' -o -name '*.bats')
	@cppcheck --quiet --error-exitcode=1 --enable=warning,portability --inline-suppr \
		--suppress=missingInclude --suppress=normalCheckLevelMaxBranches -I. -Icpu_device/include 0*/ common/ cpu_device/src/ watch/ zoo/
