# How make compiles the programs and their modules, and for which device. Where make finds nvcc, it builds for an NVIDIA GPU
# (in build/gpu) and for the CPU device (cpu_device, in build/cpu); the program for the GPU starts the other one on a
# machine without a GPU (common/device/fallback.c). Without nvcc it builds for the CPU device, and with DEVICE=gpu or DEVICE=cpu
# for one of the two. A machine without a GPU that has nvcc is often the login node of a cluster, so its programs need both.

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
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -I. -Wall -Wextra -Wno-missing-field-initializers $(if $(WERROR),-Werror) -fno-math-errno -fno-trapping-math -ffp-contract=off -MMD -MP -pthread $(CFLAGS)
NVCC_FLAGS = $(if $(ARCH),-arch=$(if $(filter-out all all-major native,$(ARCH)),sm_)$(ARCH),$(GENERATIONS)) -O3 -I. --threads 0 \
	-Xcompiler -Wall,-Wextra$(if $(WERROR),$(comma)-Werror) $(if $(WERROR),-Werror all-warnings)
comma := ,
# V=1 shows the commands. Without it, the first command that runs prints one line.
QUIET = $(if $(V),,@$(SAY_ONCE))
SAY_ONCE = $(if $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),,$(info compiles into $(BUILD) (V=1 shows the commands)))$(eval SAY_ONCE :=)

# Programs that are linked with zoo/zoo.c, watch/watch.c and 05_fsdp/shards.c have what these offer: models, optimizers and
# data, a trace and a profile, and snapshots in shards. All three begin before main, so no program names them. Steps 1 to 6
# also work without: make step1 ZOO=0, or if the folders zoo and watch are not there.
ZOO := 1
BESIDE := $(if $(filter 0,$(ZOO)),,$(wildcard zoo watch))
WITH_ZOO := %/train %/classify %/ladder %/generate
WITH_WATCH := %/train %/allreduce
ZOO_OBJECTS := $(if $(filter zoo,$(BESIDE)),$(addprefix $(BUILD)/,zoo/zoo.o 05_fsdp/shards.o 05_fsdp/manifest.o 05_fsdp/sharding.o))
WATCH_OBJECTS := $(if $(filter watch,$(BESIDE)),$(BUILD)/watch/watch.o)
# $(call JOINING,PROGRAM): the objects with which the program is linked for that.
JOINING = $(if $(filter $(WITH_ZOO),$1),$(ZOO_OBJECTS)) $(if $(filter $(WITH_WATCH),$1),$(WATCH_OBJECTS))

