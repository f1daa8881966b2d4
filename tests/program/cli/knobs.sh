#!/bin/sh
# Every variable of Gyre's own that src/ names stands in `gyre show env`, in docs/environment.md,
# and the other way round; values come from where the table says. A value that cannot be used is
# told, with exit code 2.
set -u
source=$1
gyre=$2/gyre
offences=0
unset $(env | sed -n 's/^\(GYRE_[A-Z_]*\)=.*/\1/p') GYRE_NONE

offend() {
    echo "$*"
    offences=$((offences + 1))
}

# Names in quotes, but for the names of statuses.
named=$(find "$source/src" -name '*.[ch]' ! -name knobs.c ! -name strangers.c ! -name status.c \
    -exec grep -oh '"GYRE_[A-Z][A-Z0-9_]*"' {} + | tr -d '"' | sort -u)
shown=$("$gyre" show env | sed -n 's/^\(GYRE_[A-Z0-9_]*\) .*/\1/p' | sort -u)
[ "$(echo "$named" | wc -l)" -gt 20 ] || offend "only these names were found in src/: $named"
for name in $named; do
    echo "$shown" | grep -qx "$name" ||
        offend "$name is read in src/ but is not in src/knobs/knobs.c"
done
for name in $shown; do
    echo "$named" | grep -qx "$name" ||
        offend "$name is in src/knobs/knobs.c, but nothing in src/ reads it"
    grep -q "\`$name\`" "$source/docs/environment.md" ||
        offend "$name is missing in docs/environment.md"
done

# What src/knobs/strangers.c knows beside the knobs is read by tests or benches.
for name in $(grep -oh '"GYRE_[A-Z_]*[A-Z]"' "$source/src/knobs/strangers.c" | tr -d '"'); do
    grep -rqw "$name" "$source/tests" "$source/bench" ||
        offend "nothing in tests or bench reads $name"
    grep -q "\`$name\`" "$source/docs/environment.md" ||
        offend "$name is missing in docs/environment.md"
done

expect() { # pattern, then the command's words
    pattern=$1
    shift
    "$@" 2>&1 | grep -q -- "$pattern" || offend "not found in $*: $pattern"
}

expect '^GYRE_LANES  *chosen  *default ' "$gyre" show env
expect '^GYRE_LANES  *3  *environment ' env GYRE_LANES=3 "$gyre" show env
expect '"name":"GYRE_ALGO","value":"a\\"b\\\\","origin":"environment","same":true' \
    env 'GYRE_ALGO=a"b\' "$gyre" show env --json
expect '^GYRE_KEY  *(set)  *environment ' env GYRE_KEY=0123456789 "$gyre" show env
env GYRE_KEY=0123456789 "$gyre" show env --json | grep 0123456789 && offend "the key was printed"
expect 'GYRE_LANES is "9": expected a whole number from 1 to 8' env GYRE_LANES=9 "$gyre" show env
expect 'GYRE_TRANSPORT is "smh": expected auto, .* (did you mean "shm"?)' \
    env GYRE_TRANSPORT=smh "$gyre" show env
expect 'GYRE_KERNELS is "avx9": expected scalar' env GYRE_KERNELS=avx9 "$gyre" show env
expect '^GYRE_KERNELS  *scalar  *environment ' env GYRE_KERNELS=scalar "$gyre" show env
expect 'tuning file /nowhere/prices: cannot open it: No such file' \
    env GYRE_TUNE_FILE=/nowhere/prices "$gyre" show env
