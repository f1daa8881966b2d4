#!/bin/sh
# Everything one does with this repository, one word each. `./do` alone lists the words.
#
# Assumes a shell and, where something has to be installed, apt with root or sudo. What is there
# already is found by probes that take milliseconds, so a second run starts at once. BUILD names
# another build folder (default: build), TARGETS what to build there before tests (default:
# everything).
set -eu
cd "$(dirname "$0")"
BUILD=${BUILD:-build}

usage() {
    cat <<'END'
Gyre: collective communication without NCCL and without MPI.

usage: ./do WORD [ARGUMENTS]

  bench [NAME] [FLAGS]  measure: all-reduce on 2 local ranks, 8 B to 64 MiB; or another bench, other flags
  compare [FLAGS]       measure against Open MPI, MPICH and gloo, where they are installed, in turns
  compare_training [FLAGS]
                        measure training against PyTorch's DistributedDataParallel with gloo, in turns
  test [NAMES, FLAGS]   build and run all tests but suite guest, or those of files and folders (tests/link,
                        unit/base/env_test); flags go to `meson test`
  build [TARGETS]       build everything into build/
  check                 headers, include directions and format of the tree
  format                format every C file in place
  install               install library, headers and tool (set DESTDIR for elsewhere)
  packages [ci]         install what building (and continuous integration) needs
  ci                    all that a change must pass: compilers, sanitizers, coverage
  clean                 remove build folders

A first run installs missing packages through apt. Examples:

  ./do bench
  ./do bench broadcast --ranks 4 -b 1K -e 16M -f 4
  ./do test --suite unit
END
}

fail() {
    echo "./do: $*" >&2
    exit 1
}

# For wrong words: what is wrong, the word, then the right ones. Names the nearest of them, which is
# what gyre_nearest_word() would say.
refuse() {
    what=$1
    shift
    near=$(printf '%s\n' "$@" | awk '
        function least(a, b) { return a < b ? a : b }
        function edits(a, b, i, j, x, y, d) {
            for (j = 0; j <= length(b); j++) d[0, j] = j
            for (i = 1; i <= length(a); i++) {
                d[i, 0] = i
                for (j = 1; j <= length(b); j++) {
                    x = substr(a, i, 1); y = substr(b, j, 1)
                    d[i, j] = least(d[i - 1, j - 1] + (x != y), least(d[i - 1, j], d[i, j - 1]) + 1)
                    if (i > 1 && j > 1 && x == substr(b, j - 1, 1) && y == substr(a, i - 1, 1))
                        d[i, j] = least(d[i, j], d[i - 2, j - 2] + 1)
                }
            }
            return d[length(a), length(b)]
        }
        NR == 1 { typed = $0; best = 4; next }
        { e = edits(typed, $0) }
        e < best && 2 * e < length($0) { best = e; found = $0 }
        END { if (found != "") printf " (did you mean \"%s\"?)", found }') || near=
    word=$1
    shift
    echo "./do: $what '$word'; there are: $*$near" >&2
    exit 2
}

# --- packages -------------------------------------------------------------------------------------

# One line per package: its name, then a command that succeeds where it is not needed any more.
needs_build() {
    cat <<'END'
gcc command -v cc
libc6-dev test -e /usr/include/stdio.h
meson command -v meson
ninja-build command -v ninja
pkg-config command -v pkg-config
libssl-dev pkg-config --exists libcrypto
liburing-dev pkg-config --exists liburing
zlib1g-dev pkg-config --exists zlib
libibverbs-dev pkg-config --exists libibverbs
libcmocka-dev pkg-config --exists cmocka
END
}

needs_format() {
    echo "clang-format command -v clang-format"
}

needs_check() {
    needs_build
    needs_format
    echo "g++ command -v g++"
}

needs_ci() {
    needs_check
    cat <<'END'
clang command -v clang
libclang-rt-dev ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.tsan-*.a
gcovr command -v gcovr
libopenblas0-pthread ls /usr/lib/*/libopenblas.so.0
gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdio.h
qemu-user command -v qemu-aarch64
qemu-system-x86 command -v qemu-system-x86_64
iproute2 command -v rdma
libibverbs-dev pkg-config --exists libibverbs
ibverbs-providers ls /usr/lib/*/libibverbs/librxe-*.so
xz-utils command -v xz
END
}

missing() {
    while read -r package probe; do
        eval "$probe" >/dev/null 2>&1 || printf '%s ' "$package"
    done
}

# Prints what to put before apt-get, or fails where packages cannot be installed without help.
privilege() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" = 0 ]; then
        echo env
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        echo sudo env
    else
        return 1
    fi
}

