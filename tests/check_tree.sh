#!/bin/sh
# Checks of the tree itself, which no compiler makes. Each word is one check; without words all are
# made.
#
#   includes  rooms include only the rooms below them
#   circles   no files need each other in a circle, by includes, calls or callbacks
#   names     a struct tag and a function's name mean one thing
#   folders   a folder has 3 to 25 files
#   mirror    a source has its test, or names it
#   columns   no line of a source, script, meson.build or document is longer than 100 columns
#   docs      what documents name is there, and the picture of the rooms is as they are
#   selftest  each of these five finds what is planted
#   headers   every header compiles alone, the public ones as strict C17; in haste only those that
#             no source begins with, for a build has compiled the others so
#   cxx       every public header compiles alone as C++
#   format    clang-format would change nothing
#   gpu       tests for a GPU are the same to meson, make and tests/gpu/run, and ask for nothing
#             that only the stand-in has; where nvcc is, no kernel of the model spills registers
#
# Prints one line per offence and exits with 1 if there was any; with 77 if a tool is missing.
set -u
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/tree/files.sh
. tests/tree/files.sh
# shellcheck source=tests/haste.sh
. tests/haste.sh

# --- includes -------------------------------------------------------------------------------------

# The rooms, lowest last: a folder, and the folders whose headers its files may include beside its
# own. A word that ends in .h is one header. A line that begins with a blank goes on with the row
# above. Each folder of src has a row.
#
#     base ← device ← transport ← collectives ← ddp ← model, train ← cli
#     base ← sampler ← data ← checkpoint, model          transport/join ← launch ← cli
rooms() {
    cat <<'END'
cli                      base knobs cli/check cli/doctor cli/inspect cli/plan cli/predict cli/show
                         cli/trace cli/train cli/tune data/files/cut_short.h launch
                         transport/job/job.h transport/link/words.h
cli/check                base cli cli/show/page collectives/algorithms/table.h
                         collectives/comm/planned.h collectives/prove collectives/schedule
                         data/files
cli/doctor               base base/machine cli cli/doctor/checks data/files device/device.h
                         model/kernels/dense.h transport/link/table.h transport/link/tcp/uring.h
                         transport/net cli/doctor/hosts
cli/doctor/checks        base base/machine knobs cli/doctor cli/show/knob_check.h
                         collectives/choose/preference.h collectives/kernels/reduce.h
                         device/device.h model/kernels/ops.h model/processor/processor.h
                         transport/job/job.h transport/net
cli/doctor/hosts         base knobs cli/doctor cli/doctor/checks launch transport/job
                         transport/join/place.h transport/net
cli/inspect              base cli checkpoint data data/files data/safetensors
cli/plan                 base cli collectives/algorithms/table.h collectives/choose
                         collectives/engine collectives/schedule collectives/rehearsal
                         transport/link transport/link/sim transport/stream/frame.h
cli/predict              base cli data/files trained
cli/show                 base knobs cli cli/show/page collectives/algorithms/table.h
                         collectives/choose collectives/prove collectives/schedule
                         collectives/kernels/reduce.h collectives/plan/shape.h data/files
                         transport/link/words.h
cli/show/page            base collectives/prove collectives/schedule
cli/why                  base cli transport/recorder transport/stream/signature.h
cli/trace                base cli cli/show/page cli/trace/reading data/files
                         transport/stream/signature.h
cli/trace/reading        base cli data/files transport/recorder transport/stream/signature.h
cli/train                base base/machine cli launch report train
cli/tune                 base base/disk base/machine cli collectives/algorithms/table.h
                         collectives/choose collectives/schedule data/files
launch                   base base/disk base/machine launch/children transport/job/job.h
                         transport/join/join.h transport/net
launch/children          base base/machine transport/net transport/recorder
train                    base checkpoint checkpoint/run data device/device.h model/learning
                         model/network model/nets report sampler base/machine ddp/agreement.h
                         ddp/engine.h trained
trained                  base checkpoint data model/learning model/network model/nets
report                   base base/disk
checkpoint/run           base checkpoint ddp/agreement.h ddp/engine.h model/network sampler/order.h
checkpoint               base base/disk data data/files data/safetensors
model/network            base data data/safetensors ddp/engine.h model/learning model/nets
                         model/processor/repeat.h
model/nets               base model/processor model/layers
model/learning           base model/processor model/layers sampler
model/layers             base model/processor
model/processor            base device/device.h model/kernels
model/kernels            base
data                     base base/disk data/files data/safetensors data/sources sampler
data/sources             base data data/builtin data/files data/safetensors
data/builtin             base data sampler
data/safetensors         base data/files
data/files               base base/disk
sampler                  base
ddp                      base collectives/staging/stream_wait.h device model/processor
collectives/calls        base collectives/comm collectives/group collectives/lifecycle
                         collectives/messages collectives/plan collectives/kernels
collectives/group        base collectives/lifecycle collectives/comm collectives/messages
                         collectives/plan/request.h
                         collectives/kernels transport/stream/signature.h
collectives/lifecycle    base base/machine knobs collectives/comm collectives/messages
                         collectives/schedule transport/net
collectives/comm         base base/machine collectives/plan/shape.h collectives/plan/request.h
                         collectives/messages
                         collectives/mapped collectives/mapped/device collectives/engine
                         collectives/staging
                         collectives/kernels transport/link/links.h transport/stream/signature.h
collectives/messages     base base/machine collectives/engine collectives/staging
                         collectives/mapped/device transport/domain transport/link/links.h
                         transport/recorder transport/stream device
collectives/mapped       base base/machine collectives/mapped/device collectives/staging
                         collectives/plan collectives/kernels collectives/choose/limits.h
                         transport/domain
collectives/mapped/device base collectives/mapped collectives/staging collectives/plan
                         collectives/kernels transport/domain
collectives/engine       base collectives/mapped collectives/mapped/device collectives/staging
                         collectives/plan collectives/schedule transport/domain
                         transport/link/links.h
collectives/staging      base collectives/plan collectives/kernels device transport/recorder
collectives/plan         base base/machine collectives/kernels collectives/choose
                         collectives/schedule transport/stream/signature.h device
collectives/choose       base base/disk collectives/algorithms/table.h collectives/schedule
                         collectives/rehearsal
collectives/rehearsal     base collectives/choose collectives/schedule
collectives/prove        base collectives/algorithms/table.h collectives/schedule
collectives/algorithms   base collectives/schedule
collectives/schedule     base
collectives/kernels      base device
transport/domain         base base/machine device transport/recorder transport/watch
                         transport/join transport/link
                         transport/members transport/stream transport/memory transport/job
                         transport/net transport/seal
transport/watch          base base/machine device transport/watch/detect transport/job/job.h
                         transport/join/joined.h transport/members transport/memory
                         transport/net transport/recorder transport/seal
                         transport/stream/signature.h
transport/watch/detect   base transport/join/joined.h transport/stream/signature.h
transport/members        base base/machine transport/job/job.h transport/join transport/net
transport/join           base base/disk base/machine transport/job transport/memory transport/net
transport/link           base device transport/stream transport/memory transport/net/crypto.h
                         transport/seal
transport/link/sim       base transport/link transport/stream
transport/link/tcp       base transport/link transport/stream transport/net transport/seal
transport/link/verbs     base base/machine transport/link transport/stream transport/memory
transport/stream         base transport/memory transport/seal
transport/seal           base transport/net
transport/recorder       base base/disk device
transport/memory         base device
transport/job            base base/disk transport/net
transport/net            base
knobs                    base
device                   base base/disk base/machine
device/cuda              base base/disk base/machine device
base/machine             base
base/disk                base
base
include
END
}

