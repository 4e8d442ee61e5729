#!/usr/bin/env bash
# lint_jobs.sh [FILE...]: finds common mistakes in job scripts, by default in all of slurm/ and pbs/, before a job waits
# in the queue for nothing. It prints the file, the line and the reason of each mistake, and exits with 1 if it finds any.
set -eu
root=$(realpath "$(dirname "$0")/../..")
if [ $# = 0 ]; then
    cd "$root"
    shopt -s nullglob
    set -- slurm/*.sbatch pbs/*.pbs
fi

# The linter shellcheck finds unquoted variables, a missing first line and more. It looks for site.sh in the source path.
failed=0
shellcheck --format=gcc --external-sources --source-path="$root" "$@" || failed=1

# shellcheck disable=SC2016 # the dollars are those of awk
awk -v root="$root" '
function slip(line, what) { print FILENAME ":" line ": " what; slips++ }
function exists(path,    text, got) { got = getline text <path; close(path); return got >= 0 }

# Paths must exist. A program may not be built yet, so its source is enough.
function check_paths(rest,    path, before) {
    while (match(rest, /(0[0-9]_[a-z_]+|slurm|pbs|tools)\/[A-Za-z0-9_.\/-]*[A-Za-z0-9]/)) {
        before = substr(rest, RSTART - 1, RSTART > 1)
        path = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (before !~ /[A-Za-z0-9_.\/-]/ && !exists(root "/" path) && !exists(root "/" path ".c"))
            slip(FNR, path " is not in this repository")
    }
}

FNR == 1 { commands = 0; command = "" }
/\r$/ { slip(FNR, "the line has a Windows line ending; remove it: sed -i \"s/\\r$//\" " FILENAME); sub(/\r$/, "") }
{ check_paths($0) }
/^#[ \t]+(SBATCH|PBS)([ \t]|$)/ { slip(FNR, "a blank after # makes this directive a comment") }
/^#(SBATCH|PBS)([ \t]|$)/ && commands { slip(FNR, "a directive after the first command is ignored") }
/^[ \t]*(#|$)/ { next }

# A command may continue on the next line.
{ if (command == "") first = FNR; commands = 1; command = command $0 }
sub(/\\$/, "", command) { next }
command ~ /(^|[ \t;&|(])srun[ \t]/ {
    if (command !~ /--kill-on-bad-exit/) slip(first, "srun without --kill-on-bad-exit=1 continues after a rank has failed")
    if (command !~ /--cpus-per-task/) slip(first, "srun without --cpus-per-task gives each task one core")
}
command ~ /(MASTER_PORT=|--master-port[= ])["\047]?[0-9]/ {
    slip(first, "a fixed port: another job on this node may have it; derive it from the job id")
}
{ command = "" }
END { exit slips > 0 }' "$@" || failed=1
exit $failed
