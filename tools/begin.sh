# shellcheck shell=sh
# begin.sh: the beginning of a script that needs temporary files. It writes them to the folder $work, which its end removes.
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2

# room FOLDER [CURE [WHY]]: ends the script if the folder is full, or for this reason, because what runs next would look wrong.
room() {
    why=${3:-$( (head -c 1M /dev/zero >"$1/room.$$") 2>&1)} || true
    rm -f "$1/room.$$"
    [ -z "$why" ] || {
        echo "error: 1 MB cannot be written to ${1%/"${work##*/}"} (${why##*: }): make room there${2:-}" >&2
        exit 1
    }
}

cure=', or set TMPDIR to another folder'
work=$(mktemp -d 2>&1) || room "${TMPDIR:-/tmp}" "$cure" "$work"
trap 'rm -rf "$work"' EXIT
room "$work" "$cure"
