#!/usr/bin/env bats
# bats file_tags=test-all
# Tests of containers/cpu.def without Apptainer and without a registry. Its %post runs in a new root file system of its
# Debian release, from this machine's mirror. In this image, the tests build the course and run step 4 on two nodes, with a
# stand-in for apptainer that calls Charliecloud.
load helpers

# Makes the image that Apptainer would make from cpu.def, as a folder. If the mirror does not answer, the test is skipped,
# but an error is a failure.
make_image() { # SUITE MIRROR
    sed -n '/^%post/,/^%/{/^%/d;p}' "$root/containers/cpu.def" >post
    grep -q apt-get post
    mmdebstrap --variant=minbase --customize-hook='chroot "$1" sh -e <post' "$1" image "$2" >image.log 2>&1 3>&- &&
        return
    if grep -qE 'Could not (resolve|connect)|Unable to connect|Temporary failure' image.log; then
        WHY_NOT="$2 does not answer"
    else
        cat image.log && return 1
    fi
}

setup_file() {
    local suite mirror
    export WHY_NOT=''
    suite=$(sed -n 's/^From: debian:\([a-z]*\)-slim$/\1/p' "$root/containers/cpu.def")
    if [ -z "${TEST_CONTAINER:-}" ]; then
        WHY_NOT="takes a minute and the network: make test-container"
    elif ! command -v mmdebstrap >/dev/null || ! command -v ch-run >/dev/null; then
        WHY_NOT="missing: mmdebstrap or ch-run (Debian: mmdebstrap charliecloud-runtime)"
    elif ! mirror=$(apt-get indextargets --no-release-info --format '$(SITE) $(RELEASE) $(COMPONENT)' |
        grep -m 1 " $suite main$"); then
        WHY_NOT="apt has no mirror of Debian $suite here"
    else
        WHY_NOT=$("$BATS_TEST_DIRNAME/cluster.sh" why-not)
    fi
    [ -z "$WHY_NOT" ] || return 0
    cd "$BATS_FILE_TMPDIR" || return
    make_image "$suite" "${mirror%% *}"
    [ -z "$WHY_NOT" ] || return 0
    start_cluster

    # Charliecloud makes no folders in an image, and needs two files that Apptainer would provide.
    mkdir -p "image$CLUSTER_ROOT" bin
    touch image/etc/hosts image/etc/resolv.conf
    cat >bin/apptainer <<'END'
#!/bin/bash
[ "$1 $2" = 'exec --nv' ] || exit 9
USER=root exec ch-run --bind "$CLUSTER_ROOT" --cd "$PWD" "$3" -- "${@:4}"
END
    chmod +x bin/apptainer
    export CONTAINER=$CLUSTER_ROOT/image PATH=$CLUSTER_ROOT/bin:$PATH
}

@test "the image builds the course, and step 4 in it has the loss curve of step 1 outside" {
    options=(--data tiny --hidden "8,8" --batch 120 --epochs 4 --log-every 1)
    cluster exec -n node1 apptainer exec --nv "$CONTAINER" make DEVICE=cpu BUILD=build/container WERROR=1 step4 3>&-
    [ "$(readlink 04_multinode/train)" = ../build/container/04_multinode/train ]
    cluster exec -n node1 apptainer exec --nv "$CONTAINER" sh -c '! command -v bats && cat /etc/os-release' |
        grep "$(sed -n 's/^From: debian:\([a-z]*\)-slim$/VERSION_CODENAME=\1/p' containers/cpu.def)"

    submit slurm/step4.sbatch "${options[@]}" --csv nodes.csv
    "$TRAIN" "${options[@]}" --csv alone.csv
    ended "$id" COMPLETED
    cat ./*".$id.out"
    same_curve alone.csv nodes.csv
    nodes_clean
}

@test "doctor.sbatch checks both nodes from inside the image" {
    submit slurm/doctor.sbatch
    ended "$id" COMPLETED
    [ "$(log "$id" | grep -c '^PASS  container      charliecloud')" = 2 ]
    [ "$(log "$id" | grep -c '^PASS  BLAS ')" = 2 ]
    log "$id" | grep "^node1, Slurm job $id:"
    log "$id" | grep "^node2, Slurm job $id:"
    [ "$(log "$id" | grep -c '^FAIL')" = 0 ]
}
