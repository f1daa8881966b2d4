#!/bin/sh
# RDMA in a guest whose devices are made of software (tests/vm/run): the conformance suite of the
# driver, also while queue pairs break; collectives over it, every element checked, and training,
# whose losses are those over TCP; what is taken where one rank lacks something, and the line that
# says why; a network that delays, loses and reorders; a program that forks; a rank that is killed,
# and a cable that is pulled, in the middle of an operation. Each part tells its seconds.
set -u

losses() { grep -o '"step":.*"loss":[0-9.e-]*' "$1" | sed 's/"step":\([0-9]*\).*"loss"/\1/'; }
export GYRE_BLAS=own # OpenBLAS rounds otherwise on another processor
training='train --preset wine --batch 6 --epochs 2 --quiet --metrics' # 24 steps

if [ -z "${GYRE_VM-}" ]; then
    if "$2/tests/link_verbs" | grep 'built without RDMA'; then exit 77; fi
    room=$(mktemp -d)
    trap 'rm -rf "$room"' EXIT
    cp "$0" "$room/inside"
    # Over TCP it is trained here, where it takes no time; the guest's processor has no more than
    # these kernels.
    # shellcheck disable=SC2086 # words
    GYRE_KERNELS=sse2 GYRE_TRANSPORT=tcp \
        "$2/gyre" run -n 2 "$2/gyre" $training "$room/metrics.tcp" || exit
    losses "$room/metrics.tcp" >"$room/losses.tcp"
    "$1/tests/vm/run" -n 3 -m 2048 -t 900 "$room" "sh ./inside '$1' '$2'"
    exit
fi

# --- from here on in the guest ---

build=$2
# shellcheck source=tests/vm/strike.sh
. "$1/tests/vm/strike.sh"
failures=0
out=/tmp/out
doing='' since=0
export HOME=/tmp
bench="$build/bench/all_reduce --no-ceiling -c 1 -n 3"

part() { # which begins
    hundredths
    [ -z "$doing" ] || echo "$doing: $(((now - since + 50) / 100)) s"
    doing=$1 since=$now
}

# Ranks 0, 2, … on one device and node, the others on the other, or each rank on BOTH. BLIND may not
# open devices.
cat >/tmp/apart <<'END'
#!/bin/sh
export GYRE_RDMA_DEVICE=${DEVICE-rxe$((RANK % 2))${BOTH:++rxe$((1 - RANK % 2))}}
export GYRE_SIMULATED_NODE=$((RANK % 2))
[ "$RANK" != "${BLIND-}" ] ||
    exec unshare -m sh -c 'mount -t tmpfs none /dev/infiniband && exec "$@"' sh "$@"
exec "$@"
END
chmod 755 /tmp/apart

run() { # how many ranks, then their command; output to $out, exit code to $code
    n=$1
    shift
    code=0
    timeout 60 "$build/gyre" run -n "$n" /tmp/apart "$@" >$out 2>&1 </dev/null || code=$?
}

ranks() { # how many, then the bench's flags
    n=$1
    shift
    # shellcheck disable=SC2086 # a command with its words
    run "$n" $bench "$@"
}

expect() { # what, then a command that must succeed
    what=$1
    shift
    if "$@" >/dev/null; then
        echo "as expected: $what"
    else
        echo "FAILED: $what (exit code $code)"
        tail -n 15 $out | cut -c1-600 | sed 's/^/    /'
        failures=$((failures + 1))
    fi
}

says() { grep -q -- "$1" $out; }
silent() { ! says "$1"; }

# --- the driver ---

part 'the driver by itself'
code=0
timeout 240 "$build/bench/verbs" 1 64 65536 t >$out 2>&1 || code=$?
expect "the bench beside bare verbs comes to its end" [ $code = 0 ]

GYRE_LOG=error "$build/tests/link_verbs" --start 64 >$out 2>&1
code=$?
expect "a start is timed" [ $code = 0 ]
cat $out

# --- what ranks get ---

