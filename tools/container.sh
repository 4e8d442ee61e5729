#!/bin/sh
# container.sh gpu|cpu: builds containers/tutorial.sif or containers/cpu.sif from the definition beside it, as root or
# not. An image that is there stays until the new one is complete.
set -eu
cd "$(dirname "$0")/.."
device=$1
image=containers/$([ "$device" = gpu ] && echo tutorial || echo cpu)

builder=$(command -v apptainer || command -v singularity) || {
    echo "error: apptainer is not here to build $image.sif: load your site's module, or install it (dnf with EPEL, or" \
        "conda: apptainer), or run make container where it is and copy the image" >&2
    exit 1
}
if [ "$(id -u)" = 0 ]; then
    set --
else
    set -- --fakeroot
fi
trap 'rm -f "$image.new"' EXIT
"$builder" build --force "$@" "$image.new" "$image.def"
mv "$image.new" "$image.sif"
echo "$image.sif is there. Next: ${builder##*/} exec $image.sif make DEVICE=$device BUILD=build/container step4"
