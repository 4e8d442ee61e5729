# Exercises: parts of the steps that attendees write themselves. exercises/README.md explains how they work.
.PHONY: exercises exercise check hint solution
exercises: ## lists the exercises with their minutes, and your progress
	@exercises/run.sh list
exercise: ## starts the next exercise, or a chosen one: EX=2.1
	@exercises/run.sh start $(EX)
ifneq ($(filter 1.% 2.% 3.% 4.% 5.% 6.% 7.% 8.% 9.% debug.% ex=%,$(MAKECMDGOALS) $(MAKEOVERRIDES)),)
$(error want EX=, such as in: make exercise EX=2.1)
endif
# Without DEVICE, the check chooses: its machine may be a node with GPUs, and this one a login node.
check: ## builds and runs what you wrote, and explains what is wrong (ALL=1: all that you started; SBATCH=1: in a job)
	@DEVICE=$(if $(BOTH),,$(DEVICE)) exercises/run.sh check $(EX)
hint: ## shows the next hint of your exercise
	@exercises/run.sh hint $(EX)
solution: ## compares your code with that of the step
	@exercises/run.sh solution $(EX)

# The .cu files of the course, for the host. The checks compile them once.
COURSE_ON_HOST := $(patsubst %.cu,$(BUILD)/exercises/%_on_host.o,$(wildcard */kernels/*.cu))
COMPILE_ON_HOST = $(CXX) -x c++ -include tests/unit/host_cuda.h -I. -Icpu_device/include -O1
$(COURSE_ON_HOST): $(BUILD)/exercises/%_on_host.o: %.cu tests/unit/host_cuda.h
	@mkdir -p $(@D)
	$(QUIET)$(COMPILE_ON_HOST) -c $< -o $@

# A program with the attendee's sources in the folder MINE instead of those of the step, to which the program MAIN belongs.
# From step 2 on, observe.h counts their calls of NCCL. WRAPPED_OF_MINE: functions whose calls come to a __wrap_ first.
ifdef MINE
PROGRAM_OF_MINE := $(BUILD)/$(MINE)/$(notdir $(MAIN))
SOURCES_OF_MINE := $(if $(filter gpu,$(DEVICE)),$(filter-out %kernels.c,$(wildcard $(MINE)/*.c*)),$(wildcard $(MINE)/*.c))
# Without copies of the program, such as train_before.c: a program has one main.
MAINS_OF_MINE := $(shell grep -l '^int main\>' $(SOURCES_OF_MINE) /dev/null)
SOURCES_OF_MINE := $(filter-out $(filter-out %/$(notdir $(MAIN)).c,$(MAINS_OF_MINE)),$(SOURCES_OF_MINE))
OBJECTS_OF_MINE := $(patsubst %.c,$(BUILD)/%.o,$(SOURCES_OF_MINE:%.cu=$(BUILD)/%.cu.o))
STEPS_OF_MINE := $(if $(filter 01_%,$(MAIN)),,$(BUILD)/exercises/observe.o $(BUILD)/steps.a)
CRASH_OF_MINE := $(BUILD)/exercises/crash.o $(if $(filter %/ladder,$(MAIN)),$(addprefix $(BUILD)/01_single_gpu/ladder/,climb.o fused.o))
ifneq ($(filter 04_% 05_% 07_% 08_% 09_%,$(MAIN)),)
WRAPPED_OF_MINE := begin_collective end_collective wait_for connect
endif
ifneq ($(filter %/stuck,$(MAIN)),)
WRAPPED_OF_MINE := cudaEventQuery
endif
# Without -ftrack-macro-expansion, gcc would show each error in a macro three times, first at the line of the macro. The
# attendee's warnings are no errors, even with WERROR. With -O1, gcc needs two thirds of the time. An index outside of an array of
# known size ends the program, where it would change other memory.
$(OBJECTS_OF_MINE): private CFLAGS += -O1 -Wno-error -fsanitize=bounds -fsanitize-undefined-trap-on-error $(if $(findstring clang,$(shell $(CC) --version)),,-ftrack-macro-expansion=0) \
	$(if $(STEPS_OF_MINE),-include exercises/observe.h)
$(PROGRAM_OF_MINE): $(OBJECTS_OF_MINE) $(if $(filter $(PROGRAM_OF_MINE).o,$(OBJECTS_OF_MINE)),,$(BUILD)/$(MAIN).o) \
	$(CRASH_OF_MINE) $(call JOINING,$(MAIN)) $(STEPS_OF_MINE) $(COMMON_ARCHIVES)
	@mkdir -p $(@D)
	$(QUIET)$(CC) $(ALL_CFLAGS) $^ -o $@ $(foreach f,$(WRAPPED_OF_MINE),-Wl,--wrap=$(f)) -Wl,--as-needed $(LIB_FLAGS) $(NCCL_FLAGS) -lm -ldl

# checks/kernels.c with the attendee's kernels: those of DEVICE, and those of the .cu files on the host.
KERNELS_OF_MINE := $(BUILD)/$(MINE)/kernels
$(BUILD)/$(MINE)/%.cu.o: $(MINE)/%.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(QUIET)$(NVCC) $(NVCC_FLAGS) $(filter -I%,$(LIB_FLAGS)) -c $< -o $@
$(KERNELS_OF_MINE): $(BUILD)/exercises/checks/kernels.o $(filter %kernels.o %.cu.o,$(OBJECTS_OF_MINE)) $(COMMON_ARCHIVES)
	$(QUIET)$(CC) $(ALL_CFLAGS) $^ -o $@ $(LIB_FLAGS) -lm -ldl
CU_OF_MINE := $(notdir $(wildcard $(MINE)/*.cu))
KERNELS_ON_HOST := $(CU_OF_MINE:%.cu=$(BUILD)/$(MINE)/%_on_host.o) $(filter-out $(addprefix %/,$(CU_OF_MINE:.cu=_on_host.o)),$(COURSE_ON_HOST))
$(BUILD)/$(MINE)/%_on_host.o: $(MINE)/%.cu tests/unit/host_cuda.h
	@mkdir -p $(@D)
	$(QUIET)$(COMPILE_ON_HOST) -c $< -o $@
$(KERNELS_OF_MINE)_on_host: $(BUILD)/exercises/checks/kernels.o $(KERNELS_ON_HOST) $(COMMON_ARCHIVES)
	$(QUIET)$(CC) $(ALL_CFLAGS) $^ -o $@ $(LIB_FLAGS) -lm -ldl
endif