part 'all-reduces of 4 ranks'
GYRE_TRANSPORT=verbs ranks 4 -b 8 -e 128K -f 128
expect "4 ranks, each by verbs to each" [ $code = 0 ]
expect "with no wrong element" says 'Out of bounds values : 0 OK'

on_rail() { says "rank $1 .*verbs: port 1 of rxe$2,"; }
GYRE_LOG=info DEVICE='' ranks 4 -b 8 -e 1M -f 512
expect "2 nodes of 2 that were told nothing: verbs between them" [ $code = 0 ]
expect "and nobody by tcp" silent 'instead of verbs'
expect "rank 0 is on the first device" on_rail 0 0
expect "rank 1 on the second" on_rail 1 1
expect "rank 3, the fourth of this machine, on the first of three again" on_rail 3 0

part 'other collectives, 3 ranks'
for collective in all_gather reduce_scatter all_to_all; do
    GYRE_TRANSPORT=verbs run 3 "$build/bench/$collective" --no-ceiling -c 1 -n 1 -w 0 \
        -b 120K -e 120K
    expect "$collective of 3 ranks" [ $code = 0 ]
    expect "with no wrong element" says 'Out of bounds values : 0 OK'
done

# Of 10 ranks on two nodes those 1, 3, 7 and 9 apart are partners, those 5 apart are not.
part 'more ranks than connect at once'
GYRE_LINKS_AT_ONCE=1 GYRE_LOG=info run 10 "$build/bench/all_to_all" --no-ceiling -c 1 -n 1 -w 0 \
    -b 120K -e 120K
expect "all_to_all of 10 ranks, not all of which are partners" [ $code = 0 ]
expect "with no wrong element" says 'Out of bounds values : 0 OK'
expect "partners have verbs" says 'verbs: port 1 of rxe0'
expect "others have tcp" says \
    'links to 4 of 5 ranks on other nodes are made, to the others by tcp at their first use'

part 'two devices of a rank'
BOTH=1 GYRE_RDMA_QUEUES=2 GYRE_TRANSPORT=verbs ranks 2 -b 1M -e 1M
expect "each rank over both devices, with two queue pairs on each" [ $code = 0 ]
expect "with no wrong element" says 'Out of bounds values : 0 OK'
expect "and nothing left out" silent 'left out'
expect "as the header says" says 'verbs/rxe0:1+rxe1:1 x2'

DEVICE=rxe0+mlx5_1 GYRE_TRANSPORT=verbs ranks 2 -b 1M -e 1M -n 1 -w 0
expect "a second device that is not there: the first serves" [ $code = 0 ]
left_out='queue pair 2 of 2 to rank [01] is left out'
expect "a line says so" says "$left_out: .*GYRE_RDMA_DEVICE=mlx5_1, but no RDMA device"

part 'one link'
run 2 "$build/bench/link" --transport verbs -b 8 -e 64K -f 8192
expect "bench/link over verbs" [ $code = 0 ]
expect "has a row for each size" says ' 65536  *[1-9]'
grep -v '# ' $out

# Of memory that was registered a long message goes past the rings, of other memory through them.
for memory in registered malloc; do
    GYRE_LOG=info GYRE_TRANSPORT=verbs run 2 "$build/bench/sendrecv" --no-ceiling -c 1 -n 2 \
        -b 256K -e 256K --memory $memory
    expect "messages in memory that is $memory" [ $code = 0 ]
    expect "with no wrong element" says 'Out of bounds values : 0 OK'
    [ $memory = malloc ] || expect "are written in place" says 'read and written in place by rxe'
done
expect "are not" silent 'read and written in place by rxe'

part 'two MTUs'
ip link set n1 mtu 1500
GYRE_LOG=info GYRE_TRANSPORT=verbs ranks 2 -b 64K -e 64K -n 1
expect "two MTUs: the smaller one is taken" [ $code = 0 ]
expect "two MTUs: there are two" says 'GID 1 (10.77.0.11), MTU 1024'
ip link set n1 mtu 9000

