# Traces (watch/trace.h, tools/trace.py) and Nsight Systems show where the time of a run goes. LAUNCH and ARGS are those of
# run-stepN.
TIMED := $(STEPS:%=trace-%) $(STEPS:%=profile-%)
FEW_STEPS := --max-steps 12 --log-every 1000000
FEW_CALLS := --min-bytes 1M --max-bytes 1M --warmup 1 --iters 2
TIMED_RUN = $(LAUNCHER) $(or $(TRAINER),$($*)) $(if $(TRAINER),$(FEW_STEPS),$(FEW_CALLS))
.PHONY: $(TIMED) figures ladder launches
$(LAUNCHED:%=trace-%) $(LAUNCHED:%=profile-%): LAUNCHER = 03_multigpu_launcher/launch $(LAUNCH)

# The trace of an older run may have had more ranks.
$(STEPS:%=trace-%): trace-%:
	@$(MAKE) --no-print-directory -s $(if $(LAUNCHER),step3) $*
	@rm -rf build/trace/$* && mkdir -p build/trace/$*
	$(TIMED_RUN) --trace build/trace/$*/trace.json $(ARGS)
	@tools/trace.py --check build/trace/$*/trace.json >/dev/null
	@echo && tools/trace.py build/trace/$*/trace.json -o build/trace/$*/merged.json --svg build/trace/$*/steps.svg
	$(if $(or $(CPU_DEVICE_MODEL),$(filter gpu,$(HERE))),,@echo && echo 'These are the times of processor cores, where communication hides little: CPU_DEVICE_MODEL=h100 make trace-$* shows GPUs.')
trace-stepN: ## runs 12 training steps of step N, such as trace-step2, and shows what each stream did and waited for

# A rank of step 2 is a fork of the program, and calls CUDA without exec.
$(STEPS:%=profile-%): profile-%:
	@command -v nsys >/dev/null || { echo 'error: nsys is missing: install Nsight Systems, or load the module of' \
		'CUDA; make trace-$* needs neither' >&2; exit 1; }
	@$(MAKE) --no-print-directory -s $(if $(LAUNCHER),step3) $*
	@rm -rf build/profile/$* && mkdir -p build/profile/$*
	nsys profile --trace=cuda,nvtx,cublas --trace-fork-before-exec=true --output=build/profile/$*/report $(TIMED_RUN) $(ARGS)
	@echo && echo 'build/profile/$*/report.nsys-rep: all ranks. To see it, copy it to your computer, and open it with Nsight' \
		'Systems (nsys-ui); nsys stats FILE prints tables.'
profile-stepN: ## runs 12 training steps of step N with Nsight Systems, on a machine with a GPU

ladder: ## trains the network of step 1 in seven versions, and draws their times (ARGS="--rung 4": one of them)
	@$(MAKE) --no-print-directory -s step1
	@mkdir -p build/ladder
	01_single_gpu/ladder/ladder --floor $(ARGS) >build/ladder/table.txt
	@cat build/ladder/table.txt
	@! command -v python3 >/dev/null || { PYTHONPATH=tools:tools/author python3 -B docs/figures/ladder.py build/ladder/table.txt \
		build/ladder/ladder.svg && echo 'build/ladder/ladder.svg shows the times'; }

launches: ## counts kernels and calls in a training step of each step and model (ARGS="--steps 1,2 --models mlp")
	@$(MAKE) --no-print-directory -s QUIET=@ DEVICE=cpu $(filter-out step6,$(STEPS))
	@tools/author/launches.py $(ARGS)

figures: ## draws the figures of texts in docs/figures from their sources, the Python files beside them
	@tools/author/drawing.py $(filter $(wildcard docs/figures/*.py),$(patsubst %.svg,%.py,$(wildcard docs/figures/*.svg)))