# Every include of another file of src, against the table; and every folder against it.
check_includes() {
    edges=$(mktemp)
    files 'src/*.[ch]' 'src/*.cu' 'src/*.inc' 'include/*.h' | tr '\n' '\0' |
        xargs -0 grep -Hn '^ *# *include *"' |
        sed 's/^\([^:]*\):\([0-9]*\):.*"\(.*\)".*/\1 \2 \3/' >"$edges"
    rooms | awk '
        function folder_of(path) { sub("/[^/]*$", "", path); return path }
        NR == FNR {
            if (/^[^ ]/) row[room = $1] = 1
            for (i = 1; i <= NF; i++) may[room, $i] = 1
            next
        }
        {
            room = folder_of($1)
            sub("^src/", "", room)
            if (!(room in row) && !lacks[room]++)
                print "tests/check_tree.sh: the table of rooms lacks " room
            else if (!((room, folder_of($3)) in may) && !((room, $3) in may))
                print $1 ":" $2 ": may not include \"" $3 "\""
        }' - "$edges" >"$edges.bad"
    while read -r file line path; do
        [ -f "src/$path" ] || echo "$file:$line: \"$path\" is not a path from src/"
    done <"$edges" >>"$edges.bad"
    while IFS= read -r line; do offend "$line"; done <"$edges.bad"
    echo "includes: $(wc -l <"$edges") edges looked at"
    rm -f "$edges" "$edges.bad"
}

# --- headers --------------------------------------------------------------------------------------

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
        printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' \
            "$PWD/$header" "$PWD/$header" |
            $command -Wall -Wextra -Wno-unused-parameter -Werror -fsyntax-only \
                -Iinclude -Isrc - 2>"$messages" ||
            offend "$header: does not compile alone: $(grep -m 1 error "$messages")"
    done
    rm -f "$messages"
}

# Headers of src that stand before all else in a source of src.
begun_with() {
    files 'src/*.c' | xargs -d '\n' awk '
        /^#/ { if (sub(/^#include "/, "src/")) { sub(/".*/, ""); print } nextfile }' | sort -u
}

# Prints the headers of src to compile. The kernels' inner headers are templates, each compiled many
# times with other macros.
inner_headers() {
    proven=$(mktemp)
    [ -z "$haste" ] || begun_with >"$proven"
    files 'src/*.h' ':!src/collectives/kernels/*_*.h' | sort | comm -23 - "$proven"
    rm -f "$proven"
}

