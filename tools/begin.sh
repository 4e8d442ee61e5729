# shellcheck shell=sh
# begin.sh: the beginning of a script that needs temporary files. It writes them to the folder $work, which its end removes.
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2

# room FOLDER: ends the script if the folder is full, because what runs next would look wrong.
room() {
    why=$( (head -c 1M /dev/zero >"$1/room.$$") 2>&1)
    rm -f "$1/room.$$"
    [ -z "$why" ] || {
        echo "error: 1 MB cannot be written to ${1%/tmp.*} (${why##*: }): make room there${2:-}" >&2
        exit 1
    }
}

trap 'rm -rf "$work"' EXIT
work=$(mktemp -d 2>/dev/null) || work=${TMPDIR:-/tmp}/tmp.none
room "$work" ', or set TMPDIR to another folder'
