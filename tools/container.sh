#!/bin/sh
# container.sh gpu|cpu: builds containers/tutorial.sif or containers/cpu.sif from the definition file beside it. It does
# not need root. An older image stays in place until the new one is complete.
set -eu
cd "$(dirname "$0")/.."
device=$1
image=containers/$([ "$device" = gpu ] && echo tutorial || echo cpu)

builder=$(command -v apptainer || command -v singularity) || {
    echo "error: apptainer, which builds $image.sif, is not installed: load your site's module, or install it (dnf with" \
        "EPEL, or conda: apptainer), or build the image on a machine that has it, and copy the image" >&2
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
echo "$image.sif is ready. Next: ${builder##*/} exec $image.sif make DEVICE=$device BUILD=build/container step4"
