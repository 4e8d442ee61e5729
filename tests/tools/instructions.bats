#!/usr/bin/env bats
# Tests of tools/author/instructions.py: the numbers in common/kernels/cpu_launch.c are those that it counts, and no slow kernel is missing.
# shellcheck disable=SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup() {
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    "$nvcc" --version 2>/dev/null | grep -q "release 13\.0" || skip "nvcc 13.0 is not installed"
    PATH+=:${nvcc%/*}
    cd "$root" || return
}

# Other tests would not notice that a kernel has become slower.
@test "the table of instructions has those of the machine code" {
    tools/author/instructions.py >"$BATS_TEST_TMPDIR/counted"
    python3 -B - "$BATS_TEST_TMPDIR/counted" common/kernels/cpu_launch.c <<'END'
import re
import sys
counted, source = (open(path, encoding="utf-8").read() for path in sys.argv[1:])
table = {name: (float(each), float(part)) for name, each, part in
         re.findall(r'\{"(\w+)", ([0-9.]+), ([0-9.]+)\}', source)}
loops = {}
for name, number, loads, stores, outer in re.findall(
        r"^(\w+)_kernel.* (\d+) instructions +(\d+) loads +(\d+) stores( +in it)?", counted, re.M):
    loops.setdefault(name, []).append(int(number))
    assert name in table or outer or int(number) <= 3 * 4 * (int(loads) + int(stores)), f"{name} must be in the table"
assert set(table) <= set(loops), set(table) - set(loops)
for name in ("image_to_patches", "to_bfloat16", "multiply_by_normalised", "gather_batch", "add_bias", "gelu"):
    assert table[name] == (loops[name][0], 0), (name, table[name], loops[name])
each, row, place = loops["patches_to_image"]  # windows of 3 x 3
assert table["patches_to_image"] == (each, (3 * row + 9 * place) // 9), loops
first, second, third = loops["group_norm"][:3]  # the first two compute four elements
assert abs(table["group_norm"][0] - first / 4 - second / 4 - third) < 1, loops
END
}
