# shellcheck shell=bash
# What the checks of the exercises and the tests share.

# Unsets the variables of launchers and batch systems, because a check or a test may run in a job.
unset_job() {
    local variable
    for variable in $(compgen -e | grep -E '^(RANK$|WORLD_SIZE$|(LOCAL|MASTER|SLURM|OMPI|PMIX?|PALS|MPI|TORCHELASTIC)_)'); do
        unset "$variable"
    done
}

# idx_header LENGTH...: prints the header of an IDX file of bytes with these dimensions.
idx_header() {
    local length
    printf '\0\0\b%b' "\\0$#"
    for length; do
        printf '%b' "$(printf %08x "$length" | sed 's/../\\x&/g')"
    done
}