BUILT := $(PROGRAMS:%=$(BUILD)/%)
STEPS_MODULES := $(filter-out $(BUILT:=.o),$(patsubst %.c,$(BUILD)/%.o,$(wildcard $(if $(filter zoo,$(BESIDE)),0[2-9]*,0[2-6]*)/*.c $(BESIDE:=/nccl_*.c))))
FOLDERS := $(wildcard common/* $(BESIDE:=/*) $(BESIDE))
COMMON := $(filter-out common/device/fallback.c $(wildcard watch/nccl_*.c $(FOLDERS:=/$(if $(filter cpu,$(DEVICE)),gpu,cpu)_*.c)),$(wildcard $(FOLDERS:=/*.c))) \
	01_single_gpu/launchers.c $(if $(filter gpu,$(DEVICE)),$(wildcard $(FOLDERS:=/*.cu)))
COMMON_MODULES := $(patsubst %,$(BUILD)/%.o,$(basename $(COMMON)))

# The modules that every program needs, and on the CPU device what stands in for NVIDIA's libraries.
LIBRARY := $(BUILD)/libcpu_device.a
COMMON_ARCHIVES := $(BUILD)/common.a $(if $(filter cpu,$(DEVICE)),$(LIBRARY))

.DELETE_ON_ERROR:
.PHONY: always cpu-programs container

programs: $(BUILT)

# The links in the folders of the steps, which lead to what was built last. Beside each program for the GPU, PROGRAM.cpu
# leads to the one that common/device/fallback.c starts in its place.
$(PROGRAMS): %: $(BUILD)/% $(if $(BOTH),cpu-programs)
	@[ $@ -ef $< ] || ln -srf $< $@
	@$(if $(BOTH),[ build/cpu/$@ -ef $<.cpu ] || ln -srf build/cpu/$@,rm -f) $<.cpu

# A single second make builds the programs for the CPU device, because two at the same time would write the same files.
# A login node may lack a library for them; then the programs for the GPU are enough.
cpu-programs:
	@$(MAKE) -s DEVICE=cpu build/cpu/libs.mk >/dev/null 2>&1 || { echo 'note: built for machines with a GPU only,' \
		'because a library of the CPU device is missing: make DEVICE=cpu $(MAKECMDGOALS:run-%=%) names it'; exit; }; \
	$(MAKE) $(if $(V),,-s) --no-print-directory DEVICE=cpu $(addprefix build/cpu/,\
		$(foreach goal,$(MAKECMDGOALS:run-%=%),$($(goal)) $(filter $(goal),$(PROGRAMS))))

container: ## builds an Apptainer image with the compilers and libraries that the course needs for DEVICE
	@tools/container.sh $(DEVICE)

# libs.mk holds the flags of the libraries on this machine. Make searches again if the compilers, the variables that name
# folders or the search script have changed, or if a library was missing. Make reads libs.mk again after it has changed.
SEARCH = $(shell { echo '$(CC) $(NVCC) $(PRODUCTS)'; cat tools/find_libs.sh; \
	env | grep -E '^((CUDA|NCCL|NVHPC|OPENBLAS)_(HOME|ROOT)|EBROOT.*|CONDA_PREFIX|CPATH|C_INCLUDE_PATH|LIBRARY_PATH)=' | sort; } | cksum)
ifneq ($(filter $(STEPS) $(STEPS:%=run-%) programs unit-tests device-tests $(PROGRAMS) build/% $(BUILD)/%,$(MAKECMDGOALS)),)
include $(BUILD)/libs.mk
ifneq ($(SEARCHED)$(MISSING),$(SEARCH))
$(BUILD)/libs.mk: $(if $(MAKE_RESTARTS),,always)
endif
endif
# Another make, in a second terminal, may search at the same time.
$(BUILD)/libs.mk:
	@mkdir -p $(@D)
	@new=$@.$$$$; trap 'rm -f $$new' EXIT; { echo 'SEARCHED := $(SEARCH)'; CC='$(CC)' FLAGS='$(ALL_CFLAGS)' NVCC='$(NVCC)' PRODUCTS='$(PRODUCTS)' \
		tools/find_libs.sh $(DEVICE); } >$$new && { cmp -s $$new $@ || mv $$new $@; }

# If the flags differ from those of the last build, make rebuilds everything.
FLAGS_NOW = $(BESIDE) $(CC) $(ALL_CFLAGS) $(NVCC_FLAGS) $(LIB_FLAGS) $(NCCL_FLAGS)
$(BUILD)/flags: always
	@mkdir -p $(@D)
	@echo '$(FLAGS_NOW)' | cmp -s - $@ || echo '$(FLAGS_NOW)' >$@

ifeq ($(DEVICE),cpu)
# gcc keeps calls at the end of functions, so that the checker of ordering can report their lines.
ALL_CFLAGS += -Icpu_device/include -fno-optimize-sibling-calls
endif

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(filter gpu,$(DEVICE)),$(if $(NCCL_FLAGS),,@! grep -qs '<nccl.h>' $< $(<:.c=.h) || NVCC=$(NVCC) tools/find_libs.sh nccl))
	$(QUIET)$(CC) $(ALL_CFLAGS) $(filter -I% -D%,$(LIB_FLAGS) $(NCCL_FLAGS)) -c $< -o $@
$(BUILD)/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(QUIET)$(NVCC) $(NVCC_FLAGS) -MMD -MP $(filter -I%,$(LIB_FLAGS)) -c $< -o $@
# Archives give each program the modules that it uses, so together with --as-needed they keep the CUDA libraries out of
# the launcher. common.a also holds zoo/, watch/ and the module of step 1, which has no use for those of other steps: some need NCCL.
$(BUILD)/steps.a: $(STEPS_MODULES)
$(BUILD)/common.a: $(COMMON_MODULES)
# The CPU device has a Makefile of its own, which knows what the library is made from.
CPU_DEVICE = $(MAKE) $(if $(V),,-s QUIET=@) --no-print-directory -C cpu_device BUILD=../$(BUILD)/cpu_device LIBRARY=../$(LIBRARY) BLAS='$(LIB_FLAGS)'
$(LIBRARY): always
	@+$(CPU_DEVICE) ../$@
$(BUILD)/%.a:
	$(QUIET)$(AR) -qc $@.$$$$ $^ && mv $@.$$$$ $@
$(foreach program,$(BUILT),$(eval $(program): $(call JOINING,$(program))))
$(filter-out %/launch,$(BUILT)): $(if $(filter gpu,$(DEVICE)),$(BUILD)/common/device/fallback.o)
$(filter-out $(BUILD)/01_%,$(BUILT)): $(BUILD)/steps.a
$(BUILD)/01_single_gpu/ladder/ladder: $(addprefix $(BUILD)/01_single_gpu/ladder/,climb.o fused.o)
$(BUILT): $(COMMON_ARCHIVES)
$(BUILT): %: %.o
	$(QUIET)$(CC) $(ALL_CFLAGS) $^ -o $@ -Wl,--as-needed $(LIB_FLAGS) $(NCCL_FLAGS) -lm -ldl

# The text of --data text as a file, for programs that count or compare its bytes.
build/story: tools/story.c zoo/data/story.c zoo/data/story.h common/base/rng.h
	@mkdir -p $(@D)
	$(QUIET)$(CC) -std=c11 -I. $(CFLAGS) $(filter %.c,$^) -o $@ -lm
build/story.txt: build/story
	@$< >$@ 2>/dev/null

# The programs of exercises (MINE) contain nothing of the tests.
-include $(shell find $(BUILD) -path $(BUILD)/cpu_device -prune -o $(if $(MINE),-path $(BUILD)/tests -prune -o) -name '*.d' -print 2>/dev/null)
