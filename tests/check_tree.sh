#!/bin/sh
# Checks of the tree itself, which no compiler makes. Each word is one check; without words all are made.
#
#   includes  rooms include only the rooms below them
#   headers   every header compiles alone, the public ones as strict C17
#   cxx       every public header compiles alone as C++
#   format    clang-format would change nothing
#   gpu       tests for a GPU are the same to meson, make and tests/gpu/run, and ask for nothing that only the stand-in has
#
# Prints one line per offence and exits with 1 if there was any; with 77 if a tool is missing.
set -u
cd "$(dirname "$0")/.." || exit 1
offences=0

offend() {
    echo "$*"
    offences=$((offences + 1))
}

files() { # shell patterns: tracked files, and new ones that git does not ignore
    git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while IFS= read -r file; do
        [ ! -f "$file" ] || echo "$file"
    done
}

# --- includes ---------------------------------------------------------------------------------------------------------

# What a file of this folder may include: shell patterns, the first that fits the folder counts.
#
#     base ← device ← transport ← collectives ← ddp ← model ← cli
#     base ← sampler ← model          transport ← launch ← cli
allowed() {
    schedules='collectives/schedule*|collectives/check*|collectives/play*|collectives/print*|collectives/provenance*|collectives/layout*|collectives/choose*|collectives/cost*|collectives/fit*|collectives/preference*|collectives/tuning*'
    case $1 in
    include/*) echo '' ;;
    src/base/*) echo 'base/*' ;;
    src/device/*) echo 'base/*|device/*' ;;
    src/transport/*) echo 'base/*|device/*|transport/*' ;;
    src/collectives/algorithms/* | src/collectives/schedule* | src/collectives/check* | src/collectives/play* | \
        src/collectives/print* | src/collectives/provenance* | src/collectives/layout* | \
        src/collectives/choose* | src/collectives/cost* | src/collectives/fit* | src/collectives/preference* | src/collectives/tuning*) echo "base/*|collectives/algorithms/*|$schedules" ;;
    src/collectives/kernels/*) echo 'base/*|device/*|collectives/kernels/*' ;;
    src/collectives/bind* | src/collectives/engine*) echo 'base/*|device/*|!transport/drivers/*|transport/*|!collectives/algorithms/*|collectives/*' ;;
    src/collectives/*) echo 'base/*|device/*|!transport/drivers/*|transport/*|collectives/*' ;;
    src/ddp/*) echo 'base/*|device/*|ddp/*' ;;
    src/sampler/*) echo 'base/*|sampler/*' ;;
    src/model/report*) echo 'base/*|model/report*' ;;
    src/model/*) echo 'base/*|device/*|ddp/*|sampler/*|model/*' ;;
    src/launch/*) echo 'base/*|transport/job/job.h|transport/join/join.h|transport/net/handshake.h|launch/*' ;;
    src/cli/doctor/doctor.c | src/cli/doctor/try.c) echo 'base/*|device/device.h|transport/link/cuda_ipc.h|cli/*' ;;
    src/cli/show/knobs.c) echo 'base/*|collectives/kernels/reduce.h|cli/*' ;;
    src/cli/show/choices_settle.c) echo "base/*|$schedules|collectives/kernels/reduce.h|collectives/plan/shape.h|transport/stream/signature.h|cli/*" ;;
    src/cli/*) echo "base/*|launch/*|cli/*|$schedules|model/*|data/safetensors/safetensors.h|data/json_out.h" ;;
    *) echo '*' ;;
    esac
}

fits() { # path, patterns joined by '|'; a pattern after '!' forbids
    rest=$2
    while [ -n "$rest" ]; do
        pattern=${rest%%|*}
        case $rest in *'|'*) rest=${rest#*|} ;; *) rest= ;; esac
        # shellcheck disable=SC2254 # the pattern is one
        case $pattern in
        '!'*) case $1 in ${pattern#!}) return 1 ;; esac ;;
        *) case $1 in $pattern) return 0 ;; esac ;;
        esac
    done
    return 1
}

check_includes() {
    edges=$(mktemp)
    files 'src/*.[ch]' 'src/*.cu' 'include/*.h' | tr '\n' '\0' |
        xargs -0 grep -Hn '^ *# *include *"' | sed 's/^\([^:]*\):\([0-9]*\):.*"\(.*\)".*/\1 \2 \3/' >"$edges"
    while read -r file line path; do
        fits "$path" "$(allowed "$file")" || offend "$file:$line: may not include \"$path\""
        [ -f "src/$path" ] || offend "$file:$line: \"$path\" is not a path from src/"
    done <"$edges"
    echo "includes: $(wc -l <"$edges") edges looked at"
    rm -f "$edges"
}

