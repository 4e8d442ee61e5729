# What the checks of the ladder share: 01_single_gpu/ladder/ladder.c instead of a trainer.
reference=01_single_gpu/ladder/ladder
makes_course "$reference"

# climbs RUNG [LINE]: the program must train the model of rung 0 on this rung, and the checker of ordering finds nothing. The
# line explains that it does not.
climbs() {
    rm -f "$SCRATCH"/{out,err}
    CPU_DEVICE_CHECK=1 limited "$program" --data synthetic --hidden 32,32 --steps 20 --rung "$1" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
        wrong "the program fails: $(sed -n 's/^error[^:]*: //p' "$SCRATCH/err" | head -n 1)" "$(sed -n '2,4p' "$SCRATCH/err")" "${2:-}"
    ok "rung $1 trains the model of rung 0, and no operation lacks a wait"
}

# is_as_fast RUNG [LINE [OPTION...]]: on a modelled GPU, a training step takes at most a hundredth longer than in the ladder.
is_as_fast() {
    local mine right time
    [ "$device" = cpu ] || { skip 'the modelled times need the CPU device: make check DEVICE=cpu' && return; }
    modelled_step "$build/$reference" "$1" "${@:3}"
    right=$time
    modelled_step "$program" "$1" "${@:3}"
    mine=$time
    holds 'mine > 0 && mine <= 1.01 * right' "$mine" "$right" ||
        wrong "a training step of rung $1 takes $mine ms (modelled h100); in the ladder, it takes $right ms" "${2:-}"
    ok "a training step of rung $1 takes $mine ms (modelled h100); in the ladder, it takes $right ms"
}

modelled_step() { # PROGRAM RUNG OPTION...
    CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0 limited "$1" --data blank:12800 --rung "$2" "${@:3}" >"$SCRATCH/out"
    time=$(sed -n "s/^$2 .* \(fp32\|tf32\) *\([0-9.]*\) .*/\2/p" "$SCRATCH/out")
}
