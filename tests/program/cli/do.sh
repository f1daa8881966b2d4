#!/bin/sh
# The `do` script against a machine made of stubs: an empty PATH but for tools that note how they
# were called. No package is installed and nothing is compiled; what is tested is which commands are
# run, and what is said when they cannot be.
set -u
unset BUILD TARGETS GYRE_TEST_ALL GYRE_TEST_SLOW MALLOC_PERTURB_
source_root=$1
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failures=0
mkdir "$room/bin" "$room/tree" "$room/tree/tests"
cp "$source_root/do" "$room/tree/do"
cp "$source_root/tests/haste.sh" "$room/tree/tests/haste.sh"

for tool in sh cat dirname mktemp rm tail sed grep test find basename sort tr printf git env id \
    mkdir cp mv chmod awk date ls; do
    path=$(command -v "$tool") && [ "${path#/}" != "$path" ] && ln -s "$path" "$room/bin/$tool"
done

stub() { # name, then its body; never through a link to the machine's own tool
    rm -f "$room/bin/$1"
    printf '#!/bin/sh\n%s\n' "$2" >"$room/bin/$1"
    chmod +x "$room/bin/$1"
}

run_do() { # words; output to $room/out, exit code to $code
    (cd "$room/tree" && PATH=$room/bin ROOM=$room ./do "$@") >"$room/out" 2>&1 </dev/null
    code=$?
}

expect() { # what, then a command that must succeed
    what=$1
    shift
    if ! "$@" >/dev/null; then
        echo "FAILED: $what"
        sed 's/^/    /' "$room/out"
        failures=$((failures + 1))
    fi
}

noted() { grep -q "$1" "$room/calls"; }
not_noted() { ! noted "$1"; }
said() { grep -q "$1" "$room/out"; }
not_said() { ! said "$1"; }
last_line_is() { [ "$(tail -n 1 "$room/out")" = "$1" ]; }

all_tools_there() {
    : >"$room/calls"
    for tool in cc clang gcovr clang-format g++; do stub "$tool" ':'; done
    stub pkg-config 'exit 0'
    stub ninja '
echo "ninja $*" >>"$ROOM/calls"
case $* in
*"-t targets all"*)
    echo "gyre: c_LINKER"
    echo "bench/link: c_LINKER"
    echo "bench/all_reduce: c_LINKER"
    echo "bench/x.o: c_COMPILER"
    ;;
*build.ninja) ;;
*" -n"*) [ -e "$ROOM/built" ] || echo "[7/7] Linking target gyre" ;;
*) cat "$ROOM/ninja_says" 2>/dev/null; [ ! -e "$ROOM/ninja_fails" ] ;;
esac'
    stub meson '
echo "meson $*" >>"$ROOM/calls"
case $1 in
setup) mkdir -p build && : >build/build.ninja ;;
test)
    echo "memory is filled with ${MALLOC_PERTURB_-what meson says}" >>"$ROOM/calls"
    mkdir -p build/meson-logs
    case $* in
    *--wrapper*) cp "$ROOM/testlog" build/meson-logs/testlog-wrapper.json ;;
    *) cp "$ROOM/testlog" build/meson-logs/testlog.json ;;
    esac
    exit "$(cat "$ROOM/test_status")"
    ;;
esac'
    rm -rf "$room/tree/build"
}

# --- words ---

all_tools_there
run_do
expect "alone it lists its words" said 'bench.*measure'
expect "and succeeds" [ "$code" = 0 ]
run_do bnech
expect "an unknown word is named" \
    said "unknown word 'bnech'; there are: bench .* clean (did you mean \"bench\"?)$"
expect "with exit code 2" [ "$code" = 2 ]
run_do tests
expect "and the nearest to it" said '(did you mean "test"?)$'
run_do xyzzy
expect "where one is near" said 'clean$'

# --- nothing missing ---

stub apt-get 'echo "apt-get $*" >>"$ROOM/calls"'
[ -e /usr/include/stdio.h ] || {
    echo "no C headers here, so packages are always missing"
    exit 77
}
run_do build
expect "where all is there, apt is not asked" not_noted apt-get
expect "the first build configures" noted 'meson setup --buildtype release build'
expect "and builds" noted '^ninja -C build$'
expect "each stage has a line with the seconds since the start" \
    said '^ *[0-9]* s  configuring build$'
