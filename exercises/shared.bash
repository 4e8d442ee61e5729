# What the checks of the exercises and the tests share.

# Unsets the variables of launchers and batch systems, because a check or a test may run in a job.
unset_job() {
    local variable
    for variable in $(compgen -e | grep -E '_RANK$|^(RANK$|WORLD_SIZE$|JOB_COMPLETION_INDEX$|(LOCAL|MASTER|SLURM|OMPI|PMIX?|PALS|ALPS|MPI|LSB|TORCHELASTIC)_)'); do
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

# The messages of messages.h, by name.
declare -gA messages=()
while IFS='"' read -r name text _; do
    messages[$name]=$text
done < <(sed -n 's/^#define \([A-Z_]*\) "/\1"/p' "${BASH_SOURCE[0]%/*}/messages.h")
unset name text

# text_of NAME: prints the message with this name in messages.h, such as "$(text_of NOT_FINITE)".
text_of() {
    printf '%s\n' "${messages[$1]:-no message is called $1}"
}

# with_texts TEXT: prints the text with the messages in place of their names, such as {NOT_FINITE}.
with_texts() {
    local text=$1 name
    for name in "${!messages[@]}"; do
        text=${text//"{$name}"/"${messages[$name]}"}
    done
    printf '%s\n' "$text"
}
