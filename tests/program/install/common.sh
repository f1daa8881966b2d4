# shellcheck shell=sh disable=SC2034
# What the tests of installing share: a room, README's program, two ranks of it, and what is said at
# the end. Sourced with the source folder and the build folder as arguments.
source_root=$1
build_root=$2
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failures=0
skips=
expected='sums over 2 ranks: 1 201 401 601'
unset LD_LIBRARY_PATH PKG_CONFIG_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR DESTDIR BUILD

# A command's output goes to the file `log`, and is shown where an expectation fails.
log=$room/log

expect() { # what, then a command that must succeed
    what=$1
    shift
    if ! "$@" >"$log" 2>&1; then
        echo "FAILED: $what"
        sed 's/^/    /' "$log"
        failures=$((failures + 1))
        return 1
    fi
}

expect_not() { # what, then a command that must fail
    what=$1
    shift
    if "$@" >"$log" 2>&1; then
        echo "FAILED: $what"
        sed 's/^/    /' "$log"
        failures=$((failures + 1))
    fi
}

# Whether a tool is there; what is left out for want of it is told at the end.
has() {
    command -v "$1" >/dev/null || {
        skips="${skips}without $1: $2; "
        return 1
    }
}

readme_program() { # folder: its allreduce.c is README's program
    mkdir -p "$1"
    sed -n '/^```c$/,/^```$/p' "$source_root/README.md" | sed '1d;$d' >"$1/allreduce.c"
}

two_ranks() { # tool, program
    timeout 60 "$1" run -n 2 --no-prefix "$2" >"$room/said" 2>&1 &&
        grep -qx "$expected" "$room/said"
    code=$?
    cat "$room/said"
    return "$code"
}

finish() {
    [ "$failures" = 0 ] || exit 1
    [ -z "$skips" ] || {
        echo "all else passed; ${skips%; }"
        exit 77
    }
    echo "all checks passed"
}