expect "which says how much there is to do" said '^ *[0-9]* s  building everything: 7 steps$'
first='build/gyre train --data table.csv --scale --validation 0.2 --ranks 2 --save run1'
expect "it ends with the first command of the README" last_line_is "$first"
expect "which is there" grep -qxF "$first" "$source_root/README.md"
: >"$room/calls"
run_do build
expect "the second does not configure" not_noted 'meson setup'
printf '%s\n' 'step 1 7 0.1 Compiling a.c' 'step 3 7 12.5 Compiling b.c' 'FAILED: b.o' \
    'step 4 7 13.0 Compiling c.c' >"$room/ninja_says"
: >"$room/ninja_fails"
run_do build
expect "every ten seconds it tells how far it is" said '^ *[0-9]* s    3 of 7 steps$'
expect "and not every step" [ "$(grep -c 'of 7 steps' "$room/out")" = 1 ]
expect "what the compiler says is passed on" said '^FAILED: b.o$'
expect "and the steps are not" not_said '^step'
expect "a failed build is the end" [ "$code" = 1 ]
rm "$room/ninja_fails" "$room/ninja_says"
: >"$room/built"
run_do build
expect "where all is built it says nothing" [ ! -s "$room/out" ]
rm "$room/built"

# --- CUDA ---

all_tools_there
stub nvcc ':'
run_do bench link
if ls /dev/nvidia[0-9]* /dev/dxg 2>/dev/null | grep -q .; then
    expect "a first bench where a GPU is has CUDA" not_noted 'cuda=disabled'
else
    expect "a first bench without a GPU leaves CUDA out" \
        noted 'meson setup .*-Dcuda=disabled build$'
    expect "and says so" said 'CUDA is left out of this bench'
    : >"$room/calls"
    run_do bench link
    expect "a second bench changes nothing" not_noted meson
    run_do build
    expect "a build puts CUDA back" noted 'meson configure build -Dcuda=auto'
    : >"$room/calls"
    run_do build
    expect "once" not_noted cuda
    rm -rf "$room/tree/build"
    run_do bench link
    : >"$room/calls"
    run_do install --prefix "$room/prefix"
    expect "and so does an installation" noted 'meson configure build -Dcuda=auto'
fi
rm "$room/bin/nvcc"

# --- packages missing ---

all_tools_there
stub pkg-config 'test -e "$ROOM/installed"'
stub id 'echo 0'
stub apt-get '
echo "apt-get $*" >>"$ROOM/calls"
[ "$1" = update ] && : >"$ROOM/updated"
[ "$1" = update ] || [ -e "$ROOM/updated" ] || { echo "E: Unable to locate package"; exit 100; }
[ "$1" = update ] || : >"$ROOM/installed"'
run_do build
wanted='libssl-dev liburing-dev zlib1g-dev libibverbs-dev libcmocka-dev'
expect "root installs what is missing" noted "apt-get install -y .*$wanted"
expect "and nothing else" not_noted 'apt-get install.*ninja-build'
expect "empty package lists are fetched" noted 'apt-get update'
expect "then it builds" noted 'ninja -C build'

rm -f "$room/installed"
stub apt-get 'echo "E: no network"; exit 100'
run_do build
expect "what apt says is shown" said 'E: no network'
expect "and it ends" [ "$code" = 1 ]

stub id 'echo 1000'
: >"$room/calls"
run_do build
expect "without root it prints the one line to run" \
    said 'sudo apt-get update && sudo apt-get install -y libssl-dev'
expect "and builds nothing" not_noted ninja
stub sudo 'echo "sudo $*" >>"$ROOM/calls"; [ "$1" = -n ] && exit 0; : >"$ROOM/installed"'
run_do build
expect "sudo without a question is used" \
    noted 'sudo env DEBIAN_FRONTEND=noninteractive apt-get install'
rm -f "$room/bin/sudo" "$room/bin/apt-get" "$room/installed"
run_do build
expect "without apt the packages are named" said 'please install.*libssl-dev'

# --- the summary of the tests ---