expect 'GYRE_SLICE is "0": expected more than 0' env GYRE_SLICE=0 "$gyre" show env
expect 'GYRE_JOIN_TIMEOUT is "0s": expected more than 0' env GYRE_JOIN_TIMEOUT=0s "$gyre" show env
expect 'GYRE_SLICE is "0B": expected more' env GYRE_SLICE=0B "$gyre" show choices
expect 'GYRE_ALGO is "rign"' env GYRE_ALGO=rign "$gyre" show env
expect 'GYRE_ALGO is "rign"' env GYRE_ALGO=rign GYRE_LANES=9 "$gyre" show env
expect 'GYRE_LANES is "9"' env GYRE_ALGO=rign GYRE_LANES=9 "$gyre" show env
[ "$(env GYRE_REPRODUCIBLE=7 "$gyre" show env 2>&1 >/dev/null | wc -l)" = 1 ] ||
    offend "GYRE_REPRODUCIBLE=7 is told twice"
expect 'nothing reads GYRE_AGLO (did you mean "GYRE_ALGO"?)' env GYRE_AGLO=ring "$gyre" show env
expect 'nothing reads GYRE_OTHERWISE; ' env GYRE_OTHERWISE=1 "$gyre" show env
env GYRE_TEST_SLOW=1 GYRE_BENCH_PLANT=1 "$gyre" show env 2>&1 | grep 'nothing reads' &&
    offend "what tests and benches read was told"
env GYRE_LANES=9 "$gyre" show env >/dev/null 2>&1
[ $? = 2 ] || offend "a wrong value does not end with 2"

prices=$(mktemp)
trap 'rm -f "$prices"' EXIT

# What must be equal on all ranks is compared as they join, and named with both values. A job or an
# epoch of its own is another job: tests/program/job/join_refused.c.
two_values() { # of a knob, with blanks between
    case $1 in
    GYRE_TRANSPORT) echo auto tcp ;;
    GYRE_ALGO) echo auto ring ;;
    GYRE_REPRODUCIBLE) echo 0 1 ;;
    GYRE_SLICE) echo 65536 131072 ;;
    GYRE_LANES | GYRE_TCP_CONNECTIONS | GYRE_LINKS_AT_ONCE) echo 1 2 ;;
    GYRE_TCP_SUMS) echo payload header ;;
    GYRE_TCP_SECURITY) echo auth none ;;
    GYRE_TCP_RENEW) echo never always ;;
    GYRE_RDMA_FAILOVER) echo none tcp ;;
    GYRE_TUNE_FILE) echo built-in "$prices" ;;
    *) offend "$1 must be equal on all ranks: which two values shall be tried here?" ;;
    esac
}

printf 'gyre-tuning 1\nshm.kib_ps 77\nvalues 1\n' >"$prices"
for name in $("$gyre" show env --json | sed -n 's/.*"name":"\([A-Z_]*\)".*"same":true.*/\1/p'); do
    case $name in GYRE_JOB | GYRE_EPOCH) continue ;; esac
    # shellcheck disable=SC2046 # two words
    set -- $(two_values "$name")
    [ "$name" = GYRE_TUNE_FILE ] && shift && set -- '' "$1"
    train="exec '$gyre' train --preset wine --epochs 1"
    each="[ \$RANK = 0 ] && export $name=$1 || export $name=$2"
    told=$("$gyre" run -n 2 sh -c "$each; $train" 2>&1)
    [ $? = 2 ] || offend "$name may differ: $told"
    [ "$name" = GYRE_TUNE_FILE ] && set -- built-in "[0-9a-f]*"
    one="$1 on rank 0 (host [^ ]*)" two="$2 on rank 1 (host [^ ]*)"
    echo "$told" | grep -q "gyre train: $name is $one and $two; give all ranks the same" ||
        offend "what differs in $name is told so: $told"
    [ "$(echo "$told" | grep -c "$name is")" = 1 ] || offend "told more than once: $told"
done

expect '^  shm.kib_ps 77$' env GYRE_TUNE_FILE="$prices" "$gyre" show env
printf 'gyre-tuning 1\nshm.kib_ps 77\n' >"$prices"
expect 'line 2: it ends without "values"' env GYRE_TUNE_FILE="$prices" "$gyre" show env

[ "$offences" = 0 ]
