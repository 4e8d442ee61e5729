#!/usr/bin/env bats
# Samples that are streamed from files: the same bits as with all samples on the device, each byte read once, little memory,
# and files and disks that fail while training reads.
# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # bats and the loaded files set variables; lists of words
load ../helpers
load every_step
load trainers

# Reads of files whose path has $SLOW in it take 5 s, fail or hang; all reads are counted, if BYTES_READ names a file.
prepare() {
    cat >"$BATS_FILE_TMPDIR/reads.c" <<'END'
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t pread(int file, void *bytes, size_t size, off_t at) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    static long reads;
    char link[40], path[4096] = "";
    const char *fault = getenv("FAULT"), *count = getenv("BYTES_READ");
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, path, sizeof path - 1) < 0 || !strstr(path, "train"))
        fault = count = NULL;
    if (!real)
        real = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
    if (fault && __atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED) > 850) {
        if (!strcmp(fault, "EIO"))
            return errno = EIO, -1;
        sleep(strcmp(fault, "hang") ? 12 : 600);
        unsetenv("FAULT");
    }
    ssize_t got = real(file, bytes, size, at);
    FILE *log = count ? fopen(count, "a") : NULL;
    if (log)
        fprintf(log, "%s %zd\n", path, got), fclose(log);
    return got;
}
END
    cc -D_GNU_SOURCE -shared -fPIC "$BATS_FILE_TMPDIR/reads.c" -o "$BATS_FILE_TMPDIR/reads.so" -ldl
}

@test "with any number of workers, streamed samples give the same bits, in each step, also after a stop" {
    local step ranks workers more
    for step in $trainers; do
        ranks=$((step == 1 ? 1 : 3 + (step == 9)))
        for more in "--dropout 0.2 --augment flip" "$gpt --optimizer adamw"; do
            case $step in
            7) more+=" --accumulate 2" ;;
            [89]) more+=" --micro-batches 5" ;;
            esac
            rm -rf right && mkdir right
            train $step $ranks --load device --csv right.csv --snapshot right/s $more
            refute grep -q '^loader' out
            for workers in 0 1 4; do
                rm -rf s csv && mkdir s
                train $step $ranks --load stream --workers $workers --csv csv --snapshot s/s --max-steps 7 $more
                delays=$((workers + 1)) train $step $ranks --load stream --workers $workers --csv csv --snapshot s/s $more
                grep -qE "^loader    streams samples: $workers workers?, " out
                diff <(cut -d, -f1-6 right.csv) <(cut -d, -f1-6 csv)
                diff -r right s || { echo "step $step, $workers workers: $more" && return 1; }
            done
        done
    done
}

@test "the checker of ordering finds no race in the loader" { # exercise 1.6 shows that it finds each missing wait
    for workers in 1 3; do
        CPU_DEVICE_CHECK=1 train 1 1 --load stream --workers $workers --log-every 100
    done
}

# The program reads all samples once before the first epoch, for their checksum, and then each rank its own samples: in each
# epoch five batches of 120. Nobody trains the last 40 samples, so no reader reads them.
@test "all ranks together read each sample once in an epoch" {
    local ranks
    [ "$(stat -c %s "$tiny/train-images-idx3-ubyte")" = $((16 + 640 * 8)) ]
    for ranks in 1 2 4; do
        rm -f bytes
        BYTES_READ=$PWD/bytes LD_PRELOAD=$BATS_FILE_TMPDIR/reads.so train 2 $ranks --load stream --epochs 2
        [ "$(awk '/images/ { sum += $2 } END { print sum }' bytes)" = $((16 + (640 + 2 * 5 * 120) * 8)) ]
    done
}

# The pinned and the device memory of batches do not depend on the set, and the set is larger than the memory of the process.
@test "a text of 4 GB trains in 512 MB, from a file or from shards, and a large text is known by samples of it" {
    local words="--model gpt --context 1024 --layers 1 --width 16 --heads 2 --batch 4 --max-steps 2 --load stream"
    truncate -s 4G big
    printf x | dd of=big bs=1 seek=7 conv=notrunc 2>/dev/null
    (ulimit -v 524288 && train 1 1 --data text:big $words --csv one)
    grep -qx 'loader    streams samples: 2 workers, 4 batches of 8.2 KB' out
    mkdir shards
    head -c 100000 big >shards/a
    head -c 7 /dev/zero >shards/c
    truncate -s $((4 * 1024 * 1024 * 1024 - 100007)) shards/b
    train 1 1 --data text:shards $words --csv two
    cut -d, -f1-6 one | diff - <(cut -d, -f1-6 two)
    train 1 1 --data text:shards $words --snapshot s
    truncate -s 100000 shards/c
    fails 1 'was trained with "number of training sequences: ' "$(program_of 1)" "${options[@]}" --data text:shards $words --snapshot s
}

# The program has had all of them in its memory, for their checksum.
@test "samples that do not fit onto the device stay in their files, and not in the memory of the host" {
    truncate -s 100M big
    CPU_DEVICE_MEMORY=200M start "$(program_of 1)" "${options[@]}" --data text:big --model gpt --context 1024 --layers 1 --width 16 \
        --heads 2 --batch 4
    until_true 60 grep -q 'step 2/' out
    grep -q '^loader    streams' out
    [ "$(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status")" -lt 50000 ] # KiB
}