all_tools_there
log() { # test, result, output; a line as meson writes it
    printf '{"name": "%s", "stdout": "%s", "result": "%s", "starttime": 1}\n' "$1" "$3" "$2"
}
{
    log 'gyre:unit / test_a' OK \
        '[  SKIPPED ] inner_case\n[  SKIPPED ] 1 test(s), listed below:\n'
    log 'gyre:unit / test_b' OK 'all \"well\"\n'
    log 'gyre:proc / proc_c' SKIP 'trying\nno namespaces: \"EPERM\"\n'
    log 'gyre:proc / proc_d' TIMEOUT ''
} >"$room/testlog"
echo 1 >"$room/test_status"
run_do test
expect "results are counted" last_line_is '2 passed, 1 failed, 2 skipped'
expect "a skip tells its reason" said '^skipped: proc_c: no namespaces: "EPERM"$'
expect "a skipped case is named" said '^skipped: test_a: inner_case$'
expect "a failure is the exit code" [ "$code" = 1 ]
expect "what takes minutes is left out" noted 'meson test .*--no-suite guest'
expect "suite torch is left out" noted 'meson test .*--no-suite torch'
expect "so is a second build of all" noted 'meson test .*--no-suite source'
expect "they are named" said '^left out: suite guest'
expect "torch too" said '^left out: suite torch'
expect "and how to run them" said ': ./do test --suite source$'
sed -i '/TIMEOUT/d' "$room/testlog"
echo 0 >"$room/test_status"
run_do test --suite unit
expect "flags go to meson" noted 'meson test .*--suite unit'
expect "success is the exit code" [ "$code" = 0 ]
run_do test --wrapper nice
expect "what ran in a wrapper is counted" last_line_is '2 passed, 0 failed, 2 skipped'
expect "ranks are spared filled memory" noted 'memory is filled with 0'
: >"$room/calls"
run_do test --all --suite unit
expect "but not where all is asked for" noted 'memory is filled with what meson says'
: >"$room/calls"
run_do test --suite guest
expect "suite guest runs where it is asked for" not_noted 'no-suite guest'
expect "and alone" noted 'meson test .*--suite guest .*--no-suite source'

# --- benches ---

mkdir -p "$room/tree/build/bench"
for name in all_reduce link; do
    printf '#!/bin/sh\necho "%s $*"\n' "$name" >"$room/tree/build/bench/$name"
    chmod +x "$room/tree/build/bench/$name"
done
: >"$room/calls"
run_do bench
expect "a bench is built alone" noted '^ninja -C build bench/all_reduce$'
expect "and nothing else is" not_noted '^ninja -C build$'
expect "the bench has sizes and ranks of its own" \
    last_line_is 'all_reduce --ranks 2 -b 8 -e 64M -f 2'
run_do bench --ranks 4 -b 1K
expect "or the given ones" last_line_is 'all_reduce --ranks 4 -b 1K'
run_do bench lnik
expect "an unknown bench is answered with those there are" \
    said "no bench 'lnik'; there are: all_reduce link (did you mean \"link\"?)$"
expect "with exit code 2" [ "$code" = 2 ]
run_do bench allreduc
expect "two edits are near" said '(did you mean "all_reduce"?)$'

mkdir "$room/tree/bench"
stub ../tree/bench/compare 'echo "compare with $BUILD: $*"'
run_do compare --rounds 1
expect "the comparison takes its flags and the build folder" \
    last_line_is 'compare with build: --rounds 1'

# --- installing ---

all_tools_there
rm -f "$room/built"
stub pkg-config 'case $* in *--variable=prefix*) cat "$ROOM/prefix" ;; esac'
stub ldconfig 'echo "ldconfig" >>"$ROOM/calls"'
echo "$room/opt" >"$room/prefix"
run_do install --prefix "$room/opt"
expect "a prefix is told to meson" noted "^meson configure build -Dprefix=$room/opt$"
expect "what is installed is built" noted '^ninja -C build library_and_tool$'
expect "and no test is" not_noted '^ninja -C build$'
expect "then it is installed" noted '^meson install -C build --no-rebuild'
expect "and the folder is named" said "installing below $room/opt$"
expect "the loader does not look into a folder of one's own" not_noted ldconfig
expect "how a shell finds the tool is told" said "export PATH=$room/opt/bin"
: >"$room/calls"
echo /usr/local >"$room/prefix"
DESTDIR=$room/stage run_do install
expect "DESTDIR leaves the prefix" not_noted '^meson configure'
expect "and is where files go" said "installing below $room/stage/usr/local$"
expect "and the loader of this machine does not care" not_noted ldconfig
run_do install --prefix opt
expect "a relative prefix is refused" said "^./do: --prefix 'opt': give a folder, from / on$"
run_do install --perfix "$room/opt"
expect "a wrong flag is answered with the right one" said '(did you mean "--prefix"?)$'
if [ -w /usr/local ]; then
    : >"$room/calls"
    run_do install
    expect "after /usr/local the loader looks again" noted ldconfig
else
    stub id 'echo 1000'
    stub sudo 'echo "sudo $*" >>"$ROOM/calls"'
    run_do install
    expect "where the prefix is root's, sudo installs" noted '^sudo env DESTDIR= meson install'
    expect "and tells the loader" noted '^sudo env .*ldconfig'
    rm -f "$room/bin/sudo"
    run_do install
    expect "without sudo the other way is named" said 'cannot write /usr/local: .* --prefix'
fi

[ "$failures" = 0 ] && echo "all checks passed"
[ "$failures" = 0 ]