# --- headers ----------------------------------------------------------------------------------------------------------

compile_alone() { # compiler and flags, then -- and the headers
    command=
    messages=$(mktemp)
    while [ "$1" != -- ]; do
        command="$command $1"
        shift
    done
    shift
    for header; do
        # shellcheck disable=SC2086 # the flags are words
        printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' "$PWD/$header" "$PWD/$header" |
            $command -Wall -Wextra -Wno-unused-parameter -Werror -fsyntax-only -Iinclude -Isrc - 2>"$messages" ||
            offend "$header: does not compile alone: $(grep -m 1 error "$messages")"
    done
    rm -f "$messages"
}

# The kernels' inner headers are templates, each compiled many times with other macros.
# shellcheck disable=SC2046 # no header has a blank in its name
check_headers() {
    compile_alone "${CC:-cc}" -x c -std=c17 -pedantic -- $(files 'include/*.h')
    compile_alone "${CC:-cc}" -x c -std=gnu17 -D_GNU_SOURCE -Wno-unused-function -Itests/fakecuda/include -- \
        $(files 'src/*.h' ':!src/collectives/kernels/*_*.h')
    echo "headers: $(files 'include/*.h' 'src/*.h' | wc -l) compiled alone"
}

# shellcheck disable=SC2046
check_cxx() {
    need "${CXX:-c++}"
    compile_alone "${CXX:-c++}" -x c++ -std=c++11 -pedantic -- $(files 'include/*.h')
    echo "cxx: $(files 'include/*.h' | wc -l) public headers are C++ too"
}

# --- format -----------------------------------------------------------------------------------------------------------

need() {
    command -v "$1" >/dev/null || {
        echo "$1 is not installed"
        exit 77
    }
}

check_format() {
    need clang-format
    list=$(mktemp)
    files '*.c' '*.h' '*.cu' '*.cpp' >"$list"
    while IFS= read -r file; do
        clang-format "$file" | cmp -s - "$file" || offend "$file: not formatted; run ./do format"
    done <"$list"
    echo "format: $(wc -l <"$list") files looked at"
    rm -f "$list"
}

# --- gpu --------------------------------------------------------------------------------------------------------------

# Ordinary machines link none of them.
check_gpu() {
    list=$(mktemp)
    sed -n 's/^SUITES *= *//p' tests/gpu/Makefile | tr ' ' '\n' >"$list"
    while IFS= read -r suite; do
        grep -q "^    '${suite#gpu_}': " tests/meson.build || offend "tests/meson.build: gpu_table lacks ${suite#gpu_}"
        grep -q "tests/${suite}[ \\]" tests/gpu/run || offend "tests/gpu/run: does not build $suite"
        grep -q "[ /]${suite#gpu_proc_}[ ;\"]\|/$suite\"" tests/gpu/run || offend "tests/gpu/run: does not run $suite"
        rigs=$(grep -o "\(${suite#gpu_}\|${suite#gpu_}_rig\|[a-z_]*_rig\)[.]h" "tests/${suite#gpu_}.c" | sed 's/h$/[ch]/; s/^/tests\//')
        for name in $(cat "tests/${suite#gpu_}.c" $rigs | grep -o 'fakecuda_[a-z_]*(' | sort -u); do
            grep -q "[ *]$name" tests/gpu/fakecuda_absent.c || offend "tests/gpu/fakecuda_absent.c: lacks ${name%(}(), which $suite asks for"
        done
    done <"$list"
    echo "gpu: $(wc -l <"$list") suites looked at"
    rm -f "$list"
}

[ $# -gt 0 ] || set -- includes headers cxx format gpu
[ -n "$(files 'src/*.h')" ] || { # nothing to look at would look like nothing wrong
    echo "git lists no files here: $(git ls-files 2>&1 | head -n 1)"
    exit 77
}
for word; do
    case $word in
    includes | headers | cxx | format | gpu) "check_$word" ;;
    *)
        echo "unknown check '$word'; there are: includes headers cxx format gpu" >&2
        exit 2
        ;;
    esac
done
[ "$offences" = 0 ]
