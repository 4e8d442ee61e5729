# What the checks of step 1 share.

# compares_kernel loss|sgd: the attendee's kernels compute what their formulas say, in the tests of checks/kernels.c. Without
# a GPU, the .cu file is built for the host as well, and must be one that nvcc compiles, if there is an nvcc.
compares_kernel() {
    local name file lines gpu
    gpu=$(echo "$MINE"/*kernels.cu)
    for name in kernels $([ "$device" = gpu ] || echo kernels_on_host); do
        file=$([ "$name$device" = kernelscpu ] && echo "$MINE"/cpu_*kernels.c || echo "$gpu")
        if [ "$name" = kernels_on_host ] && ! command -v "${CXX:-g++}" >/dev/null; then
            skip "$file does not run, because there is no C++ compiler"
            continue
        fi
        makes MINE="$MINE" MAIN="$main" "$build/$MINE/$name" || { cat "$SCRATCH/build" && wrong "$file does not compile"; }
        if ! limited "$build/$MINE/$name" "$1" >"$SCRATCH/out" 2>"$SCRATCH/err"; then
            mapfile -t lines < <(cat "$SCRATCH/out" && head -n 3 "$SCRATCH/err")
            rm "$SCRATCH/out" "$SCRATCH/err" # the line that explains is a part of the message
            wrong "$file: ${lines[0]:-the kernel crashes}" "${lines[@]:1}"
        fi
        ok "$file: the results are right"
    done
    nvcc_compiles "$gpu"
}

nvcc_compiles() { # FILE
    local nvcc
    [ "$device" = cpu ] && nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) || return 0
    if "$nvcc" -ptx -I. "$1" -o "$SCRATCH/ptx" >"$SCRATCH/build" 2>&1; then
        ok "$1: nvcc compiles it"
    elif "$nvcc" -ptx -I. common/kernels/kernels.cu -o "$SCRATCH/ptx" >/dev/null 2>&1; then
        cat "$SCRATCH/build"
        wrong "nvcc does not compile $1"
    fi
}
