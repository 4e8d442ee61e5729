#!/bin/sh
# run.sh SECONDS: fuzzes each file reader for this number of seconds, starting with valid files, and prints TAP. An input
# that breaks a reader stays in build/fuzz, and build/fuzz/TARGET INPUT runs it again.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=${1:?usage: run.sh SECONDS}
build=build/fuzz
sanitizers=address,undefined
TMPDIR=$(mktemp -d /dev/shm/fuzz-XXXXXX 2>/dev/null || mktemp -d) # in memory where there is room
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 1' INT TERM

compile() { # TARGET
    objects=
    for source in common/*/*.c 05_fsdp/shards.c 05_fsdp/manifest.c 05_fsdp/sharding.c zoo/*.c zoo/*/*.c watch/*.c "tests/fuzz/$1.c"; do
        case $source in
            */gpu_*) ;; # for a GPU only
            *) objects="$objects $build/${source%.c}.o" ;;
        esac
    done
    # shellcheck disable=SC2086 # the objects, and the libraries below, are lists of words
    make --no-print-directory CC=clang DEVICE=cpu BUILD=$build \
        CFLAGS="-O1 -g -fsanitize=fuzzer-no-link,$sanitizers -fno-sanitize-recover=all" $objects $build/libcpu_device.a || return
    libs=$(sed -n 's/^LIB_FLAGS := //p' $build/libs.mk)
    # shellcheck disable=SC2086
    clang -pthread -fsanitize=fuzzer,$sanitizers $objects $build/libcpu_device.a -o "$build/$1" $libs -lm -ldl
}

zeros() { head -c "$1" /dev/zero; }
text() { # TEXT SIZE
    printf %s "$1"
    zeros $(($2 - ${#1}))
}
integer() { # of 64 bits, below 256
    printf %b "\\0$(printf %o "$1")"
    zeros 7
}
print_images() { printf '\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\2abcdefgh'; }
print_labels() { printf '\0\0\10\1\0\0\0\2\0\11'; }
print_records() { # LABEL... (in octal): images of CIFAR-10
    for label; do
        printf %b "\\0$label"
        head -c 3072 /dev/zero | tr '\0' b
    done
}
print_snapshot() { # as tests/fuzz/fuzz_snapshot.c expects it, but for the checksum
    text SNAPSHOT 8 && integer 3 && text 'mlp 1-2' 128 && text sgd 16
    integer 7 && integer 64 && integer 3 && integer 5 && zeros 24 && integer 2 && integer 2
    text d 384 && text adam 640
    zeros 20
}
print_manifest() { # of the shards that tests/fuzz/fuzz_snapshot.c has saved, but for the checksum
    printf '%s\n' 'MANIFEST 3' 'model mlp 1-2' 'optimizer sgd' 'seed 7' 'batch 64' 'epochs 3' 'step 5' \
        'loss 0' 'correct 0' 'samples 0' 'shards 2' 'data:d' 'settings:adam' \
        'unit 2' 'shard fcd2f6cf' 'shard 521a4247' 'crc32 00000000'
}

# Writes valid files. Their first byte selects what the target does with them.
make_seeds() { # TARGET FOLDER
    case $1 in
        fuzz_data)
            { printf '\200' && print_images; } >"$2/images"
            { printf '\201' && print_labels; } >"$2/labels"
            { printf '\2' && print_images | gzip -n; } >"$2/images.gz"
            { printf '\3' && print_labels | gzip -n; } >"$2/labels.gz"
            { printf '\4' && print_records 7; } >"$2/training"
            { printf '\11' && print_records 0 11; } >"$2/test"
            { printf '\5' && print_records 3 | gzip -n; } >"$2/training.gz"
            ;;
        fuzz_snapshot)
            { printf '\1' && print_snapshot; } >"$2/whole"
            { printf '\1' && print_manifest; } >"$2/manifest"
            ;;
    esac
}

number=0 failed=0
echo 1..2
for target in fuzz_data fuzz_snapshot; do
    number=$((number + 1)) log=$TMPDIR/log corpus=$TMPDIR/$target
    mkdir "$corpus"
    make_seeds $target "$corpus"
    longest=2048
    [ $target != fuzz_data ] || longest=8192 # a record has 3073 bytes
    # Headers may claim a gigabyte, which is allocated but not touched.
    if compile $target >"$log" 2>&1 &&
        "$build/$target" -max_total_time="$seconds" -max_len=$longest -timeout=20 -malloc_limit_mb=1100 \
            -rss_limit_mb=2048 -artifact_prefix="$build/$target-" "$corpus" >"$log" 2>&1; then
        echo "ok $number - $target: $(sed -n 's/^Done \([0-9]*\) .*/\1/p' "$log") inputs in $seconds s"
    else
        failed=1
        tail -n 40 "$log" | sed 's/^/# /'
        echo "not ok $number - $target: $(sed -n 's/.*written to /breaks on /p' "$log")"
    fi
done
exit $failed
