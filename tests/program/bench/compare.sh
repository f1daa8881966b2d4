#!/bin/sh
# bench/compare against programs that say what the test wants: medians, ratios, rows and notes must
# follow from it. Then once against the real bench, without peers.
set -u
source_root=$1
build_root=$2
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failures=0
mkdir -p "$room/bin" "$room/build/bench"

for tool in sh cat dirname mktemp mkdir rm tail head sed grep tr printf date cut uname nproc awk \
    seq timeout env sort; do
    path=$(command -v "$tool") && [ "${path#/}" != "$path" ] && ln -s "$path" "$room/bin/$tool"
done
mkdir -p "$room/build/bench/peers"
ln -s "$build_root/bench/peers/ratio" "$room/build/bench/peers/ratio"

stub() { # path below the room, then its body
    printf '#!/bin/sh\n%s\n' "$2" >"$room/$1"
    chmod +x "$room/$1"
}

compare() { # flags; the table goes to $room/out/compare.md, the exit code to $code
    rm -rf "$room/out"
    : >"$room/calls"
    PATH=$room/bin PYTHON=python3 ROOM=$room BUILD=$build \
        "$source_root/bench/compare" --out "$room/out" --memory gyre "$@" \
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

not_noted() { ! noted "$1"; }
noted() { grep -qF -- "$1" "$room/calls"; }
said() { grep -qF -- "$1" "$room/said"; }
complained() { grep -qF -- "$1" "$room/complaints"; }
rounds_kept() { [ "$(grep -c "$1" "$room/out/compare.csv")" = "$2" ]; }

# Round by round the bench takes 10, 30, 20 µs and the peers take 50, 10, 40: medians 20 and 40. In
# place is 2 × that, percentiles are 3 × and 4 ×, the processor 1000 ×. MPICH takes twice as long.
bench_stub='
call="${0##*/} $*"
echo "$call" >>"$ROOM/calls"
[ ! -e "$ROOM/broken" ] || { echo "gyre_init: no" >&2; exit 3; }
turn=$(grep -cxF -- "$call" "$ROOM/calls")
[ -z "${GYRE_REPRODUCIBLE:-}" ] || echo reproducible >>"$ROOM/calls"
[ -z "${GYRE_TCP_SUMS:-}" ] || echo "sums of $GYRE_TCP_SUMS" >>"$ROOM/calls"
while [ "$1" != --sizes ]; do shift; done
rows=$(echo "$2" | tr , " ")
time=$(echo 10 30 20 | cut -d " " -f "$turn")
while [ "$1" != --csv ]; do shift; done
set -- "$2" "$((3 * time)),$((4 * time)),$((1000 * time))"
echo "size,…" >"$1"
for row in $rows; do
    printf "%s,2,float,sum,-1,20,%s,0,0,0,%s,0,0,%s,%s,%s\n" \
        "${row%:*}" "$time" "$((2 * time))" "${WRONG:-0}" "$2" "$2" >>"$1"
done'
peer='
call="${0##*/} $*${UCX_TLS:+, tcp}"
echo "$call" >>"$ROOM/calls"
turn=$(grep -cxF -- "$call" "$ROOM/calls")
time=$(($(echo 50 10 40 | cut -d " " -f "$turn") * SLOW))
more="$((3 * time)),$((4 * time)),$((1000 * time))"
for word; do
    case $word in
    *[!0-9:]*) ;;
    ???*) echo "${word%:*},$time,0,$more,$((2 * time)),${WRONG_PEER:-0},$more" ;;
    esac
done'

stub build/bench/all_reduce "$bench_stub"
stub build/bench/reduce_scatter "$bench_stub"
stub build/bench/barrier "$bench_stub"

peers_there() {
    stub bin/mpicc.openmpi 'exit 0'
    stub bin/mpicc.mpich 'exit 0'
    stub bin/mpirun.openmpi \
        '[ "$1" != --version ] || { echo "mpirun (Open MPI) 0"; exit; }; SLOW=1'"$peer"
    stub bin/mpirun.mpich '[ "$1" != --version ] || {
    echo "HYDRA build details:"
    echo " Version: 1.2"
    exit
}
SLOW=2'"$peer"
    stub bin/python3 '[ "$1" != -c ] || { echo "0.0"; exit; }; SLOW=3'"$peer"
}

