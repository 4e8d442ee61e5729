#!/usr/bin/env bash
# deps.sh SET: installs the packages of a set that are missing here: run (to build and run on DEVICE, by default on the
# CPU device; with NVCC set, also to compile for GPUs), quick, test, test-all, cluster, container, fuzz, lint or format
# (for the make target of this name), gpu (for make test DEVICE=gpu), python, slides, site or bench (to compare with PyTorch). It uses apt-get,
# as root or through sudo, and lists the packages before it installs them. If a needed package stays missing, it prints how to get it and exits with 1.
set -u
cc=${CC:-cc}
peers=build/peers
npm=build/npm # of packages that are too old in some releases
npm_installs="mkdir -p $npm && cp tests/package*.json $npm && npm ci --prefix $npm --no-audit --no-fund --loglevel=error"
unreachable=build/no-mirror # exists after no mirror of apt has answered
# shellcheck source=tools/begin.sh
. "$(dirname "$0")/begin.sh"
log=$work/log

has_command() { PATH=$PATH:/usr/sbin:/sbin:$PWD/$peers/usr/bin:$PWD/$peers/usr/sbin command -v "$1" >/dev/null; }
has_header() { echo "#include <$1>" | $cc -E ${CONDA_PREFIX:+-I"$CONDA_PREFIX/include"} - >/dev/null 2>&1; }
find_libs() { CC=$cc tools/find_libs.sh cpu 2>&1; }
has_zlib() { [[ $(find_libs) != *'(zlib.h,'* ]]; }
has_products() { find_libs >/dev/null || { ! has_zlib && { has_header cblas.h || has_header dnnl.h; }; }; }
has_onednn() { find_libs | grep -q '^LIB_FLAGS.*-ldnnl'; }
has_openblas() { PRODUCTS=cblas find_libs | grep -q '^LIB_FLAGS.*-lopenblas'; }
has_fuzzer() {
    echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return !d + !n; }' |
        clang -x c -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null
}
# --filter-tags came with 1.8, and Ubuntu 22.04 has 1.2.
has_bats() { printf '%s\n' 'Bats 1.8' "$(PATH=$PWD/$npm/node_modules/bats/bin:$PATH bats --version 2>/dev/null)" | sort -VC; }
has_torch() { /usr/bin/python3 -c 'import torch' >/dev/null 2>&1; }

# need|want|unpack CHECK ARGUMENT APT DNF CONDA: adds the packages to a list if the check fails. Without a wanted
# package, the tests check less, or take longer. A package to unpack would start services if it were installed; the test
# cluster starts its own.
need() { "$1" "$2" || { needed=yes && want "$@"; }; }
want() { "$1" "$2" || [[ "$apt " == *" $3 "* ]] || { apt+=" $3" dnf+=${4:+ $4} && conda+=${5:+ $5}; }; }
unpack() { "$1" "$2" || unpacked+=" $3"; }

check() { # SET
    local openblas=(libopenblas-openmp-dev openblas-devel openblas) products fast=has_openblas
    products=("${openblas[@]}")
    [ "$(uname -m)" != x86_64 ] || products=(libdnnl-dev onednn-devel onednn) fast=has_onednn # oneDNN is fast on x86-64 only
    apt='' dnf='' conda='' unpacked='' needed=''
    case $1 in
        run | quick | test | test-all | cluster | container | fuzz | bench | gpu)
            need has_command "$cc" gcc gcc gcc
            need has_header stdio.h libc6-dev glibc-devel # Debian's gcc comes without it where nothing is recommended
            want has_command curl curl curl curl
            want has_command python3 python3 python3 python # for tools/trace.py
            [ -z "${NVCC:-}" ] || need has_command g++ g++ gcc-c++ gxx # which nvcc calls
            need has_zlib - zlib1g-dev zlib-devel zlib
            if [[ "$1 ${DEVICE:-}" != @(run|gpu)\ gpu ]]; then
                need has_products - "${products[@]}"
                want "$fast" - "${products[@]}"
            fi
            ;;&
        quick | test | test-all | cluster | container | gpu)
            need has_header cmocka.h libcmocka-dev libcmocka-devel cmocka
            ;;&
        test | test-all | bench) # they compare oneDNN and OpenBLAS
            want has_openblas - "${openblas[@]}"
            ;;&
        test | test-all | cluster | container | gpu)
            need has_bats - bats bats bats-core
            [ "$1" = gpu ] || need has_command pgrep procps procps-ng procps-ng
            want has_command script bsdutils util-linux util-linux
            want has_command ip iproute2 iproute iproute2
            want has_command ccache ccache ccache ccache
            ;;&
        test | test-all | lint)
            need has_command shellcheck shellcheck ShellCheck shellcheck
            ;;&
        test-all | lint | format)
            need has_command clang-format clang-format clang-tools-extra clang-format
            ;;&
        test-all | lint)
            need has_command cppcheck cppcheck cppcheck cppcheck
            ;;&
        fuzz)
            need has_command clang clang clang clang
            need has_fuzzer - libclang-rt-dev compiler-rt compiler-rt
            ;;
        test-all)
            want has_command clang clang clang clang
            want has_fuzzer - libclang-rt-dev compiler-rt compiler-rt
            want has_command mpiexec.hydra mpich mpich mpich
            want has_command chromium chromium chromium '' # for the slides
            want has_command npm 'nodejs npm' nodejs-npm nodejs
            want has_command pdftotext poppler-utils poppler-utils poppler
            want has_torch - python3-torch python3-pytorch pytorch
            ;;&
        test-all | cluster | container)
            want has_command mpirun openmpi-bin openmpi openmpi
            unpack has_command munged munge
            unpack has_command slurmctld 'slurmctld slurm-client'
            unpack has_command slurmd slurmd
            unpack has_command sshd 'openssh-server openssh-client'
            ;;&
        container)
            want has_command mmdebstrap mmdebstrap '' ''
            want has_command ch-run charliecloud-runtime charliecloud ''
            ;;
        python | slides)
            need has_command python3 python3 python3 python
            ;;&
        site | slides)
            need has_command npm 'nodejs npm' nodejs-npm nodejs
            ;;&
        slides)
            need has_command chromium chromium chromium ''
            ;;
    esac
}

