#!/usr/bin/env bats
# Tests of make container with a stand-in for apptainer. tests/cluster/container.bats builds the image itself.
# shellcheck disable=SC2154 # bats sets variables
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir tools containers bin
    cp "$root/tools/container.sh" tools/
    cp "$root"/containers/*.def containers/
    for program in sh dirname id rm mv cp cat; do
        ln -s "$(path_of $program)" bin/
    done
}

builder() { # NAME COMMANDS: they find the image to write in $image, and its definition in $from
    cat >"bin/$1" <<END
#!/bin/sh
echo "$1 \$*" >>called
while [ \$# -gt 2 ]; do shift; done
image=\$1 from=\$2
$2
END
    chmod +x "bin/$1"
}

container() { # DEVICE
    run env PATH="$PWD/bin" /bin/sh tools/container.sh "$1"
}

@test "without apptainer, one line says what to install" {
    fails 1 'apptainer, which builds containers/tutorial.sif, is not installed' env PATH="$PWD/bin" /bin/sh tools/container.sh gpu
}

@test "each device has its own image, and the output names the next command" {
    # shellcheck disable=SC2016 # expanded there
    builder apptainer 'cp "$from" "$image"'
    container gpu
    [ "$status" = 0 ]
    cmp containers/tutorial.def containers/tutorial.sif
    [[ $output = *'Next: apptainer exec containers/tutorial.sif make DEVICE=gpu BUILD=build/container step4' ]]
    container cpu
    [ "$status" = 0 ]
    cmp containers/cpu.def containers/cpu.sif
    [[ $output = *'Next: apptainer exec containers/cpu.sif make DEVICE=cpu BUILD=build/container step4' ]]
    [ "$(ls containers)" = "$(printf '%s\n' cpu.def cpu.sif tutorial.def tutorial.sif)" ]
}
