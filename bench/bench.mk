# Measurements are no tests: they need an idle machine.
.PHONY: bench

# Debian's python3-torch belongs to this Python. TORCH=python3 takes another one, which has PyTorch.
TORCH := /usr/bin/python3
bench: ## compares the steps with PyTorch, after both have computed the same losses (ARGS="--models mlp --ways memory --rounds 2": faster; ARGS=loader: only the loader)
	@[ -n "$(wildcard $(foreach set,mnist fashion-mnist digits,data/$(set)/train-images-idx3-ubyte*))" ] || { echo 'error: make bench needs images: make data' >&2; exit 1; }
	@$(TORCH) -c 'import torch' 2>/dev/null || { echo 'error: make bench needs PyTorch, which $(TORCH) does not find:' \
		'sudo apt-get install python3-torch, or name a Python that has it: make bench TORCH=python3' >&2; exit 1; }
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory -s DEVICE=$(HERE) QUIET=@ programs build/story.txt build/$(HERE)/bench/load_rate
	@$(if $(filter loader,$(ARGS)),,$(TORCH) -B bench/compare.py build/$(HERE) $(ARGS))
	@$(if $(filter-out loader,$(firstword $(ARGS))),,$(TORCH) -B bench/loader.py build/$(HERE) $(ARGS))

# What tools/author/timelines.py records for the web site.
$(BUILD)/bench/ring_rounds $(BUILD)/bench/load_rate: %: %.o $(BUILD)/steps.a $(COMMON_ARCHIVES)
	$(QUIET)$(CC) $(ALL_CFLAGS) $^ -o $@ $(LIB_FLAGS) $(NCCL_FLAGS) -lm -ldl
