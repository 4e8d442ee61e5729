#!/bin/sh
# dump.sh FOLDER: writes the environment that this rank was started with to FOLDER/ATTEMPT.RANK. Where restarts
# remain, the first attempt fails when all of its ranks have written theirs.
cp "/proc/$$/environ" "$1/new.$RANK" && mv "$1/new.$RANK" "$1/$TORCHELASTIC_RESTART_COUNT.$RANK"
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && [ "$TORCHELASTIC_MAX_RESTARTS" != 0 ] || exit 0
until [ "$(find "$1" -name '0.*' | wc -l)" = "$WORLD_SIZE" ]; do
    sleep 0.02
done
exit 1
