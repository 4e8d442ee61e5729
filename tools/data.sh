#!/usr/bin/env bash
# data.sh [SET]: downloads a set into data/SET: images of mnist (the default), fashion-mnist or cifar10, or the text of
# shakespeare. It resumes broken downloads and keeps complete files, compressed or plain.
# MNIST_MIRROR, FASHION_MIRROR, CIFAR_MIRROR or SHAKESPEARE_MIRROR is the URL of a folder to use instead of the mirrors of
# that set, such as file:///scratch/shared/mnist. If the set is not there, data.sh fails.
# The set digits needs no network, because tools/digits.c draws it. Where no mirror of MNIST answers, data.sh draws it.
# shellcheck disable=SC2317 # some functions are arguments of others
set -u

# The files have the SHA-256 sums of their uncompressed bytes, because the compressed copies differ from mirror to mirror.
archive='' # of all files; without it, each file has a download of its own
ending=.gz # of the files on the mirrors
wanted='train-images-idx3-ubyte.gz and the three other files'
set=${1:-mnist}
case $set in
    mnist)
        title=MNIST contents='60000 training and 10000 test images'
        variable=MNIST_MIRROR instead='--data data/digits, which make data SET=digits draws'
        mirrors='https://ossci-datasets.s3.amazonaws.com/mnist
https://storage.googleapis.com/cvdf-datasets/mnist
https://systemds.apache.org/assets/datasets/mnist'
        files='train-images-idx3-ubyte ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
train-labels-idx1-ubyte 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
t10k-images-idx3-ubyte 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
t10k-labels-idx1-ubyte ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2'
        ;;
    fashion-mnist)
        title=Fashion-MNIST contents='60000 training and 10000 test images'
        variable=FASHION_MIRROR instead='--data data/digits, which make data SET=digits draws'
        mirrors='https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion
https://storage.googleapis.com/tensorflow/tf-keras-datasets
http://fashion-mnist.s3-website.eu-central-1.amazonaws.com'
        files='train-images-idx3-ubyte c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888
train-labels-idx1-ubyte bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9
t10k-images-idx3-ubyte 5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b
t10k-labels-idx1-ubyte 0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34'
        ;;
    cifar10)
        title=CIFAR-10 contents='50000 training and 10000 test images'
        variable=CIFAR_MIRROR instead='--data shapes'
        mirrors='https://www.cs.toronto.edu/~kriz
https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10
https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets'
        archive=cifar-10-binary.tar.gz wanted=$archive
        files='data_batch_1.bin cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5
data_batch_2.bin a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed
data_batch_3.bin bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67
data_batch_4.bin 014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48
data_batch_5.bin 755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add
test_batch.bin 8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b'
        ;;
    shakespeare)
        title='Tiny Shakespeare' contents='a text of 1115394 bytes'
        variable=SHAKESPEARE_MIRROR instead='--data text'
        mirrors='https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare
https://raw.githubusercontent.com/dmlc/web-data/master/mxnet/tinyshakespeare'
        ending='' wanted=input.txt
        files='input.txt 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed'
        ;;
    digits)
        title='drawn digits, not MNIST' contents='60000 training and 10000 test images'
        files='train-images-idx3-ubyte e03fd7c405de13f064f295a5e803db3c93c0722c910db554d584f1b2fadc39d1
train-labels-idx1-ubyte 892e6ba9e49d0547083dae66d06456e5bea24f43ca5e33c4b86e1a63bf9f1d2d
t10k-images-idx3-ubyte 0279fb11ec7138bd6acdcece0cfe4e9acff6349d0b95d851f94a69dfc8f95b03
t10k-labels-idx1-ubyte eed023a12817138f6d5876f93ec0d401e159a3585cb316caa583f64816324a2c'
        ;;
    *)
        echo "error: there is no set $set: SET is mnist, fashion-mnist, cifar10, shakespeare or digits" >&2
        exit 2
        ;;
esac
folder=data/$set unpacked=data/$set/unpacked
own=${variable:+${!variable:-}}
mirrors=${own:-${mirrors:-}}
reason="no mirror sent $title"

