#!/bin/sh
# In the guest: two ranks on two nodes, each in a network namespace of its own, joined by a bridge.
# TCP is to carry sums over a network that delays, loses and reorders, and to outlast a cable that
# is out for a second; one that stays out is to end both ranks, each with an error that names the
# other.
#
#   rank 0 in r0: n0 10.78.0.10 ── p0 ─┐
#   rank 1 in r1: n1 10.78.0.11 ── p1 ─┘ bridge
set -u
build=$1
failures=0
cd "$(mktemp -d)" || exit 1

expect() { # what, then a command that must succeed
    what=$1
    shift
    if "$@" >/dev/null; then return 0; fi
    echo "FAILED: $what"
    tail -n 30 rank0 rank1
    failures=$((failures + 1))
}

make_nodes() {
    ip link add bridge type bridge
    ip link set bridge up
    for i in 0 1; do
        ip netns add "r$i"
        ip link add "n$i" netns "r$i" type veth peer name "p$i"
        ip link set "p$i" master bridge up
        ip -n "r$i" link set lo up
        ip -n "r$i" address add "10.78.0.1$i/24" dev "n$i"
        ip -n "r$i" link set "n$i" up
    done
}

netem() { # what to do to all frames that leave a rank
    for i in 0 1; do ip netns exec "r$i" tc qdisc replace dev "n$i" root netem "$@"; done
}

# Output to rank0 and rank1, processes to $first and $second.
start_ranks() { # a program and its flags
    # The dead time is well above the second that a cable is out, for this guest shares the machine
    # with another.
    for i in 0 1; do
        ip netns exec "r$i" env RANK="$i" WORLD_SIZE=2 \
            GYRE_ROOT=10.78.0.10:4000 GYRE_INTERFACE="n$i" \
            GYRE_KEY=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff \
            GYRE_DEAD_TIME=$((2 * GYRE_TEST_SLOW))s GYRE_JOIN_TIMEOUT=60s "$@" >"rank$i" 2>&1 &
        [ "$i" != 0 ] || first=$!
        second=$!
    done
}

end_ranks() { # exit codes to $code0 and $code1
    code0=0 code1=0
    wait "$first" || code0=$?
    wait "$second" || code1=$?
}

until_says() { # file, text
    tries=0
    until grep -q "$2" "$1"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || return 1
        sleep 0.1
    done
}

make_nodes

netem delay 1ms loss 1% reorder 25% 50%
start_ranks "$build/bench/all_reduce" -b 8 -e 2M -f 64 -n 5 -c 1 -d int32
end_ranks
expect "sums over a troubled network, exit codes $code0 $code1" [ "$code0 $code1" = "0 0" ]
expect "nothing wrong in them" grep -q 'Out of bounds values *: 0' rank0
expect "frames were lost on purpose" \
    sh -c 'ip netns exec r0 tc -s qdisc show dev n0 | grep -q "dropped [1-9]"'
grep '^ *[1-9]' rank0

netem delay 1ms
start_ranks "$build/bench/all_reduce" -b 64K -e 64K -n 500 -c 1 -d int32
expect "ranks begin" until_says rank0 'in-place'
ip link set p1 down
sleep 1 # how long the cable is out
ip link set p1 up
end_ranks
expect "a cable that is out for a second is outlasted, exit codes $code0 $code1" \
    [ "$code0 $code1" = "0 0" ]
expect "with nothing wrong" grep -q 'Out of bounds values *: 0' rank0

start_ranks timeout 60 "$build/bench/all_reduce" -b 64K -e 64K -n 1000000 -c 0
expect "ranks begin" until_says rank0 'in-place'
ip link set p1 down
end_ranks
expect "rank 0 fails, exit code $code0" [ "$code0" = 3 ]
expect "and names rank 1" grep -q 'PEER_LOST: .*rank 1' rank0
expect "rank 1 fails, exit code $code1" [ "$code1" = 3 ]
expect "and names rank 0" grep -q 'PEER_LOST: .*rank 0' rank1
grep -h PEER_LOST rank0 rank1

[ "$failures" = 0 ] && echo "all as expected"
