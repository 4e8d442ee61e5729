# The functions that the tests on a cluster share. A setup_file of a file calls start_cluster.
load ../helpers

cluster() {
    "$BATS_TEST_DIRNAME/cluster.sh" "$@"
}

# Starts a cluster for this file. Its nodes share a folder with the course, which is built as in an attendee's home.
start_cluster() {
    local program
    export CLUSTER_ROOT=$BATS_FILE_TMPDIR OMP_NUM_THREADS=1 WHY_NOT
    unset NCCL_COMM_ID NCCL_HOSTID CPU_DEVICE_CHAOS CONTAINER
    WHY_NOT=$(cluster why-not)
    [ -z "$WHY_NOT" ] || return 0
    mapfile -t programs < <(cd "$root" && grep -l '^int main(' 0*/*.c)
    need_train "${programs[@]%.c}"
    copy_tree "$CLUSTER_ROOT/my course"
    for program in "${programs[@]%.c}"; do
        cp "${TRAIN%01_single_gpu/train}$program" "$CLUSTER_ROOT/my course/$program"
    done
    tiny_data "$CLUSTER_ROOT/my course/tiny"
    cluster up 3>&-
}

setup_file() {
    start_cluster
}

teardown_file() {
    [ -n "$WHY_NOT" ] || cluster down
}

setup() {
    [ -z "$WHY_NOT" ] || skip "$WHY_NOT"
    cd "$CLUSTER_ROOT/my course" || return
}

# After a failed test, prints the output of its last job, and ends the jobs that it has left.
teardown() {
    local node
    [ -z "$WHY_NOT" ] && [ -z "${BATS_TEST_COMPLETED:-}" ] || return 0
    [ -z "${id:-}" ] || log "$id" || true
    cluster exec squeue --long
    cluster exec scancel --user=root
    for node in node1 node2 node3 node4; do
        cluster plug $node || cluster poweron $node
    done
    until_true 40 all_ended
}

# submit [SBATCH ARGUMENTS] FILE [ARGUMENTS]: its number in $id.
submit() {
    id=$(cluster exec sbatch --parsable "$@")
}

# all_ended [ID...]: these jobs, or all.
all_ended() {
    local ids=("$@")
    [ -z "$(cluster exec squeue --noheader ${1:+--jobs="$(IFS=, && echo "${ids[*]}")"})" ]
}

state() { # ID: of all jobs of an array
    cluster exec scontrol --oneliner show job "$1" | sed 's/.* JobState=\([A-Z_]*\) .*/\1/' | sort -u
}

# nodes ID: those that it runs on, or ran on last.
nodes() {
    cluster exec scontrol show hostnames \
        "$(cluster exec scontrol --oneliner show job "$1" | sed 's/.* NodeList=\([^ ]*\) .*/\1/')"
}

# log ID: prints the output of a job, whose file is named after the job.
log() {
    cat ./*".$1.out"
}

# ended ID STATE: the job must end in this state within a minute.
ended() {
    until_true 60 all_ended "$1"
    [ "$(state "$1")" = "$2" ] || { echo "job $1: $(state "$1")" && log "$1" && return 1; }
}

# logged ID TEXT
logged() {
    log "$1" 2>/dev/null | grep -q "$2"
}

# No node may run other processes than after its start.
nodes_clean() {
    local node
    for node in node1 node2 node3 node4; do
        ! cluster exec -n $node ps -eo args= |
            grep -vE '^(bash .*/cluster.sh init|munged|sshd: /|slurmd -N|sleep 1000$|ps -eo)' || return 1
    done
}

# one_token ID: the trainers on all nodes of the job must have the same secret.
one_token() {
    local node
    for node in $(nodes "$1"); do
        cluster exec -n "$node" sh -c 'tr "\0" "\n" <"/proc/$(pgrep -o -x train)/environ"' | grep '^MASTER_TOKEN='
    done | sort | uniq -c | tee tokens
    grep -qE '^ +2 MASTER_TOKEN=[0-9a-f]{32}$' tokens && [ "$(wc -l <tokens)" = 1 ]
}