part 'training'
# shellcheck disable=SC2086 # words
GYRE_TRANSPORT=verbs run 2 "$build/gyre" $training /tmp/metrics
expect "training over verbs" [ $code = 0 ]
losses /tmp/metrics >/tmp/losses
expect "20 steps and more" [ "$(wc -l </tmp/losses)" -ge 20 ]
expect "with the losses of TCP" cmp /tmp/losses losses.tcp

part 'forks'
GYRE_LOG=info "$build/tests/program_failures_fork" apart >$out 2>&1
code=$?
expect "a program that forks" [ $code = 0 ]
expect "with verbs between its nodes" says 'verbs: port 1 of rxe0'

# --- what is lacking ---

# The suite keeps one processor busy, with a device that nobody else uses; the parts beside it wait
# half of their time.
GYRE_RDMA_DEVICE=rxe2 GYRE_LOG=error "$build/tests/link_verbs" >/tmp/out.suite 2>&1 &
suite=$!

part 'what is lacking'
# By itself tcp, asked for verbs a failure; both at once, for they wait.
lacking() { # what, the reason's words
    (
        out=/tmp/out.alone
        GYRE_TRANSPORT=verbs ranks 2 -b 8 -e 8
        echo "$code" >/tmp/code.alone
    ) &
    ranks 2 -b 8 -e 8
    expect "$1: tcp serves" [ $code = 0 ]
    expect "$1: a line says so" says "tcp instead of verbs to 1 of 1 ranks on other nodes: .*$2"
    wait $!
    out=/tmp/out.alone code=$(cat /tmp/code.alone)
    expect "$1: verbs alone fails" [ "$code" != 0 ]
    expect "$1: with the reason" says "transport \"verbs\" cannot serve: .*$2"
    out=/tmp/out
}

export GYRE_RDMA_GID=9
lacking "a wrong GID" 'GYRE_RDMA_GID=9, but port 1 of rxe[01] has no GID there'
export GYRE_RDMA_GID=x
ranks 2 -b 8 -e 8
expect "a GID that is no number is refused" says 'GYRE_RDMA_GID is "x": expected a whole number'
unset GYRE_RDMA_GID

export DEVICE=mlx5_0
lacking "no such device" 'GYRE_RDMA_DEVICE=mlx5_0, but no RDMA device is called so'
unset DEVICE

ip link set p1 down
lacking "a port that is down" 'port 1 of rxe[01] is down'
ip link set p1 up

tc qdisc add dev n1 root netem loss 100%
lacking "a path that loses everything" 'rxe\|test write'
tc qdisc del dev n1 root

export BLIND=1
ranks 2 -b 8 -e 8
unset BLIND
expect "a node without devices: tcp serves" [ $code = 0 ]
expect "a node without devices: it is named" \
    says 'tcp instead of verbs .*: rank 1: this machine has no RDMA device'

# A user may lock as much as the limit says, root everything.
limited() { # KiB
    code=0
    # shellcheck disable=SC2086
    timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'ulimit -l '"$1"'
        exec "$@"' sh "$build/gyre" run -n 2 /tmp/apart $bench -b 64K -e 64K \
        >$out 2>&1 </dev/null || code=$?
}
chmod 777 /tmp
limited 0
expect "no locked memory: tcp serves" [ $code = 0 ]
expect "no locked memory: the limit is named" \
    says 'instead of verbs.*may lock 0 KiB: raise it (ulimit -l unlimited'
limited 200
expect "little locked memory: verbs serves" [ $code = 0 ]
expect "little locked memory: with less staging" \
    says 'KiB of staging for each peer instead of 528: this process may lock 200 KiB'

# --- what is slow, and what is lost ---

part 'delay, loss, reordering'
trouble() { # netem's words
    for i in 0 1; do tc qdisc replace dev n$i root netem "$@"; done
}

lost() { tc -s qdisc show dev n0 | grep -q "dropped [1-9]"; }

trouble delay 1ms loss 1%
turns=0
until lost || [ $turns = 20 ]; do # a turn may lose nothing
    GYRE_TRANSPORT=verbs ranks 2 -b 64K -e 64K
    turns=$((turns + 1))
    [ $code = 0 ] && says 'Out of bounds values : 0 OK' || break