apt_install() {
    become=$1
    shift
    $become DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# The package lists of a fresh container are empty and those of an old one point nowhere: then, and
# only then, update.
install_packages() {
    become=$1
    shift
    echo "installing: $*"
    log=$(mktemp)
    if apt_install "$become" "$@" >"$log" 2>&1 ||
        { $become apt-get update >"$log" 2>&1 && apt_install "$become" "$@" >"$log" 2>&1; }; then
        rm -f "$log"
    else
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "apt could not install: $*"
    fi
}

provide() {
    packages=$("needs_$1" | missing)
    [ -n "$packages" ] || return 0
    # shellcheck disable=SC2086 # the names are words
    if become=$(privilege); then
        install_packages "$become" $packages
        [ ! -f "$BUILD/build.ninja" ] || meson setup --reconfigure "$BUILD" >/dev/null
    elif command -v apt-get >/dev/null; then
        echo "These packages are missing, and installing them needs root. Run:" >&2
        echo "    sudo apt-get update && sudo apt-get install -y ${packages% }" >&2
        exit 1
    else
        fail "please install, under whatever names your system has for these Debian packages: ${packages% }"
    fi
}

# --- building -------------------------------------------------------------------------------------

configure() {
    [ -f "$BUILD/build.ninja" ] && return
    log=$(mktemp)
    echo "configuring $BUILD"
    meson setup --buildtype release "$BUILD" >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "meson could not configure $BUILD"
    }
    rm -f "$log"
}

build() {
    provide build
    configure
    quiet=--quiet
    [ ! -t 1 ] || quiet=
    ninja -C "$BUILD" $quiet "$@" || fail "the build failed; the first error is above"
}

# --- words ----------------------------------------------------------------------------------------

bench() {
    name=all_reduce
    case ${1-} in '' | -*) ;; *)
        name=$1
        shift
        ;;
    esac
    build
    program=$BUILD/bench/$name
    # shellcheck disable=SC2046 # the names are words
    [ -x "$program" ] || refuse "no bench" "$name" $(benches)
    if [ "$name" != link ]; then
        [ $# -gt 0 ] || set -- -b 8 -e 64M -f 2
        case " $* " in *" --ranks"*) ;; *) set -- --ranks 2 "$@" ;; esac
    fi
    exec "$program" "$@"
}

benches() {
    find "$BUILD/bench" -maxdepth 1 -type f -perm -100 -exec basename {} \; | sort
}

compare() {
    build >&2
    BUILD=$BUILD exec bench/compare "$@"
}

compare_training() {
    build >&2
    BUILD=$BUILD exec bench/compare_training "$@"
}

# meson's log has one JSON object per line; a test's own output is the string between "stdout" and
# "result".
log_count() {
    grep -c "\"result\": \"\\($1\\)\"" "$BUILD/meson-logs/testlog.json" || true
}

log_output() {
    sed 's/^.*"stdout": "\(.*\)", "result": .*$/\1/; s/\\n/\
/g; s/\\"/"/g; s/\\u001b\[[0-9;]*m//g'
}

# A line of the log is {"name": "project:suite / test", …
test_name() {
    sed 's|^{"name": "\([^"]*\)".*|\1|; s|.*[:/] ||'
}

# Each skip with its reason: a whole program (exit 77, the reason is its last line) or one case of a
# cmocka program.
list_skips() {
    while IFS= read -r line; do
        name=$(printf '%s\n' "$line" | test_name)
        case $line in
        *'"result": "SKIP"'*)
            reason=$(printf '%s\n' "$line" | log_output | grep . | tail -n 1) || reason="no reason given"
            echo "skipped: $name: $reason"
            ;;
        *'[  SKIPPED ] '*)
            printf '%s\n' "$line" | log_output | sed -n "s|^\\[  SKIPPED \\] \\([a-z].*\\)|skipped: $name: \\1|p" |
                grep -v ' test(s)' || true
            ;;
        esac
    done <"$BUILD/meson-logs/testlog.json"
}