@test "a set or a ring above the memory of the device is refused with a way to less" {
    for words in "--load device" "--load stream --workers 64"; do
        CPU_DEVICE_MEMORY=8K fails 1 '; use --load stream, and lower --batch or --workers' "$(program_of 1)" "${options[@]}" $words
    done
}

@test "shards must be those of the index, and --verify reads them" {
    mkdir shards
    seq 9000 | split -b 10000 - shards/
    (cd shards && cksum -- * >index.cksum)
    local words="--model gpt --context 16 --layers 1 --width 16 --heads 2 --max-steps 2"
    refused() { # TEXT OPTION...
        fails 1 "$1" "$(program_of 1)" "${options[@]}" $words --data text:shards "${@:2}"
        (cd shards && seq 9000 | split -b 10000 - && mv xaa aa && mv xab ab && mv xac ac && mv xad ad && mv xae ae && rm -f new)
    }
    train 1 1 --data text:shards $words --verify
    rm shards/ab
    refused 'shards/index.cksum: ab is missing: copy it again'
    rm shards/ae
    refused 'shards/index.cksum: ae is missing: copy it again'
    touch shards/new
    refused 'shards/new: is not in shards/index.cksum'
    truncate -s 9999 shards/ac
    refused 'shards/ac: has 9999 bytes, and shards/index.cksum says 10000: copy it again'
    printf 'x' | dd of=shards/ad bs=1 seek=99 conv=notrunc 2>/dev/null
    refused 'shards/ad: its checksum is ' --verify
    echo 'MD5 (aa) = 0' >shards/index.cksum
    refused 'shards/index.cksum: want lines of the command cksum'
    rm shards/index.cksum
    mkdir small && cat shards/* | split -b 200 -a 3 - small/
    (ulimit -n 300 && train 1 1 --data text:small $words --snapshot s) # 220 shards
    train 1 1 --data text:shards $words --snapshot s                    # have the same contents
    refused 'shards/index.cksum: No such file or directory; --verify compares with it' --verify
    cat shards/* >all.txt
    cksum all.txt >all.txt.cksum
    train 1 1 --data text:all.txt $words --snapshot s --verify
    printf 'x' | dd of=all.txt bs=1 seek=99 conv=notrunc 2>/dev/null
    fails 1 'all.txt: its checksum is ' "$(program_of 1)" "${options[@]}" $words --data text:all.txt --verify
    train 1 1 --data text:shards $words
}

# streams OPTION...: two ranks of step 4, with the fault in FAULT.
streams() {
    LD_PRELOAD=$BATS_FILE_TMPDIR/reads.so timeout "$(patience 60)" "$launch" --nproc-per-node 2 \
        "$(program_of 4)" "${options[@]}" --load stream --snapshot s --csv csv "$@" >out 2>err
}

@test "a fault of the disk, or a file that changes, ends all ranks with one line about it, and leaves the snapshot" {
    local change
    train 4 2 --snapshot s --max-steps 3
    cp s before
    FAULT=EIO refute streams --epochs 1000 --save-every 1000
    grep -q '^error (.*rank [01].*/train-[a-z0-9-]*: cannot read byte [0-9]*: Input/output error' err
    cmp s before
    for change in 'truncate -s 3000 images-idx3' 'touch -d 2001-02-03 images-idx3'; do
        rm -rf changing csv out && cp -r "$tiny" changing && cp before s
        (options[1]=changing && streams --epochs 100000 --save-every 100000) &
        pid=$!
        until_true 20 grep -qs 'epoch 3/' out
        ${change% *} "changing/train-${change##* }-ubyte"
        refute wait $pid
        grep -qE "^error .*/train-${change##* }-ubyte: (another program has changed it|ends at byte)" err || { cat err && return 1; }
        cmp s before
    done
    pid=''
}

@test "a read that hangs does not keep a run from its stop" {
    FAULT=hang LD_PRELOAD=$BATS_FILE_TMPDIR/reads.so start "$(program_of 1)" "${options[@]}" --load stream --epochs 1000
    until_true 20 grep -qs 'epoch 1/.* test loss' out
    until_true 20 grep -q '^note (.*): training waits for data: no batch of --data .* for 1[0-9] s$' err
    kill -TERM $pid
    limit=4 ends 1
    grep -q '^error (.*): this run must stop, but a read of --data .* has not ended' err
}

@test "a slow disk costs time only, and a rank without threads or descriptors says so" {
    train 4 2 --csv right
    FAULT=slow streams
    same_curve right csv
    grep -q 'training waits for data' err || { cat out err && return 1; }
    # shellcheck disable=SC2016 # the other shell expands it
    fails 1 'Too many open files' sh -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 6; exec "$@"' sh "$(program_of 1)" "${options[@]}" --load stream
    [ "$(id -u)" = 0 ] || # has no such limit
        fails 1 'Resource temporarily unavailable' bash -c 'ulimit -u 1 && exec "$@"' bash "$(program_of 1)" "${options[@]}" --load stream
}
