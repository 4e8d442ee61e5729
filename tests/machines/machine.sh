#!/usr/bin/env bash
# machine.sh [OPTION...] SUITE COMMAND: runs a shell command in a fresh clone of this repository on a bare system, which
# holds nothing but git, make and gcc. No other program of this machine helps the command, so it meets the problems of a
# new user. SUITE is a release of Debian (bullseye, bookworm, trixie, sid) or Ubuntu (jammy, noble, resolute). Options:
#   --as user       an ordinary user; --as sudo: a user who may use sudo without a password (root, if left out)
#   --net none      no network; --net drop: all packets are lost, so every request waits for an answer
#   --with LIST     these packages are there, too, such as clang,bats
#   --cuda          the CUDA toolkit of this machine is there, but no GPU, as on a login node
#   --cores N       N of this machine's cores
#   --arch NAME     another processor that Debian knows, such as arm64; qemu runs its programs (apt: qemu-user-static, binfmt-support)
#   --shm SIZE      the size of /dev/shm (64m, if left out, as in a container)
#   --folder NAME   the folder of the clone (course, if left out)
#   --lang NAME     the locale (C.UTF-8, if left out), such as de_DE.UTF-8
# It needs root. debootstrap makes the systems in ${MACHINES:-/var/tmp/course-machines}, with the mirror and the proxy of
# this machine's apt. The images come from MNIST_MIRROR, if it is a folder here.
set -eu

fail() {
    echo "error: $*" >&2
    exit 2
}

# Makes the bare system of the suite, if it is not there yet.
build() {
    local family=Debian script=sid options mirror
    options=(--variant=minbase '--include=git,make,gcc,ca-certificates' ${arch:+"--arch=$arch"})
    case $suite in
    jammy | noble | resolute)
        family=Ubuntu script=gutsy options+=('--components=main,universe')
        # Debian has no package with Ubuntu's keys.
        [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || options+=(--no-check-gpg)
        ;;
    esac
    command -v debootstrap >/dev/null ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap; } >"$bare.log" 2>&1 ||
        fail "apt-get cannot install debootstrap: $(tail -n 1 "$bare.log")"
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' | sed -n "s/^$family [a-z]* //p" | head -n 1)
    http_proxy=${http_proxy:-$(apt-config dump --format '%v' Acquire::http::Proxy)}
    echo "debootstrap makes a bare $suite${arch:+ for $arch}"
    rm -rf "$bare.new"
    # The release may be newer than debootstrap, whose scripts have differed little from release to release.
    http_proxy=$http_proxy unshare -m debootstrap "${options[@]}" "$suite" "$bare.new" "$mirror" \
        /usr/share/debootstrap/scripts/$script >"$bare.log" 2>&1 ||
        fail "debootstrap cannot make a bare $suite: $(tail -n 1 "$bare.log"); $bare.log says more"
    [ -z "$http_proxy" ] || echo "Acquire::http::Proxy \"$http_proxy\";" >"$bare.new/etc/apt/apt.conf.d/proxy"
    mv "$bare.new" "$bare"
}

# Mounts the system, in which all changes are lost at the end, and puts the clone into it.
furnish() {
    local device target
    mount --make-rprivate /
    mount -t overlay overlay -o "lowerdir=$bare,upperdir=$box/changes,workdir=$box/work" "$box/root"
    cd "$box/root"
    mount -t proc proc proc
    mount -t sysfs -o ro sysfs sys
    mount -t tmpfs -o mode=755 tmpfs dev
    for device in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
        read -ra device <<<"$device"
        mknod -m 666 "dev/${device[0]}" c "${device[@]:1}"
    done
    ln -s /proc/self/fd pts/ptmx dev/
    ln -s /proc/self/fd/0 dev/stdin
    ln -s /proc/self/fd/1 dev/stdout
    ln -s /proc/self/fd/2 dev/stderr
    mkdir dev/pts dev/shm
    mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
    mount -t tmpfs -o "size=$shm,mode=1777" tmpfs dev/shm
    for target in ${mnist:+"$mnist"} ${cuda:+"$cuda"}; do
        mkdir -p ".$target"
        mount --rbind -o ro "$target" ".$target"
    done
    [ -z "$authorities" ] || cp "$authorities" usr/local/authorities.crt
    [ -z "$cuda" ] || [ "$cuda" = /usr/local/cuda ] || ln -s "$cuda" usr/local/cuda
    cat /etc/resolv.conf >etc/resolv.conf
    echo bare >/proc/sys/kernel/hostname
    printf '127.0.0.1 %s\n' localhost bare >etc/hosts
    if [ -n "$with" ]; then
        chroot . sh -c "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $with" \
            >"$box/packages" 2>&1 || fail "apt-get cannot install $with: $(tail -n 1 "$box/packages")"
    fi
    [ "$lang" = C.UTF-8 ] || chroot . localedef -i "${lang%.*}" -f "${lang#*.}" "$lang"
    mkdir -p "$box/root/$home"
    mv "$box/course" "$box/root$home/$folder"
    if [ "$user" != root ]; then
        chroot . useradd -s /bin/bash "$user"
        chroot . chown -R "$user:" "$home"
        [ "$as" = user ] || echo "$user ALL=(ALL) NOPASSWD: ALL" >"etc/sudoers.d/$user"
    fi
}