on_cluster() { [ -n "${SLURM_JOB_ID:-}${PBS_JOBID:-}${LSB_JOBID:-}" ] || command -v sbatch qsub bsub >/dev/null; }

# On a cluster, only the administrators use sudo, and it would report to them. At a terminal, the user decides.
can_install() {
    local answer
    has_command apt-get || return
    root=''
    [ "$(id -u)" = 0 ] && return
    root=sudo
    has_command sudo && ! on_cluster || return
    if [ -t 0 ]; then
        read -rp "Install$apt with sudo? [y/N] " answer
        [[ $answer == [yY]* ]] && sudo -v
    else
        sudo -n true 2>/dev/null
    fi
}

last_line() {
    grep . "$log" || echo "no answer yet"
}

# apt_get ARGUMENT...: runs apt-get with its output in the log, and prints the log's last line every five seconds.
apt_get() {
    local status begin=$SECONDS
    exec 9> >(until read -rt 5; [ $? = 1 ]; do echo "  $((SECONDS - begin)) s: $(last_line | tail -n 1 | cut -c -90)"; done)
    $root env LC_ALL=C DEBIAN_FRONTEND=noninteractive RES_OPTIONS='timeout:3 attempts:2' apt-get -q \
        --no-install-recommends -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 \
        -o DPkg::Lock::Timeout=60 "$@" </dev/null >"$log" 2>&1 9>&-
    status=$?
    exec 9>&-
    return $status
}

failed() {
    echo "note: apt-get $1 failed: $(grep '^[EW]: ' "$log" | head -n 1 | cut -c -200)" >&2
}

# announce VERB PACKAGE...: sets $packages to the packages that this release has, and prints their total size, including
# all packages that they depend on.
announce() {
    local all
    mapfile -t packages < <(for package in "${@:2}"; do
        apt-cache show "$package" >/dev/null 2>&1 && echo "$package"
    done)
    [ ${#packages[@]} -gt 0 ] && apt_get install --simulate "${packages[@]}" || return
    mapfile -t all < <(sed -n 's/^Inst \([^ ]*\) .*/\1/p' "$log")
    [ ${#all[@]} -gt 0 ] || { echo "note: these packages are here, but make does not find what it needs: ${packages[*]}" && return 1; }
    echo "$1: ${packages[*]}"
    apt-cache show --no-all-versions "${all[@]}" | awk -v count=${#all[@]} '
        /^Size:/ { fetched += $2 / 1e6 }
        /^Installed-Size:/ { installed += $2 / 1e3 }
        END { printf "  %d package%s, %.1f MB to download, %.0f MB on disk\n", count, count == 1 ? "" : "s", fetched, installed }'
}

install_packages() {
    announce installing "$@" || return
    apt_get install -y "${packages[@]}" || failed install
}

unpack_packages() {
    local file
    announce "unpacking into $peers" "$@" || return
    mkdir -p $peers/debs/partial $peers/etc/slurm
    apt_get install -y --download-only -o Dir::Cache::archives="$PWD/$peers/debs" "${packages[@]}" || failed install
    for file in "$peers"/debs/*.deb; do
        dpkg -x "$file" $peers
    done
    for file in "$peers"/usr/sbin/*-wlm; do # an installation uses the name without -wlm
        ln -sf "${file##*/}" "${file%-wlm}"
    done
    rm -r $peers/debs
}

check "$1"
[ "$(id -u)" = 0 ] || unpacked='' # the cluster needs root, as well
[ -n "$apt$unpacked" ] || exit 0
if [ -n "$(find $unreachable -mmin -1 2>/dev/null)" ]; then
    echo "missing packages:$apt$unpacked; no mirror answered apt-get within the last minute, so it does not ask again"
elif can_install; then
    echo "missing packages:$apt$unpacked; apt-get now asks its mirrors"
    apt_get update
    if grep -qE '^(Get|Hit):' "$log"; then
        # shellcheck disable=SC2086 # lists of words
        install_packages $apt
        # shellcheck disable=SC2086
        unpack_packages $unpacked
        check "$1"
        if [[ $apt == *dnnl* ]] && ! has_products; then # this release has no oneDNN
            install_packages libopenblas-openmp-dev
            check "$1"
        fi
        if [[ $apt == *" bats"* ]]; then # this release has an old one
            has_command npm || install_packages npm
            echo "npm installs a newer bats in $npm"
            sh -c "$npm_installs"
            check "$1"
        fi
    else
        failed update
        mkdir -p build && touch $unreachable
    fi
fi
[ -n "$apt" ] || exit 0

{
    [ -n "$needed" ] && echo "error: missing packages:$apt" || echo "note: these packages are useful, but not required:$apt"
    echo "  Debian, Ubuntu:  sudo apt-get update && sudo apt-get install$apt"
    [[ $apt != *" bats"* ]] || ! has_command bats ||
        echo "  bats is older than 1.8; without root: $npm_installs"
    [ -z "$dnf" ] || echo "  Fedora, RHEL:    sudo dnf install$dnf"
    [ -z "$conda" ] || echo "  conda, no root:  conda install -c conda-forge$conda"
    ! on_cluster || echo "  On a cluster:    load modules that hold them; module avail lists all (docs/where.md, A cluster)"
} >&2
[ -z "$needed" ]
