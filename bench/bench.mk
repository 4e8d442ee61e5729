# What measures the course, compared with other programs. Measurements are no tests: they need an idle machine.
.PHONY: bench bench-collectives bench-launcher bench-watchdog

# Debian's python3-torch belongs to this Python. TORCH=python3 takes another one, which has PyTorch.
TORCH := /usr/bin/python3
bench: ## compares the steps with PyTorch, after both have computed the same losses (ARGS="--models mlp --ways memory --rounds 2": faster; --accuracy: also the time to an accuracy)
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory -s DEVICE=$(HERE) QUIET=@ programs build/story.txt
	@$(TORCH) -B bench/compare.py build/$(HERE) $(ARGS)

bench-collectives: ## times all-reduce on the CPU device, compared with Open MPI
bench-launcher: ## times the launcher, compared with torchrun
# What bench-collectives needs besides the programs:
bench-collectives: private BENCHMARK = build/cpu/bench/collectives \
	$$(echo '\#include <mpi.h>' | $(MPICC) -xc -E /dev/stdin >/dev/null 2>&1 && echo build/cpu/bench/mpi_allreduce)
bench-collectives bench-launcher:
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory -s DEVICE=cpu QUIET=@ programs $(BENCHMARK)
	@/usr/bin/python3 -B bench/$(@:bench-%=%).py build/cpu $(ARGS)
bench-watchdog: ## times a collective on the host, with and without the watchdog of step 4
	@$(MAKE) --no-print-directory -s DEVICE=$(HERE) QUIET=@ build/$(HERE)/bench/watchdog
	@build/$(HERE)/bench/watchdog

MPICC := $(or $(shell command -v mpicc.openmpi),mpicc)
BENCHMARKS := $(addprefix $(BUILD)/bench/,collectives watchdog ring_rounds)
$(BENCHMARKS): %: %.o
	$(QUIET)$(CC) $(ALL_CFLAGS) $^ -o $@ $(LIB_FLAGS) $(NCCL_FLAGS) -lm -ldl
$(BUILD)/bench/collectives: $(BUILD)/bench/allreduce.o $(COMMON_ARCHIVES)
$(BUILD)/bench/watchdog $(BUILD)/bench/ring_rounds: $(BUILD)/steps.a $(COMMON_ARCHIVES)
$(BUILD)/bench/mpi_allreduce: $(addprefix bench/,mpi_allreduce.c allreduce.c allreduce.h) $(BUILD)/flags
	@mkdir -p $(@D)
	$(QUIET)OMPI_CC='$(CC)' $(MPICC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) $(filter %.c,$^) -o $@