done
expect "delay and loss: verbs serves" [ $code = 0 ]
expect "with no wrong element" says 'Out of bounds values : 0 OK'
expect "packets were lost on purpose" lost

# Where packets overtake each other rxe waits for its timer, or gives up: then TCP goes on.
trouble delay 1ms reorder 25% loss 1%
GYRE_RDMA_FAILOVER=tcp ranks 2 -b 64K -e 64K -n 1 -w 0
expect "reordering: sums are made all the same" [ $code = 0 ]
expect "with no wrong element" says 'Out of bounds values : 0 OK'
for i in 0 1; do tc qdisc del dev n$i root; done

part 'the conformance suite, what is left of it'
wait $suite
code=$? out=/tmp/out.suite
expect "the conformance suite passes" [ $code = 0 ]
out=/tmp/out

# --- what breaks ---

part 'what breaks'
fails() { [ "$code" -gt 0 ] 2>/dev/null; }

tell_time() { # what, words of the error
    echo "time: $1: \"$2\" after $(seconds_until "$2") s"
}

pair_of() { # port, then the bench's flags
    port=$1
    shift
    # shellcheck disable=SC2086 # a command with its words
    pair "$port" /tmp/apart $bench "$@"
}

pair_of 29501 -b 64K -e 64K -n 1000000
strike kill -9 "$pid1"
ends 0
expect "a rank is killed: the other ends" fails
expect "and names it" says 'rank 1'
tell_time "a rank is killed" 'rank 1'

pair_of 29502 -b 64K -e 64K -n 1000000
strike ip link set p1 down
ends 0
expect "a cable is pulled: its rank ends" fails
# The story is one on both ranks: either may be the one who saw it.
link_ends='verbs link from rank [01] to rank [01] .*GID 10.77.0.1[0-9]*, queue pair [0-9]*'
expect "with the link's ends" says "$link_ends"
tell_time "a cable is pulled" 'verbs link from'
ends 1
expect "and the other rank too" fails
tell_time "a cable is pulled" 'verbs link from'
ip link set p1 up

export GYRE_RDMA_FAILOVER=tcp
pair_of 29505 -b 64K -e 64K -n 1000
strike ip link set p1 down
ends 0
expect "a cable is pulled, with failover: a line says so" \
    says 'GID 10.77.0.1[0-9]*, queue pair [0-9]*.*tries: 7 of .*it goes on over TCP'
tell_time "a cable is pulled, with failover" 'goes on over TCP'
expect "and the job comes to its end" [ "$code" = 0 ]
expect "with no wrong element" says 'Out of bounds values : 0 OK'
ends 1
expect "the other rank too" [ "$code" = 0 ]
unset GYRE_RDMA_FAILOVER
ip link set p1 up

part 'devices that go'
is_gone() { [ ! -e /sys/class/infiniband/rxe1 ]; }

# The kernel waits for who has the device open, and nobody is told.
pair_of 29503 -b 64K -e 64K -n 1000000
rdma link delete rxe1 &
deleting=$!
goes_on 500
expect "a device is deleted: the job goes on" kill -0 "$pid0" "$pid1" $deleting
kill -9 "$pid0" "$pid1"
pid2=$deleting
ends 2
expect "and the device goes when the job has" is_gone
rdma link add rxe1 type rxe netdev n1

# With the interface every way out goes too, and what the device still takes is not answered.
pair_of 29504 -b 64K -e 64K -n 1000000
hundredths
struck=$now
ip link delete n1 &
pid2=$!
ends 0
expect "an interface is deleted: a rank ends" fails
expect "with the link's ends" says "$link_ends"
tell_time "an interface is deleted" 'verbs link from'
ends 1
expect "and the other one" fails
tell_time "an interface is deleted" 'verbs link from'
ends 2
expect "the device goes when they have" is_gone

part 'the end'
[ $failures = 0 ] && echo "all as expected"
