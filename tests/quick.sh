#!/usr/bin/env bash
# quick.sh: tests the main promises of steps 1 to 3 in some seconds, and prints TAP. It needs only a compiler.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
build=$root/build/test
export OMP_NUM_THREADS=1 CPU_DEVICES=3 NCCL_SOCKET_IFNAME=lo
# This script uses the shared functions that do not need bats.
bats_require_minimum_version() { :; }
export BATS_TEST_DIRNAME=$root/tests/steps
# shellcheck disable=SC1091 # checked itself
. tests/helpers.bash
. tools/begin.sh
cd "$work" || exit 1
tiny_data tiny
options=(--data tiny --hidden "8,8" --batch 120 --epochs 4 --log-every 1)
one=$build/01_single_gpu/train
two=$build/02_multigpu_fork/train
launch=("$build/03_multigpu_launcher/launch" --nproc-per-node 3)
three=$build/03_multigpu_launcher/train

step_1_lowers_the_loss() {
    "$one" "${options[@]}" --csv one.csv --snapshot one.bin
    # The last epoch's loss is below the first's.
    awk -F, '$4 != "" { if (!first) first = $4; last = $4 } END { exit !(last < first) }' one.csv
}

step_1_continues_from_a_snapshot() {
    "$one" "${options[@]}" --max-steps 7 --snapshot resumed.bin &&
        "$one" "${options[@]}" --snapshot resumed.bin && cmp one.bin resumed.bin
}

step_2_has_the_loss_curve_of_step_1() {
    "$two" --nproc 3 "${options[@]}" --csv two.csv --snapshot two.bin && same_curve one.csv two.csv
}

step_3_computes_the_bits_of_step_2() {
    "${launch[@]}" "$three" "${options[@]}" --snapshot three.bin && cmp two.bin three.bin
}

# The first rank that makes the folder "killed" ends with kill -9, so this happens once.
step_3_recovers_from_a_killed_rank() {
    "${launch[@]}" --max-restarts 1 bash -c 'if mkdir killed 2>/dev/null; then "$@" --max-steps 7; kill -9 $$; fi; exec "$@"' \
        - "$three" "${options[@]}" --snapshot killed.bin && cmp two.bin killed.bin
}

number=0
echo 1..5
for test in step_1_lowers_the_loss step_1_continues_from_a_snapshot step_2_has_the_loss_curve_of_step_1 \
    step_3_computes_the_bits_of_step_2 step_3_recovers_from_a_killed_rank; do
    number=$((number + 1))
    if $test >log 2>&1; then
        echo "ok $number - ${test//_/ }"
    else
        sed 's/^/# /' log
        echo "not ok $number - ${test//_/ }"
    fi
done
