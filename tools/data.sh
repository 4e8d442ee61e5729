#!/usr/bin/env bash
# data.sh: downloads MNIST into data/mnist. If no mirror of MNIST answers, it puts Fashion-MNIST from Debian's
# package into data/fashion-mnist. The programs use the data set that is there. data.sh resumes broken downloads
# and keeps complete files, compressed or plain.
# MNIST_MIRROR is the URL of a folder to use instead of the mirrors, such as file:///scratch/shared/mnist. If the
# images are not there, data.sh fails and does not fall back to other images.
set -u

mirrors='https://ossci-datasets.s3.amazonaws.com/mnist
https://storage.googleapis.com/cvdf-datasets/mnist
https://systemds.apache.org/assets/datasets/mnist'
mirrors=${MNIST_MIRROR:-$mirrors}

# SHA-256 sums of the uncompressed files, because the compressed copies differ from mirror to mirror.
files='train-images-idx3-ubyte ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
train-labels-idx1-ubyte 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
t10k-images-idx3-ubyte 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
t10k-labels-idx1-ubyte ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2'

is_plain() { # FILE SHA256
    [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

is_right() { # FILE SHA256
    gzip -tq "$1" 2>/dev/null && [ "$(gzip -dc <"$1" 2>/dev/null | sha256sum | cut -d' ' -f1)" = "$2" ]
}

# Prints the mirrors that answer within 10 seconds, the fastest first.
answering() { # NAME
    if [[ $mirrors != file://* ]] && ! command -v curl >/dev/null && ! command -v wget >/dev/null; then
        echo "note: neither curl nor wget is installed, so no mirror is asked" >&2
        return
    fi
    for mirror in $mirrors; do
        if command -v curl >/dev/null; then
            curl -fsIL --connect-timeout 10 --max-time 10 -o /dev/null "$mirror/$1.gz"
        elif [[ $mirror == file://* ]]; then # which wget does not know
            [ -r "${mirror#file://}/$1.gz" ]
        else
            timeout 10 wget -q --spider -t 1 "$mirror/$1.gz"
        fi && echo "$mirror" || echo "note: no answer from $mirror" >&2 &
    done
    wait
}

# Downloads a file, and prints the progress every five seconds.
download() { # URL FILE
    local status
    exec 9> >(until read -rt 5; [ $? = 1 ]; do echo "  $(stat -c %s "$2" 2>/dev/null || echo 0) bytes of $1"; done)
    if command -v curl >/dev/null; then
        curl -fsSL --connect-timeout 10 --speed-limit 1000 --speed-time 10 -C - -o "$2" "$1" 2>"$log" 9>&-
    elif [[ $1 == file://* ]]; then
        cp "${1#file://}" "$2" 2>"$log"
    else
        wget -q -T 10 -t 1 -c -O "$2" "$1" 2>"$log" 9>&-
    fi
    status=$?
    exec 9>&-
    return $status
}

fetch() { # NAME SHA256: downloads the file from the first mirror that has the right bytes
    part=data/mnist/$1.gz.part
    [ -n "${answered+asked}" ] || answered=$(answering "$1")
    for mirror in $answered; do
        for _ in resumed whole; do
            download "$mirror/$1.gz" "$part"
            status=$?
            if is_right "$part" "$2"; then
                mv "$part" "data/mnist/$1.gz"
                return 0
            fi
            # The file has wrong bytes (0), or the mirror cannot resume (8 of wget; 22, 33 and 36 of curl):
            # start again from the beginning. After a failure of the network, keep the bytes so far.
            case $status in
                0 | 8 | 22 | 33 | 36) rm -f "$part" ;;
                *) break ;;
            esac
        done
        echo "note: no correct $1.gz from $mirror: $(tail -n 1 "$log")" >&2
    done
    return 1
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
mkdir -p data/mnist
complete=yes
while read -r name sum; do
    is_plain "data/mnist/$name" "$sum" || is_right "data/mnist/$name.gz" "$sum" || fetch "$name" "$sum" || {
        complete=no
        break
    }
done <<END
$files
END
if [ $complete = yes ]; then
    echo "data/mnist: MNIST, 60000 training and 10000 test images"
    exit 0
fi
rmdir data/mnist 2>/dev/null
if [ -n "${MNIST_MIRROR:-}" ]; then
    echo "error: MNIST_MIRROR=$MNIST_MIRROR has no correct copy of MNIST. It must be the URL of a folder, such as" \
        "file:///scratch/mnist, with train-images-idx3-ubyte.gz and the three other files of MNIST" >&2
    exit 1
fi

tools/deps.sh fashion
fashion=/usr/share/datasets/fashion-mnist
if [ -f $fashion/train-images-idx3-ubyte.gz ]; then
    mkdir -p data/fashion-mnist
    cp $fashion/*-ubyte.gz data/fashion-mnist/
    echo "data/fashion-mnist: Fashion-MNIST (clothes, not digits), because no mirror sent MNIST; the programs use it"
    exit 0
fi
echo "error: no mirror sent MNIST, and Debian's dataset-fashion-mnist is not installed: run make data on a machine" \
    "with internet, set MNIST_MIRROR to the URL of a folder with the files, or train with --data synthetic" >&2
exit 1
