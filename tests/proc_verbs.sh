#!/bin/sh
# RDMA in a guest whose devices are made of software (tests/vm/run): the conformance suite of the driver; all-reduces over
# it, every element checked; what is taken where one rank lacks something, and the line that says why; a rank that is
# killed, and a cable that is pulled, in the middle of an operation.
set -u
if [ -z "${GYRE_VM-}" ]; then
    if "$2/tests/link_verbs" | grep 'built without RDMA'; then exit 77; fi
    room=$(mktemp -d)
    trap 'rm -rf "$room"' EXIT
    cp "$0" "$room/inside"
    "$1/tests/vm/run" -n 2 -m 2048 -t 900 "$room" "sh ./inside '$1' '$2'"
    exit
fi

# --- from here on in the guest ---

build=$2
failures=0
out=/tmp/out
export HOME=/tmp
bench="$build/bench/all_reduce --no-ceiling -c 1 -n 3"

# Ranks 0, 2, … on one device and node, the others on the other.
cat >/tmp/apart <<'END'
#!/bin/sh
export GYRE_RDMA_DEVICE=${DEVICE:-rxe$((RANK % 2))} GYRE_SIMULATED_NODE=$((RANK % 2))
exec "$@"
END
chmod 755 /tmp/apart

ranks() { # how many, then the bench's flags; output to $out, exit code to $code
    n=$1
    shift
    code=0
    # shellcheck disable=SC2086 # a command with its words
    timeout 60 "$build/gyre" run -n "$n" /tmp/apart $bench "$@" >$out 2>&1 </dev/null || code=$?
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

"$build/tests/link_verbs" >$out 2>&1
code=$?
expect "the conformance suite passes" [ $code = 0 ]

# --- what ranks get ---

GYRE_TRANSPORT=verbs ranks 4 -b 8 -e 128K -f 128
expect "4 ranks, each by verbs to each" [ $code = 0 ]
expect "with no wrong element" says 'Out of bounds values : 0 OK'

GYRE_LOG=info ranks 4 -b 8 -e 1M -f 512
expect "2 nodes of 2, verbs between them by itself" [ $code = 0 ]
expect "each rank on the device it was told" says 'port 1 of rxe1, GID 1 (10.77.0.1[12])'
expect "and nobody by tcp" silent 'instead of verbs'

# --- what is lacking ---

lacking() { # what, the reason's words: by itself tcp, asked for verbs a failure
    ranks 2 -b 8 -e 8
    expect "$1: tcp serves" [ $code = 0 ]
    expect "$1: a line says so" says "tcp instead of verbs to 1 of 1 ranks on other nodes: .*$2"
    GYRE_TRANSPORT=verbs ranks 2 -b 8 -e 8
    expect "$1: verbs alone fails" [ $code != 0 ]
    expect "$1: with the reason" says "transport \"verbs\" cannot serve: .*$2"
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

# A user may lock as much as the limit says, root everything.
limited() { # KiB
    code=0
    # shellcheck disable=SC2086
    timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'ulimit -l '"$1"'
        exec "$@"' sh "$build/gyre" run -n 2 /tmp/apart $bench -b 64K -e 64K >$out 2>&1 </dev/null || code=$?
}
chmod 777 /tmp
limited 0
expect "no locked memory: tcp serves" [ $code = 0 ]
expect "no locked memory: the limit is named" says 'instead of verbs.*may lock 0 KiB: raise it (ulimit -l unlimited'
limited 200
expect "little locked memory: verbs serves" [ $code = 0 ]
expect "little locked memory: with less staging" says 'KiB of staging for each peer instead of 512: this process may lock 200 KiB'

# --- what breaks ---

pair() { # port: two ranks without a launcher, who would end the one for the other's death
    export MASTER_PORT=$1 MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
    # shellcheck disable=SC2086
    for rank in 0 1; do
        RANK=$rank /tmp/apart $bench -b 64K -e 64K -n 1000000 >/tmp/out.$rank 2>&1 </dev/null &
        eval "pid$rank=$!"
    done
    tries=0 # until the two have connected, which counts in the port's packets
    while [ "$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)" -lt "$2" ] && [ $tries -lt 300 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}

packets() { echo $(($(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts) + 500)); }

ends() { # rank
    eval "wait \$pid$1"
    code=$?
    out=/tmp/out.$1
}

pair 29501 "$(packets)"
kill -9 "$pid1"
ends 0
expect "a rank is killed: the other ends" [ $code != 0 ]
expect "and names it" says 'rank 1'

pair 29502 "$(packets)"
ip link set p1 down
ends 0
expect "a cable is pulled: its rank ends" [ $code != 0 ]
# The story is one on both ranks: either may be the one who saw it.
expect "with the link's ends" says 'verbs link from rank [01] to rank [01] .*GID 10.77.0.1[0-9]*, queue pair [0-9]*'
ends 1
expect "and the other rank too" [ $code != 0 ]

[ $failures = 0 ] && echo "all as expected"