# Runs the command in the system, with a network of its own if that is wanted.
live() {
    local become=()
    cd "$box/root"
    [ "$net" = host ] || ip link set lo up
    if [ "$net" = drop ]; then
        ip route add default dev lo # which drops packets to other machines
        echo nameserver 192.0.2.1 >etc/resolv.conf
    fi
    mkdir -p old
    pivot_root . old
    cd /
    umount -l old
    [ "$user" = root ] || become=(setpriv --reuid "$user" --regid "$user" --init-groups)
    cd "$home/$folder"
    # qemu 7.2 needs 3 GB for each process whose device memory may take the usual range of addresses.
    "${become[@]}" env -i HOME="$home" USER="$user" TERM=xterm LANG="$lang" ${mnist:+"MNIST_MIRROR=file://$mnist"} \
        ${authorities:+NODE_EXTRA_CA_CERTS=/usr/local/authorities.crt} ${arch:+QEMU_RESERVED_VA=0x800000000} \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -c "$command"
}

as=root net=host with='' cuda='' cores='' arch='' shm=64m folder=course lang=C.UTF-8
while [[ ${1:-} == -* ]]; do
    case $1 in
    --as | --net | --with | --cores | --arch | --shm | --folder | --lang) declare "${1#--}=${2:?a value for $1 is missing}" && shift ;;
    --cuda) cuda=$(readlink -e /usr/local/cuda) || fail 'there is no /usr/local/cuda here' ;;
    *) fail "$1 is no option of machine.sh; the head of the script lists them" ;;
    esac
    shift
done
[ $# = 2 ] || fail 'machine.sh needs a suite and a command; the head of the script explains both'
[ "$(id -u)" = 0 ] || fail 'a bare system can be made by root only'
suite=$1 command=$2 user=root home=/root
[ "$as" = root ] || user=attendee home=/home/attendee
[ "$as" != sudo ] || with+=,sudo
[ "$lang" = C.UTF-8 ] || with+=,locales
with=${with//,/ }
mnist=${MNIST_MIRROR:-} mnist=${mnist#file://}
mnist=$(readlink -e "$mnist" || true)
authorities=${NODE_EXTRA_CA_CERTS:-} # npm needs them where a proxy signs certificates itself
machines=${MACHINES:-/var/tmp/course-machines}
bare=$machines/$suite${arch:+-$arch}
mkdir -p "$machines"
(
    flock 9
    [ -d "$bare" ] || build
) 9>"$bare.lock"
box=$(mktemp -d "$machines/box.XXXXXX")
trap 'rm -rf "$box"' EXIT
mkdir "$box/changes" "$box/work" "$box/root"
git clone -q --no-hardlinks "$(dirname "$0")/../.." "$box/course"

# All mounts and processes belong to namespaces, which end with the command.
export as net arch with cuda shm folder lang command user home mnist authorities bare box
export -f fail furnish live
${cores:+taskset -c "0-$((cores - 1))"} unshare -m -p -f -u -i --kill-child \
    bash -euc "furnish; exec unshare $([ "$net" = host ] || echo --net) bash -euc live"