is_plain() { # FILE SHA256
    [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

is_right() { # FILE SHA256
    gzip -tq "$1" 2>/dev/null && [ "$(gzip -dc <"$1" 2>/dev/null | sha256sum | cut -d' ' -f1)" = "$2" ]
}

# each COMMAND...: runs the command with the name and the sum of each file, until it fails.
each() {
    local name sum
    while read -r name sum; do
        "$@" "$name" "$sum" </dev/null || return
    done <<<"$files"
}

is_there() { # NAME SHA256
    is_plain "$folder/$1" "$2" || is_right "$folder/$1.gz" "$2"
}

# Prints the mirrors that answer within 10 seconds, the fastest first.
answering() { # DOWNLOAD
    [[ $mirrors == file://* ]] || echo "$folder: asks the mirrors of $title, for at most 10 seconds" >&2
    for mirror in $mirrors; do
        curl -fsIL --connect-timeout 10 --max-time 10 -o /dev/null "$mirror/$1" && echo "$mirror" ||
            echo "note: no answer from $mirror" >&2 &
    done
    wait
}

# Downloads a file, and prints the progress every five seconds.
download() { # URL FILE
    local status
    exec 9> >(until read -rt 5; [ $? = 1 ]; do echo "  $(stat -c %s "$2" 2>/dev/null || echo 0) bytes of $1"; done)
    curl -fsSL --connect-timeout 10 --speed-limit 1000 --speed-time 10 -C - -o "$2" "$1" 2>"$work/log" 9>&-
    status=$?
    exec 9>&-
    return $status
}

# Checks a complete download of one file, and gives it its name.
take_file() { # SHA256 FILE.part
    { [ -z "$ending" ] && is_plain "$2" "$1" || is_right "$2" "$1"; } && mv "$2" "${2%.part}"
}

is_unpacked() { # NAME SHA256
    is_plain "$unpacked/$1" "$2"
}

# Checks the files in a complete archive, and puts them into the folder.
take_archive() { # FILE.part
    rm -rf "$unpacked"
    mkdir "$unpacked"
    # The names keep all other members out.
    gzip -tq "$1" 2>/dev/null &&
        tar -xzf "$1" -C "$unpacked" --strip-components=1 "${members[@]}" 2>/dev/null &&
        each is_unpacked &&
        mv "$unpacked"/* "$folder" && rm -r "$1" "$unpacked"
}

need_write() {
    [ -w "$folder" ] || {
        echo "error: $folder cannot be written: run make data in a copy of the course that is yours, or ask the owner of" \
            "this one to run it" >&2
        exit 1
    }
}

# fetch DOWNLOAD TAKE...: downloads it from the first mirror whose bytes the function TAKE accepts.
fetch() {
    need_write
    command -v curl >/dev/null || { reason='curl is not installed (tools/deps.sh run installs it)' && return 1; }
    part=$folder/$1.part
    [ -n "${answered+asked}" ] || answered=$(answering "$1")
    for mirror in $answered; do
        for _ in resumed whole; do
            download "$mirror/$1" "$part"
            status=$?
            "${@:2}" "$part" && return
            room "$folder"
            # The file has wrong bytes (0), or the mirror cannot resume (22, 33 and 36 of curl):
            # start again from the beginning. After a failure of the network, keep the bytes so far.
            case $status in
                0 | 22 | 33 | 36) rm -f "$part" ;;
                *) break ;;
            esac
        done
        echo "note: no correct $1 from $mirror: $(tail -n 1 "$work/log")" >&2
    done
    return 1
}

fetch_file() { # NAME SHA256
    is_there "$@" || fetch "$1$ending" take_file "$2"
}

# The file with the title tells readers, and the banner of the programs, what the images are.
draw() {
    need_write
    mkdir -p build "$unpacked" &&
        ${CC:-cc} -std=c11 -O2 -ffp-contract=off -I. tools/digits.c -o build/digits && build/digits "$unpacked" &&
        echo "$title" >"$unpacked/drawn.txt" && mv "$unpacked"/* "$folder" && rmdir "$unpacked" && return
    room "$folder"
    echo "error: tools/digits.c cannot draw the digits: see the lines above" >&2
    exit 1
}

fetch_all() {
    if [ "$set" = digits ]; then
        each is_there || draw
    elif [ -z "$archive" ]; then
        each fetch_file
    else
        mapfile -t members < <(awk '{ print "cifar-10-batches-bin/" $1 }' <<<"$files")
        each is_there || fetch "$archive" take_archive
    fi
}

# shellcheck source=tools/begin.sh
. "$(dirname "$0")/begin.sh"
trap 'rm -rf "$work" "$unpacked"' EXIT
mkdir -p "$folder"
{ exec 8<"$folder" && flock 8; } 2>/dev/null # a second make data waits for the first one, and then finds the files
if fetch_all; then
    echo "$folder: $title, $contents"
    [[ $set == digits || $contents != *images || ! -d data/digits ]] ||
        echo "note: programs without --data read the downloaded images now, not the drawn digits in data/digits"
    exit 0
fi
rm -rf "$unpacked"
rmdir "$folder" 2>/dev/null
if [ -n "$own" ]; then
    [[ $reason == curl* ]] && echo "error: $reason" >&2 && exit 1
    echo "error: $variable=$own has no correct copy of $title. It must be the URL of a folder, such as" \
        "file:///scratch/$set, with $wanted, or train with $instead" >&2
    exit 1
fi
# With some of the files there, programs would still read those.
if [[ $set == mnist && ! -e $folder/train-images-idx3-ubyte && ! -e $folder/train-images-idx3-ubyte.gz ]]; then
    echo "note: $reason, so tools/digits.c draws digits in its place" >&2
    bash "$0" digits
    exit
fi
echo "error: $reason: run make data SET=$set on a machine with internet, set $variable to the URL of a folder" \
    "with $wanted, or train with $instead" >&2
exit 1