# --- tables ---------------------------------------------------------------------------------------

build=$room/build
peers_there
compare --rounds 3 --ranks 2 --sizes 512,4K,64M
expect "a good comparison succeeds" [ "$code" = 0 ]
expect "medians, and ratios to the best peer" \
    said '| 4 KiB | 20.0 | 40.0 | 80.0 | **2.00** | 40.0 | 80.0 | 160 | **2.00** |'
expect "gloo stands beside them over sockets" \
    said '| 64 MiB | 20.0 | 40.0 | 80.0 | 120 | **2.00** | 40.0 | 80.0 | 160 | 240 | **2.00** |'
expect "processor seconds per GiB and percentiles" \
    said '| 64 MiB | 0.32 | 0.64 | 1.28 | 60.0 / 80.0 | 120 / 160 | 240 / 320 |'
expect "a summary" \
    said '| all_reduce | shm | 2 | best / Gyre | 2.00 (512 B) | 2.00 | 2.00 (512 B) |'
expect "every round is kept" rounds_kept '^shm,all_reduce,2,4096,Open MPI' 3
tcp_flags='--ranks 2 --transport tcp --fresh --no-ceiling'
expect "rows go to the bench, large ones with the number of calls" \
    noted "all_reduce $tcp_flags -w 2 --sizes 512,4096,67108864:4 --csv"
expect "and to the peers, alike" noted 'all_reduce 512 4096 67108864:4'
expect "Open MPI's sockets are asked for by name" noted '--mca btl tcp,self --mca pml ob1 -n 2'
expect "MPICH's version is told" said 'MPICH 1.2: `mpirun.mpich -n N`'
expect "what is printed is in the file" cmp "$room/said" "$room/out/compare.md"
expect "a picture has a panel for each table" \
    [ "$(grep -c 'class="title"' "$room/out/compare.svg")" = 2 ]
expect "and a line for each peer" \
    [ "$(grep -c '<path class="line' "$room/out/compare.svg")" = $((4 + 3 + 4)) ]
expect "which goes on to the end" grep -qx '</svg>' "$room/out/compare.svg"

compare --rounds 1 --ranks 2 --sizes 8M --peers openmpi
expect "a peer that is not asked for is named" said 'MPICH is left out: not among --peers'
expect "and not run" rounds_kept ",MPICH," 0

compare --rounds 1 --ranks=2,4 --sizes 8M --only shm
expect "one section alone" [ "$(grep -c '^###' "$room/said")" = 2 ]
expect "asks nothing of gloo" not_noted gloo

compare --rounds 1 --ranks 2 --ops reduce_scatter,barrier --sizes 16,4K
expect "several operations" [ "$(grep -c '^###' "$room/said")" = 4 ]
expect "of which gloo lacks one" not_noted 'gloo.py reduce_scatter'
expect "and has another, without sizes" noted 'gloo.py barrier 2 0'
expect "a size that is all ranks' needs 16 bytes of each" not_noted '--sizes 16'

compare --rounds 1 --ranks 2 --sizes 4K --only shm --memory both --reproducible
expect "Gyre three times, each with its ratio" \
    said '| 4 KiB | 10.0 | 10.0 | 30.0 | 50.0 | 100 | **5.00** | **5.00** | **1.67** |'
expect "and what that costs" \
    said '| all_reduce | shm | 2 | price: Gyre reproducible / Gyre | 3.00 (4 KiB) | 3.00 |'
expect "once with ordinary memory" noted '--memory malloc'
expect "once reproducibly" noted reproducible

compare --rounds 1 --ranks 2 --sizes 4K --header-sums
expect "sums of headers are asked for" [ "$(grep -cx 'sums of header' "$room/calls")" = 1 ]
expect "over sockets alone" [ "$(grep -c 'Gyre header sums' "$room/out/compare.csv")" = 1 ]
expect "and what that saves" \
    said '| all_reduce | tcp | 2 | price: Gyre header sums / Gyre | 3.00 (4 KiB) |'

# Open MPI takes 40 µs by its defaults. Its collectives in shared memory take 8 at 64 KiB, else 90.
stub bin/mpirun.openmpi '[ "$1" != --version ] || { echo "Open MPI"; exit; }
for word; do
    case $word in
    *[!0-9]*) continue ;;
    ????*) ;;
    *) continue ;;
    esac
    time=40
    case "$*,$word" in
    *coll_sm_priority*,65536) time=8 ;;
    *--mca*) time=90 ;;
    esac
    echo "$word,$time,0,1,1,1,$time,0,1,1,1"
