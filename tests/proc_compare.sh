#!/bin/sh
# bench/compare against programs that say what the test wants: medians, ratios, rows and notes must follow from it. Then
# once against the real bench, without peers.
set -u
source_root=$1
build_root=$2
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failures=0
mkdir -p "$room/bin" "$room/build/bench"

for tool in sh cat dirname mktemp mkdir rm tail head sed grep tr printf date cut uname nproc awk seq timeout; do
    path=$(command -v "$tool") && [ "${path#/}" != "$path" ] && ln -s "$path" "$room/bin/$tool"
done

stub() { # path below the room, then its body
    printf '#!/bin/sh\n%s\n' "$2" >"$room/$1"
    chmod +x "$room/$1"
}

compare() { # flags; the table goes to $room/out/compare.md, the exit code to $code
    rm -rf "$room/out"
    : >"$room/calls"
    PATH=$room/bin PYTHON=python3 ROOM=$room BUILD=$build "$source_root/bench/compare" --out "$room/out" "$@" \
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

# Round by round the bench takes 10, 30, 20 µs and the peers take 50, 10, 40: medians 20 and 40. In place is 2 × that.
stub build/bench/allreduce '
echo "allreduce $*" >>"$ROOM/calls"
[ ! -e "$ROOM/broken" ] || { echo "gyre_init: no" >&2; exit 3; }
turn=$(grep -cxF -- "allreduce $*" "$ROOM/calls")
while [ "$1" != -b ]; do shift; done
bytes=$2
time=$(echo 10 30 20 | cut -d " " -f "$turn")
while [ "$1" != --csv ]; do shift; done
printf "size,…\n%s,2,float,sum,-1,20,%s,0,0,0,%s,0,0,%s\n" "$bytes" "$time" "$((2 * time))" "${WRONG:-0}" >"$2"'
peer='
echo "$0 $*" >>"$ROOM/calls"
turn=$(grep -cxF -- "$0 $*" "$ROOM/calls")
time=$(echo 50 10 40 | cut -d " " -f "$turn")
for word; do case $word in *[!0-9:]*) ;; ???*) echo "${word%:*},$time,0,$((2 * time)),0" ;; esac; done'

peers_there() {
    stub bin/mpicc 'exit 0'
    stub bin/mpirun '[ "$1" != --version ] || { echo "mpirun (Open MPI) 0"; exit; }'"$peer"
    stub bin/python3 '[ "$1" != -c ] || { echo "0.0"; exit; }'"$peer"
}

# --- tables -----------------------------------------------------------------------------------------------------------

build=$room/build
peers_there
compare --rounds 3 --ranks 2 --sizes 512,4K,64M
expect "a good comparison succeeds" [ "$code" = 0 ]
expect "medians and ratios in shared memory" said '| 4 KiB | 20.0 | 40.0 | **2.00** | 40.0 | 80.0 | **2.00** |'
expect "gloo stands beside Open MPI over sockets" said '| 64 MiB | 20.0 | 40.0 | **2.00** | 40.0 | **2.00** | 40.0 | 80.0 |'
expect "every round is kept" rounds_kept '^shm,2,4096,Open MPI' 3
expect "rows go to the bench" noted '--ranks 2 --transport tcp --fresh --no-ceiling -w 2 -b 4096 -e 4096'
expect "large ones with the number of calls" noted '-b 67108864 -e 67108864 --csv'
expect "which is 4" noted '-n 4'
expect "and to the peers, alike" noted '512 4096 67108864:4'
expect "Open MPI's sockets are asked for by name" noted '--mca btl tcp,self --mca pml ob1 -n 2'
expect "what is printed is in the file" cmp "$room/said" "$room/out/compare.md"

compare --rounds 1 --ranks=2,4 --sizes 8M --only shm
expect "one section alone" [ "$(grep -c '^###' "$room/said")" = 2 ]
expect "asks nothing of gloo" not_noted gloo

# --- what goes wrong --------------------------------------------------------------------------------------------------

WRONG=1 compare --rounds 1 --ranks 2 --sizes 4K --only shm
expect "a wrong result is named" said 'WRONG results: Gyre (shm, 2 ranks, 4096 bytes, round 1)'
expect "and is a failure" [ "$code" = 1 ]
: >"$room/broken"
compare --rounds 2 --ranks 2 --sizes 4K --only shm
expect "Gyre's failure is told once" [ "$(grep -c 'Gyre failed in shm with 2 ranks: exit code 3: gyre_init: no' "$room/said")" = 1 ]
expect "and is a failure too" [ "$code" = 1 ]
rm "$room/broken"
stub bin/mpirun '[ "$1" != --version ] || exit; echo "no slots" >&2; exit 9'
compare --rounds 1 --ranks 2 --sizes 4K --only shm
expect "a peer's failure is told" said 'Open MPI failed in shm with 2 ranks: exit code 9: no slots'
expect "and is not Gyre's" [ "$code" = 0 ]
expect "whose column stays" said '| 4 KiB | 10.0 | 20.0 |'

for flags in '--rounds 0' '--rounds x' '--ranks 1' '--ranks' '--sizes 3' '--sizes 4Q' '--sizes 04' '--only x' '--rnds 1'; do
    # shellcheck disable=SC2086 # the flags are words
    compare $flags
    expect "$flags is refused" [ "$code" = 2 ]
    expect "$flags is named" complained "compare: ${flags%% *}"
done

# --- without peers, but with the real bench ---------------------------------------------------------------------------

build=$build_root
rm "$room/bin/mpirun" "$room/bin/mpicc" "$room/bin/python3"
stub bin/python3 'exit 1'
compare --rounds 1 --ranks 2 --sizes 8,64K
expect "missing peers are named" said 'Open MPI is left out: no mpirun and mpicc here'
expect "both of them" said 'gloo is left out'
expect "the bench is measured" [ "$code" = 0 ]
expect "in every row" rounds_kept ',Gyre,1,[0-9.]*,[0-9.]*,0$' 4

[ "$failures" = 0 ] && echo "all checks passed"
[ "$failures" = 0 ]
