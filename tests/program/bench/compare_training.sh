#!/bin/sh
# bench/compare_training against programs that say what the test wants: rates, medians, ratios and
# notes must follow from it. Then once against the real trainer, without PyTorch.
set -u
source_root=$1
build_root=$2
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failures=0
mkdir -p "$room/bin" "$room/build/bench/peers"

stub() { # path below the room, then its body
    printf '#!/bin/sh\n%s\n' "$2" >"$room/$1"
    chmod +x "$room/$1"
}

compare() { # flags; the table goes to $room/out, the exit code to $code
    rm -rf "$room/out" "$room/turns"
    PYTHON=$room/bin/python3 ROOM=$room BUILD=$build \
        "$source_root/bench/compare_training" --out "$room/out" "$@" \
        >"$room/said" 2>"$room/complaints" </dev/null
    code=$?
}

expect() { # what, then a command that must succeed
    what=$1
    shift
    if ! "$@" >/dev/null; then
        echo "FAILED: $what"
        sed 's/^/    /' "$room/said" "$room/complaints"
        failures=$((failures + 1))
    fi
}

said() { grep -qF -- "$1" "$room/said"; }
complained() { grep -qF -- "$1" "$room/complaints"; }
called() { grep -qF -- "$1" "$room/calls"; }
runs_kept() { [ "$(grep -c "$1" "$room/out/compare_training.csv")" = "$2" ]; }

# Round by round 200 steps behind the first epoch take 2, 1 and 0.5 s: 100, 200 and 400 a second.
gyre_stub='
echo "$*" >>"$ROOM/calls"
[ ! -e "$ROOM/broken" ] || { echo "gyre train: no" >&2; exit 3; }
echo >>"$ROOM/turns"
took=$(echo 2.0 1.0 0.5 | cut -d " " -f "$(wc -l <"$ROOM/turns")")
while [ "${1##*/}" != peak ]; do shift; done
printf "%s\n" 20480 19456 >"$2"
[ ! -e "$ROOM/short" ] || echo 20000 >"$2"
while [ "$1" != --metrics ]; do shift; done
last_end=$(awk "BEGIN { print 1000.5 + $took }")
{
    echo "{\"kind\":\"step\",\"time\":$(date +%s.%N),\"step\":1}"
    echo "{\"kind\":\"epoch\",\"time\":1000.5,\"steps\":100,\"seconds\":0.001}"
    echo "{\"kind\":\"step\",\"time\":9999.5,\"step\":2}"
    echo "{\"kind\":\"epoch\",\"time\":1000.7,\"steps\":100,\"seconds\":0.001}"
    echo "{\"kind\":\"epoch\",\"time\":$last_end,\"steps\":100,\"seconds\":0.001}"
} >"$2"'
torch_stub='
[ "$1" != -c ] || { echo 0.0; exit; }
echo "$*" >>"$ROOM/calls"
[ ! -e "$ROOM/torn" ] || { echo "no torch today" >&2; exit 9; }
rate=$(echo 50 10 40 | cut -d " " -f "$(wc -l <"$ROOM/turns")")
[ -z "${SLOW_UNBOUND:-}" ] || case $* in *--bind*) ;; *) rate=1 ;; esac
echo "$rate $(date +%s.%N) 204800 200000"'
stub build/gyre "$gyre_stub"
stub bin/python3 "$torch_stub"
build=$room/build

# --- the table ------------------------------------------------------------------------------------

compare --rounds 3 --ranks 2 --models 13-64-3
expect "a good comparison succeeds" [ "$code" = 0 ]
expect "medians, ratios of neighbours, memory" \
    said '| 13-64-3 | 2 | 200 | 40 | **10.00** | 2.00 … 20.00 | 20.0 | 200.0 | 0.10 | 5.3 % | 0.'
expect "every run is kept" runs_kept '^13-64-3,2,' 6
expect "with its figures" \
    grep -q '^13-64-3,2,Gyre,3,400,0\.[0-9]*,20480,19456$' "$room/out/compare_training.csv"
expect "the model is Gyre's" \
    called '--data random:64000,13,3 --layers 13,64,3 --batch 32 --optimizer adam'
expect "and PyTorch's" \
    called 'torch_train.py --layers 13,64,3 --batch 32 --ranks 2 --steps 300 --optimizer adam'
expect "what is printed is in the file" cmp "$room/said" "$room/out/compare_training.md"
SLOW_UNBOUND=1 compare --rounds 3 --ranks 2 --models 13-64-3
expect "of PyTorch bound and unbound the faster counts" \
    said '| 13-64-3 | 2 | 200 | 40 | **10.00** |'
stub bin/git 'echo 1234567-dirty'
PATH=$room/bin:$PATH compare --publish
expect "--publish refuses what is not committed" [ "$code" = 1 ]
expect "and says so" complained 'compare_training: --publish: the tree has changes that are not'

stub bin/python3 'exit 1'
compare --rounds 1 --ranks=2 --models 784-500-10,8x1024
expect "without PyTorch it is said" said 'PyTorch is left out: no python3 here that imports torch'
expect "and its columns are empty" said '| 8x1024 | 2 | 200 | - | - | - | 20.0 | - | - | 5.3 % |'
expect "Gyre is measured all the same" [ "$code" = 0 ]
stub bin/python3 "$torch_stub"

# --- what goes wrong ------------------------------------------------------------------------------

: >"$room/torn"
compare --rounds 1 --ranks 2 --models 13-64-3
expect "PyTorch's failure is told" \
    said 'PyTorch failed in 13-64-3 with 2 ranks, round 1: exit code 9: no torch today'
expect "and is not Gyre's" [ "$code" = 0 ]
rm "$room/torn"
: >"$room/short"
compare --rounds 1 --ranks 2 --models 13-64-3
expect "a rank without a peak is told" \
    said 'Gyre failed in 13-64-3 with 2 ranks, round 1: its records or peaks are not complete'
expect "and is a failure" [ "$code" = 1 ]
rm "$room/short"
: >"$room/broken"
compare --rounds 1 --ranks 2 --models 13-64-3
expect "Gyre's failure is told" \
    said 'Gyre failed in 13-64-3 with 2 ranks, round 1: exit code 3: gyre train: no'
expect "and is a failure too" [ "$code" = 1 ]
rm "$room/broken"

for flags in '--rounds 0' '--rounds x' '--ranks 0' '--ranks' '--models iris' '--models' '--out' \
    '--rnds 1'; do
    # shellcheck disable=SC2086 # the flags are words
    (cd "$room" && PYTHON=false BUILD=$build "$source_root/bench/compare_training" $flags) \
        >"$room/said" 2>"$room/complaints"
    code=$?
    expect "$flags is refused" [ "$code" = 2 ]
    expect "$flags is named" complained "compare_training: ${flags%% *}"
done

# --- without PyTorch, but with the real trainer ---------------------------------------------------

build=$build_root
stub bin/python3 'exit 1'
compare --rounds 1 --ranks 2 --models 13-64-3
expect "the trainer is measured" [ "$code" = 0 ]
expect "in its row" runs_kept '^13-64-3,2,Gyre,1,[0-9.e+]*,[0-9.]*,[0-9]*,[0-9]*$' 1

[ "$failures" = 0 ] && echo "all checks passed"
[ "$failures" = 0 ]