# Where RETRY is set (continuous integration): what failed runs once more, by itself; what then
# passes is named.
run_again() {
    bad='FAIL\|TIMEOUT\|ERROR\|INTERRUPT\|UNEXPECTEDPASS'
    names=$(grep "\"result\": \"\($bad\)\"" "$BUILD/meson-logs/testlog.json" |
        test_name)
    status=0
    # shellcheck disable=SC2086
    meson test -C "$BUILD" --no-rebuild --print-errorlogs --num-processes 1 "$@" $names || status=$?
    still=$(log_count "$bad")
    passed=$((passed + failed - still))
    failed=$still
    for name in $names; do
        grep "$name\"" "$BUILD/meson-logs/testlog.json" | grep -q '"result": "OK"' &&
            echo "unsteady: $name: failed beside others, passed by itself"
    done
    return 0
}

# Suite guest takes minutes in an emulated machine, so it runs where it is asked for.
with_guests() {
    case " $* " in *guest* | *' vm '* | *' vm/'*) return 0 ;; esac
    return 1
}

# Some tests wait, most of the time, so two more than there are cores. The slow stages of continuous
# integration run beside each other as it is.
slots() {
    [ -n "${GYRE_TEST_SLOW:-}" ] || echo "--num-processes $(($(nproc) + 2))"
}

# The tests below a folder of tests/, or the one that a file holds: `unit/base`, `tests/link/tcp.c`.
# A test's name is its file's path below tests/ without its ending; other words stay as they are.
tests_of() {
    word=${1#tests/}
    case $1 in tests/*.c | tests/*.sh) word=${word%.*} ;; esac
    if [ -d "tests/$word" ]; then
        meson test -C "$BUILD" --list 2>/dev/null | sed 's|.* / ||' | grep "^$word/" || fail "no test below tests/$word"
    else
        echo "$word"
    fi
}

run_tests() {
    # shellcheck disable=SC2086 # the names are words
    build ${TARGETS:-}
    for word; do
        shift
        # shellcheck disable=SC2046 # the names are words
        case $word in */*) set -- "$@" $(tests_of "$word") ;; *) set -- "$@" "$word" ;; esac
    done
    status=0
    left_out=
    [ $# -gt 0 ] || left_out="left out: suite guest, minutes in an emulated machine: ./do test --suite guest"
    with_guests "$@" || set -- "$@" --no-suite guest
    rm -f "$BUILD/meson-logs/testlog.json"
    # shellcheck disable=SC2046 # the words are words
    meson test -C "$BUILD" --no-rebuild --print-errorlogs $(slots) "$@" || status=$?
    [ -f "$BUILD/meson-logs/testlog.json" ] || fail "no test was run"
    skips=$(list_skips)
    passed=$(log_count 'OK\|EXPECTEDFAIL')
    failed=$(log_count 'FAIL\|TIMEOUT\|ERROR\|INTERRUPT\|UNEXPECTEDPASS')
    skipped=$(printf '%s' "$skips" | grep -c . || true)
    [ "$failed" = 0 ] || [ -z "${RETRY:-}" ] || run_again "$@"
    echo
    [ -z "$skips" ] || printf '%s\n\n' "$skips"
    [ -z "$left_out" ] || printf '%s\n\n' "$left_out"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] || status=1
    exit "$status"
}

format() {
    provide format
    git ls-files -z '*.c' '*.h' '*.cu' '*.cpp' | xargs -0 clang-format -i
}

clean() {
    rm -rf "$BUILD" build build-*
}

word=${1-}
[ $# = 0 ] || shift
case $word in
bench) bench "$@" ;;
compare) compare "$@" ;;
compare_training) compare_training "$@" ;;
test) run_tests "$@" ;;
build) build "$@" ;;
check) provide check && tests/check_tree.sh "$@" ;;
format) format ;;
install) build && meson install -C "$BUILD" "$@" ;;
packages) provide "${1-build}" ;;
ci) exec .ci/run "$@" ;;
clean) clean ;;
'' | help | -h | --help) usage ;;
*)
    refuse "unknown word" "$word" bench compare compare_training test build check format install packages ci clean
    ;;
esac