# shellcheck disable=SC2046 # no header has a blank in its name
check_headers() {
    compile_alone "${CC:-cc}" -x c -std=c17 -pedantic -- $(files 'include/*.h')
    set -- $(inner_headers)
    compile_alone "${CC:-cc}" -x c -std=gnu17 -D_GNU_SOURCE -Wno-unused-function \
        -Itests/stand_in/fakecuda/include -- "$@"
    echo "headers: $# of src compiled alone, and the public ones"
}

# shellcheck disable=SC2046
check_cxx() {
    need "${CXX:-c++}"
    compile_alone "${CXX:-c++}" -x c++ -std=c++11 -pedantic -- $(files 'include/*.h')
    echo "cxx: $(files 'include/*.h' | wc -l) public headers are C++ too"
}

# --- format ---------------------------------------------------------------------------------------

need() {
    command -v "$1" >/dev/null || {
        echo "$1 is not installed"
        exit 77
    }
}

# Many files a process: to start one takes longer than to look at a file.
check_format() {
    need clang-format
    list=$(mktemp)
    files '*.c' '*.h' '*.cu' '*.cpp' >"$list"
    xargs -d '\n' -n 64 -P 0 clang-format --dry-run -Werror <"$list" >"$list.said" 2>&1
    status=$?
    sed -n 's/^\([^:]*\):[0-9].*\[-Wclang-format-violations\]$/\1/p' "$list.said" |
        sort -u >"$list.found"
    while IFS= read -r file; do
        offend "$file: not formatted; run ./do format"
    done <"$list.found"
    [ $status = 0 ] || [ -s "$list.found" ] || offend "clang-format: $(tail -n 3 "$list.said")"
    echo "format: $(wc -l <"$list") files looked at"
    rm -f "$list" "$list.said" "$list.found"
}

# --- gpu ------------------------------------------------------------------------------------------

# Ordinary machines link none of them.
check_gpu() {
    list=$(mktemp)
    sed -n '/^SUITES/,/[^\\]$/p' tests/gpu/Makefile | sed 's/^SUITES *= *//; s/\\$//' |
        tr -s ' ' '\n' | grep . >"$list"
    names="/^export SUITES/,/'\$/"
    while IFS= read -r suite; do
        program=$(echo "$suite" | tr / _)
        grep -q "^    'program/$suite': " tests/meson.build ||
            offend "tests/meson.build: gpu_table lacks $suite"
        sed -n "${names}p" tests/gpu/run | grep -qw "$program" ||
            offend "tests/gpu/run: does not build $program"
        sed "${names}d" tests/gpu/run | grep -q "[ _]$program[ ;\"]" ||
            offend "tests/gpu/run: does not run $program"
        rigs=$(grep -o '#include "\(rig\|program\)/[a-z_/]*[.]h' "tests/program/$suite.c" |
            sed 's/.*"/tests\//; s/h$/[ch]/')
        calls=$(cat "tests/program/$suite.c" $rigs | grep -o 'fakecuda_[a-z_]*(' | sort -u)
        for name in $calls; do
            grep -q "[ *]$name" tests/gpu/fakecuda_absent.c ||
                offend "tests/gpu/fakecuda_absent.c: lacks ${name%(}(), which $suite asks for"
        done
    done <"$list"
    echo "gpu: $(wc -l <"$list") suites looked at"
    rm -f "$list"
    check_spills
}

# Registers that spill go through memory in every thread. The assembler says so for each kernel. In
# haste products and convolutions are looked at, which hold the most.
check_spills() {
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || return 0
    said=$(mktemp)
    kernels='*'
    [ -z "$haste" ] || kernels='cuda_[di]*' # dense and images
    for file in $(files "src/model/processor/$kernels.cu"); do
        "$nvcc" -cubin "$file" -o /dev/null -arch=sm_90 -std=c++17 -O3 -fmad=false -Iinclude -Isrc \
            -Xptxas -v >"$said" 2>&1 || offend "$file: nvcc does not compile it for sm_90"
        grep -q 'bytes spill stores' "$said" || offend "$file: nvcc says nothing of its kernels"
        ! grep -q '[1-9][0-9]* bytes spill stores' "$said" ||
            offend "$file: $(grep -c '[1-9][0-9]* bytes spill stores' "$said") kernels spill"
    done
    rm -f "$said"
}

all='includes circles names folders mirror columns headers cxx format gpu docs'
# shellcheck disable=SC2086 # the checks are words
[ $# -gt 0 ] || set -- $all
[ -n "$(files 'src/*.h')" ] || { # nothing to look at would look like nothing wrong
    echo "git lists no files here: $(git ls-files 2>&1 | head -n 1)"
    exit 77
}
for word; do
    case $word in
    includes | headers | cxx | format | gpu) "check_$word" ;;
    docs) docs/check || offences=$((offences + 1)) ;;
    columns) tests/tree/columns || offences=$((offences + 1)) ;;
    circles | names | folders | mirror | selftest)
        need perl
        "tests/tree/$word" || offences=$((offences + 1))
        ;;
    *)
        echo "unknown check '$word'; there are: $all selftest" >&2
        exit 2
        ;;
    esac
done
[ "$offences" = 0 ]