done'
compare --rounds 2 --ranks 2 --sizes 4K,64K --only shm --peers openmpi --tuned
expect "the best setting of each size is told" \
    said 'tuned, all_reduce, shm, 2 ranks: 4096 B defaults; 65536 B `--mca coll_sm_priority 100`'
expect "a size whose defaults are the best keeps them" \
    said '| 4 KiB | 20.0 | 40.0 | 40.0 | **2.00** |'
expect "another is measured at its best, and the ratio is to that" \
    said '| 64 KiB | 20.0 | 40.0 | 8.00 | **0.40** |'
expect "in each round" rounds_kept ',Open MPI tuned,' 4
peers_there

stub bin/git 'echo 1234567-dirty'
compare --publish
expect "--publish refuses what is not committed" [ "$code" = 1 ]
expect "and says so" complained 'compare: --publish: the tree has changes that are not committed'

# --- what goes wrong ------------------------------------------------------------------------------

WRONG=1 compare --rounds 1 --ranks 2 --sizes 4K --only shm
expect "a wrong result is named" \
    said 'WRONG results: Gyre (all_reduce, shm, 2 ranks, 4096 bytes, round 1)'
expect "and is a failure" [ "$code" = 1 ]
WRONG_PEER=1 compare --rounds 1 --ranks 2 --sizes 4K --only shm
expect "so is a peer's" \
    said 'WRONG results: Open MPI (all_reduce, shm, 2 ranks, 4096 bytes, round 1), MPICH'
expect "as much" [ "$code" = 1 ]
: >"$room/broken"
compare --rounds 2 --ranks 2 --sizes 4K --only shm
gyre_failed='Gyre failed in all_reduce, shm, with 2 ranks: exit code 3: gyre_init: no'
expect "Gyre's failure is told once" [ "$(grep -c "$gyre_failed" "$room/said")" = 1 ]
expect "and is a failure too" [ "$code" = 1 ]
rm "$room/broken"
stub bin/mpirun.openmpi \
    '[ "$1" != --version ] || { echo "Open MPI"; exit; }; echo "no slots" >&2; exit 9'
compare --rounds 1 --ranks 2 --sizes 4K --only shm
expect "a peer's failure is told" \
    said 'Open MPI failed in all_reduce, shm, with 2 ranks: exit code 9: no slots'
expect "and is not Gyre's" [ "$code" = 0 ]
expect "whose column is gone" said '| 4 KiB | 10.0 | 100 | **10.00** | 20.0 | 200 | **10.00** |'

for flags in '--rounds 0' '--rounds x' '--ranks 1' '--ranks' '--sizes 3' '--sizes 4Q' \
    '--sizes 04' '--only x' '--rnds 1' '--ops add' '--ops' '--memory heap' '--limit 0' \
    '--peers' '--peers nccl'; do
    # shellcheck disable=SC2086 # the flags are words
    compare $flags
    expect "$flags is refused" [ "$code" = 2 ]
    expect "$flags is named" complained "compare: ${flags%% *}"
done

# --- without peers, but with the real bench -------------------------------------------------------

build=$build_root
rm "$room/bin/"mpirun.* "$room/bin/"mpicc.* "$room/bin/python3"
stub bin/python3 'exit 1'
compare --rounds 1 --ranks 2 --sizes 8,64K
expect "missing peers are named" said 'Open MPI is left out: no mpirun and mpicc of it here'
expect "all of them" said 'MPICH is left out'
expect "gloo too" said 'gloo is left out'
expect "the bench is measured" [ "$code" = 0 ]
expect "in every row" rounds_kept ',Gyre,1,[0-9.]*,0,\([0-9.]*,\)\{4\}0,[0-9.]*,[0-9.]*,[0-9.]*$' 4

[ "$failures" = 0 ] && echo "all checks passed"
[ "$failures" = 0 ]
