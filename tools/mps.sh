#!/usr/bin/env bash
# mps.sh COMMAND...: runs the command while MPS is on, NVIDIA's service that lets the kernels of several processes run at the
# same time on one GPU. MPS runs for this command alone, in folders of its own, and ends with it, also after a signal.
set -u
[ $# -gt 0 ] || { echo "usage: tools/mps.sh COMMAND..." >&2; exit 2; }
command -v nvidia-cuda-mps-control >/dev/null ||
    { echo "error: nvidia-cuda-mps-control is not here; it comes with NVIDIA's driver for Linux, but not with WSL" >&2; exit 1; }
# shellcheck source=tools/begin.sh
. "$(dirname "$0")/begin.sh"
export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
mkdir "$work"/{pipe,log}
trap 'echo quit | nvidia-cuda-mps-control >/dev/null 2>&1; rm -rf "$work"' EXIT # the service ends before quit returns
trap 'kill -TERM $! 2>/dev/null' HUP INT TERM
nvidia-cuda-mps-control -d || { echo "error: MPS did not start; its log says: $(tail -n 1 "$work"/log/control.log 2>/dev/null)" >&2; exit 1; }
"$@" &
wait $!
code=$?
while kill -0 $! 2>/dev/null; do wait $!; code=$?; done # a signal has ended the first wait
exit $code
