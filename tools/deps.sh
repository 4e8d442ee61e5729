#!/bin/sh
# deps.sh run|test|container|bench|fashion: installs what is missing to build and run on the CPU device, to test, to
# test the container too, to compare with PyTorch, or to train on Fashion-MNIST. With apt-get, as root or through sudo;
# elsewhere it says what is missing and how to get it, and lets the build go on with what is there.
set -u
cc=${CC:-cc}

has_command() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1; }
has_header() { echo "#include <$1>" | $cc -E - >/dev/null 2>&1; }
has_onednn() { CC=$cc tools/find_libs.sh cpu 2>/dev/null | grep -q dnnl; }
has_openblas() { CC=$cc PRODUCTS=cblas tools/find_libs.sh cpu 2>/dev/null | grep -q openblas; }
has_fuzzer() {
    echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return !d + !n; }' |
        clang -x c -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null
}
has_torch() { /usr/bin/python3 -c 'import torch' >/dev/null 2>&1; }

# check TEST ARGUMENT APT DNF CONDA: notes the packages when the test fails.
apt='' dnf='' conda=''
check() {
    "$1" "$2" && return
    apt="$apt $3" dnf="$dnf $4" conda="$conda $5"
}

has_file() { [ -f "$1" ]; }
[ "$1" = fashion ] && check has_file /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz \
    dataset-fashion-mnist "" ""
check has_command curl curl curl curl
check has_header zlib.h zlib1g-dev zlib-devel zlib
if [ "$(uname -m)" = x86_64 ]; then
    check has_onednn - libdnnl-dev onednn-devel onednn
fi
if [ "$(uname -m)" != x86_64 ] || [ "$1" = test ] || [ "$1" = bench ]; then # which compare the two
    check has_openblas - libopenblas-openmp-dev openblas-devel openblas
fi
if [ "$1" = container ]; then
    check has_command mmdebstrap mmdebstrap "" ""
    check has_command ch-run charliecloud-runtime charliecloud ""
fi
if [ "$1" = test ] || [ "$1" = container ]; then
    check has_header cmocka.h libcmocka-dev libcmocka-devel cmocka
    check has_command bats bats bats bats-core
    check has_command clang clang clang clang
    check has_fuzzer - "clang libclang-rt-dev" "clang compiler-rt" "clang compiler-rt"
    check has_command shellcheck shellcheck ShellCheck shellcheck
    check has_command clang-format clang-format clang-tools-extra clang-tools
    check has_command cppcheck cppcheck cppcheck cppcheck
    check has_command script bsdutils util-linux util-linux
    check has_command pgrep procps procps-ng procps-ng
    check has_command ip iproute2 iproute iproute2
    check has_torch - python3-torch python3-pytorch pytorch
    check has_command mpirun openmpi-bin openmpi openmpi
    check has_command munged munge munge munge
    check has_command slurmctld "slurmctld slurm-client" slurm-slurmctld slurm
    check has_command slurmd slurmd slurm-slurmd slurm
    check has_command sshd "openssh-server openssh-client" openssh-server openssh
elif [ "$1" = bench ]; then
    check has_torch - python3-torch python3-pytorch pytorch
    check has_command mpicc "openmpi-bin libopenmpi-dev" openmpi-devel openmpi
fi
[ -n "$apt" ] || exit 0

if ! has_command apt-get; then
    root=none
elif [ "$(id -u)" = 0 ]; then
    root=
elif has_command sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    root=sudo
else
    root=none
fi
if [ "$root" != none ]; then
    echo "installing:$apt"
    # The tests' cluster starts its own servers; the packages' must not start here.
    policy=/usr/sbin/policy-rc.d
    [ "$1" != run ] && [ ! -e $policy ] && [ -z "$root" ] && printf '#!/bin/sh\nexit 101\n' >$policy &&
        chmod 755 $policy && trap 'rm -f $policy' EXIT
    # One package at a time, so that one that this release does not have holds up no other.
    # shellcheck disable=SC2086 # $root and $apt are lists of words
    $root apt-get update -qq >/dev/null 2>&1
    install() {
        # shellcheck disable=SC2086
        DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends "$1" \
            >/dev/null 2>&1 || echo "note: apt-get could not install $1" >&2
    }
    # shellcheck disable=SC2086
    for package in $apt; do
        install "$package"
    done
    has_onednn || has_openblas || install libopenblas-openmp-dev
    exit 0
fi
cat >&2 <<END
note: missing here, and not to be installed without root:$apt
  Debian, Ubuntu:  sudo apt-get install$apt
  Fedora, RHEL:    sudo dnf install$dnf
  conda, no root:  conda install -c conda-forge$conda
END
