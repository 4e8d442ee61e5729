#!/usr/bin/env bash
# Runs a real Slurm cluster on this machine: a login node, ctl, and four compute nodes, node1 to node4. Each node has its
# own network, host name, processes, /tmp, /run, /dev/shm, munged and sshd. Each slurmd is configured with 8 cores and 2
# GPUs. The cluster is not reachable from outside, and ends with the one process that holds it.
#
#   cluster.sh up                           starts the cluster (as root)
#   cluster.sh down                         ends it and every process in it
#   cluster.sh exec [-n NODE] COMMAND...    runs a command on a node, by default on ctl
#   cluster.sh poweroff|poweron NODE        takes a node's power away, and gives it back
#   cluster.sh unplug|plug NODE             pulls a node's network cable, and puts it back
#   cluster.sh why-not                      why there can be no cluster here; prints nothing if there can
#
# CLUSTER_ROOT is the folder that the nodes of the cluster share, with the caller's files. The cluster's own files are in
# its subfolder cluster. Each cluster has its own folder, so several clusters can run at once.
#
# If programs are not installed on this machine, they come from build/peers, where tools/deps.sh unpacks the packages of
# Slurm, munge and sshd. The nodes see this folder over /usr and /etc, so the machine gets no new service.
set -euo pipefail
PATH=/usr/sbin:/sbin:$PATH
self=$(realpath "$0")
peers=${self%/tests/*}/build/peers
root=$(realpath -m "${CLUSTER_ROOT:-/tmp/cluster}")
state=$root/cluster
compute=(node1 node2 node3 node4)
hosts=(ctl "${compute[@]}")

die() {
    echo "cluster: $*" >&2
    exit 1
}

# within SECONDS COMMAND...: waits until the command succeeds.
within() {
    local end=$((${EPOCHREALTIME//[!0-9]/} + $1 * 1000000))
    until "${@:2}"; do
        [ "${EPOCHREALTIME//[!0-9]/}" -lt $end ] || return 1
        sleep 0.05
    done
}

why_not() {
    local program missing=()
    for program in slurmctld slurmd sbatch munged sshd ssh-keygen ip nsenter; do
        PATH=$PATH:$peers/usr/bin:$peers/usr/sbin command -v $program >/dev/null || missing+=("$program")
    done
    if [ "$(id -u)" != 0 ]; then
        echo "a cluster of namespaces needs root"
    elif [ ${#missing[@]} -gt 0 ]; then
        echo "missing: ${missing[*]} (Debian: slurmctld slurmd slurm-client munge openssh-server iproute2)"
    elif ! unshare --net --uts --ipc --pid --mount --fork sh -ec 'hostname a; mount -t tmpfs none /run
        mount -t proc none /proc; mount -t sysfs none /sys
        ip link add name b type bridge; ip link add c type veth peer name d
        [ ! -d "$0" ] || mount -t overlay -o "lowerdir=$0/usr:/usr" none /usr' "$peers" 2>/dev/null; then
        echo "namespaces, mounts in them, or the networks of a cluster cannot be made here"
    fi
}

address() {
    case $1 in
    ctl) echo 10.77.0.100 ;;
    node[1-4]) echo "10.77.0.${1#node}" ;;
    *) die "no such node: $1" ;;
    esac
}

configure() {
    local host
    mkdir -p "$state/slurm" "$state/ssh"
    head -c 128 /dev/urandom >"$state/munge.key"
    chmod 400 "$state/munge.key"
    echo "127.0.0.1 localhost" >"$state/hosts"
    # sshd needs a user of this name. Its package creates the user during installation.
    { grep -v ^sshd: /etc/passwd && echo sshd:x:100:65534::/run/sshd:/usr/sbin/nologin; } >"$state/passwd"
    for host in "${hosts[@]}"; do
        mkdir "$state/$host"
        echo "$(address "$host") $host" >>"$state/hosts"
    done

    # Without cgroups and accounting, and with more cores than there are. A requeued job waits cred_expire seconds;
    # for less than 5, Slurm takes 120.
    cat >"$state/slurm/slurm.conf" <<END
ClusterName=test
SlurmctldHost=ctl($(address ctl))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$state/ctl/slurmctld.log
SlurmdLogFile=$state/%n/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=100000,bf_interval=1,batch_sched_delay=0
ReturnToService=2
KillWait=5
MinJobAge=3600
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
GresTypes=gpu
NodeName=node[1-4] NodeAddr=10.77.0.[1-4] CPUs=8 RealMemory=65536 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime=30
PartitionName=urgent Nodes=ALL State=UP PriorityTier=10 PreemptMode=OFF
END
    echo 'Name=gpu File=/run/gpu[0-1]' >"$state/slurm/gres.conf"
    # This version's slurmd loads a cgroup plugin even if none is used; v1 does not look for a mounted one.
    echo 'CgroupPlugin=cgroup/v1' >"$state/slurm/cgroup.conf"

    PATH=$PATH:$peers/usr/bin ssh-keygen -q -t ed25519 -N '' -f "$state/ssh/id"
    cp "$state/ssh/id.pub" "$state/ssh/authorized_keys"
    cat >"$state/ssh/sshd_config" <<END
HostKey $state/ssh/id
AuthorizedKeysFile $state/ssh/authorized_keys
StrictModes no
UsePAM no
UseDNS no
END
    cat >"$state/ssh/ssh_config" <<END
Host ctl node*
    User root
    IdentityFile $state/ssh/id
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
END
}

# Every process of the cluster holds its lock.
hold_lock() {
    exec 9>"$state.lock"
    flock --nonblock 9
}

# One process holds the network of the nodes, and is the first of a process namespace, so all processes end with it.
start_room() {
    setsid unshare --net --pid --fork --kill-child -- bash -ec 'ip link set lo up
        ip link add name switch type bridge; ip link set switch up; touch "$1"; exec sleep infinity' \
        - "$state/room" </dev/null >"$state/room.log" 2>&1 &
    echo $! >"$state/room.pid"
    within 5 test -e "$state/room" || die "$(cat "$state/room.log")"
}

# in_room NSENTER_ARGUMENT... COMMAND...
in_room() {
    local room
    room=$(cat "$state/room.pid" 2>/dev/null) || die "not up: $root"
    nsenter --net="/proc/$room/ns/net" "$@"
}

boot() { # NODE
    local pid=$state/$1/pid
    rm -f "$state/$1/ready"
    in_room --pid="/proc/$(cat "$state/room.pid")/ns/pid_for_children" \
        unshare --net --uts --ipc --mount --pid --fork --kill-child bash "$self" init "$1" \
        </dev/null >"$state/$1/boot.log" 2>&1 &
    within 5 test -s "$pid" || die "$1: $(cat "$state/$1/boot.log")"
    in_room ip link add name "$1" type veth peer name eth0 netns "$(cat "$pid")"
    in_room ip link set "$1" master switch up
    within 20 test -e "$state/$1/ready" || die "$1: $(cat "$state/$1"/*.log)"
}

# The first process of a node.
init() { # NODE
    local pid
    read -r pid _ </proc/self/stat # the number outside, as /proc still is that of the machine
    mount --make-rprivate /
    hostname "$1"
    if [ -d "$peers" ]; then
        mount -t overlay -o "lowerdir=$peers/usr:/usr" none /usr
        mount -t overlay -o "lowerdir=$peers/etc:/etc" none /etc
    fi
    mount --bind "$state/passwd" /etc/passwd
    mount --bind "$state/hosts" /etc/hosts
    mount --bind "$state/slurm" /etc/slurm
    mount --bind "$state/ssh/ssh_config" /etc/ssh/ssh_config
    mount -t tmpfs -o mode=1777 none /dev/shm
    mount -t tmpfs -o mode=755 none /run
    mkdir /run/shared /run/sshd
    mount --bind "$root" /run/shared # it may be in the /tmp that is about to be covered
    mount -t tmpfs -o mode=1777 none /tmp
    mkdir -p "$root"
    mount --move /run/shared "$root"
    mount -t sysfs none /sys
    mount -t proc none /proc
    cd /
    ln -s /dev/null /run/gpu0 # Slurm wants character devices, and does not open them
    ln -s /dev/null /run/gpu1
    echo "$pid" >"$state/$1/pid"
    within 5 test -e /sys/class/net/eth0
    ip link set lo up
    ip address add "$(address "$1")/24" dev eth0
    ip link set eth0 up
    mkdir /run/munge
    munged --force --key-file "$state/munge.key" --seed-file "$state/$1/munged.seed" \
        --log-file "$state/$1/munged.log"
    "$(command -v sshd)" -f "$state/ssh/sshd_config" -E "$state/$1/sshd.log"
    if [ "$1" = ctl ]; then
        slurmctld
    else
        slurmd -N "$1"
    fi
    touch "$state/$1/ready"
    while :; do # orphans are inherited by the first process, and the shell reaps them
        sleep 1000
    done
}

enter() { # NODE COMMAND...
    local pid
    pid=$(cat "$state/$1/pid" 2>/dev/null) || die "$1 is not up"
    exec nsenter --target "$pid" --mount --uts --ipc --net --pid -- \
        env -u TMPDIR bash -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "${@:2}"
}

on() {
    (enter "$@")
}

usable() { # NODE...
    local names
    names=$(IFS=, && echo "$*")
    [ "$(on ctl sinfo --noheader --Node --partition=main --nodes="$names" --format=%t |
        grep -cxE 'idle|mix|alloc')" = $# ]
}

up() {
    local reason host
    reason=$(why_not)
    [ -z "$reason" ] || die "$reason"
    mkdir -p "$root"
    hold_lock || die "already up: $root"
    rm -rf "$state"
    trap '[ $? = 0 ] || down' EXIT
    configure
    start_room
    for host in "${hosts[@]}"; do
        boot "$host"
    done
    within 20 usable "${compute[@]}" || die "unusable nodes: $(on ctl sinfo -N -l && cat "$state"/*/*.log)"
}

down() {
    exec 9>&-
    if [ -e "$state/room.pid" ] && ! hold_lock; then
        kill -KILL "$(cat "$state/room.pid")" || true
        within 10 hold_lock || die "processes of $root do not end"
    fi
    rm -rf "$state" "$state.lock"
}

poweroff() { # NODE
    in_room ip link delete "$1" # first, because a node without power cannot close its connections
    kill -KILL "$(cat "$state/$1/pid")"
    rm "$state/$1/pid"
}

verb=${1:-}
[ $# = 0 ] || shift
case $verb in
why-not) why_not ;;
up | down | init | poweroff) $verb "$@" ;;
exec)
    node=ctl
    if [ "$1" = -n ]; then
        node=$2
        shift 2
    fi
    enter "$node" "$@"
    ;;
poweron)
    boot "$1"
    within 20 usable "$1" || die "$1 is not usable: $(cat "$state/$1"/*.log)"
    ;;
unplug) in_room ip link set "$1" down ;;
plug) in_room ip link set "$1" up ;;
*)
    sed -n '2,/^set -/s/^# \{0,1\}//p' "$self"
    exit 2
    ;;
esac
