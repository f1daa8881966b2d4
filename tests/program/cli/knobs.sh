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
named=$(find "$source/src" -name '*.[ch]' ! -name knobs.c ! -name status.c -exec grep -oh '"GYRE_[A-Z][A-Z0-9_]*"' {} + |
    tr -d '"' | sort -u)
shown=$("$gyre" show env | sed -n 's/^\(GYRE_[A-Z0-9_]*\) .*/\1/p' | sort -u)
[ "$(echo "$named" | wc -l)" -gt 20 ] || offend "only these names were found in src/: $named"
for name in $named; do
    echo "$shown" | grep -qx "$name" || offend "$name is read in src/ but is not in src/cli/show/knobs.c"
done
for name in $shown; do
    echo "$named" | grep -qx "$name" || offend "$name is in src/cli/show/knobs.c, but nothing in src/ reads it"
    grep -q "\`$name\`" "$source/docs/environment.md" || offend "$name is missing in docs/environment.md"
done

expect() { # pattern, then the command's words
    pattern=$1
    shift
    "$@" 2>&1 | grep -q -- "$pattern" || offend "not found in $*: $pattern"
}

expect '^GYRE_LANES  *chosen  *default ' "$gyre" show env
expect '^GYRE_LANES  *3  *environment ' env GYRE_LANES=3 "$gyre" show env
expect '"name":"GYRE_ALGO","value":"a\\"b\\\\","origin":"environment","same":true' env 'GYRE_ALGO=a"b\' "$gyre" show env --json
expect '^GYRE_KEY  *(set)  *environment ' env GYRE_KEY=0123456789 "$gyre" show env
env GYRE_KEY=0123456789 "$gyre" show env --json | grep 0123456789 && offend "the key was printed"
expect 'GYRE_LANES is "9": expected a whole number from 1 to 8' env GYRE_LANES=9 "$gyre" show env
expect 'GYRE_TRANSPORT is "smh": expected auto, shm, tcp or verbs (did you mean "shm"?)' env GYRE_TRANSPORT=smh "$gyre" show env
expect 'GYRE_KERNELS is "avx9": expected scalar' env GYRE_KERNELS=avx9 "$gyre" show env
expect '^GYRE_KERNELS  *scalar  *environment ' env GYRE_KERNELS=scalar "$gyre" show env
expect 'tuning file /nowhere/prices: No such file' env GYRE_TUNE_FILE=/nowhere/prices "$gyre" show env
expect 'GYRE_SLICE is "0": expected more than 0' env GYRE_SLICE=0 "$gyre" show env
expect 'GYRE_JOIN_TIMEOUT is "0s": expected more than 0' env GYRE_JOIN_TIMEOUT=0s "$gyre" show env
expect 'GYRE_SLICE is "0B": expected more' env GYRE_SLICE=0B "$gyre" show choices
expect 'GYRE_ALGO is "rign"' env GYRE_ALGO=rign "$gyre" show env
expect 'GYRE_ALGO is "rign"' env GYRE_ALGO=rign GYRE_LANES=9 "$gyre" show env
expect 'GYRE_LANES is "9"' env GYRE_ALGO=rign GYRE_LANES=9 "$gyre" show env
[ "$(env GYRE_REPRODUCIBLE=7 "$gyre" show env 2>&1 >/dev/null | wc -l)" = 1 ] || offend "GYRE_REPRODUCIBLE=7 is told twice"
expect 'nothing reads GYRE_AGLO (did you mean "GYRE_ALGO"?)' env GYRE_AGLO=ring "$gyre" show env
env GYRE_TEST_SLOW=1 GYRE_OTHERWISE=1 "$gyre" show env 2>&1 | grep 'nothing reads' && offend "what is like no knob was told"
env GYRE_LANES=9 "$gyre" show env >/dev/null 2>&1
[ $? = 2 ] || offend "a wrong value does not end with 2"

prices=$(mktemp)
trap 'rm -f "$prices"' EXIT
printf 'gyre-tuning 1\nshm.kib_ps 77\nvalues 1\n' >"$prices"
expect '^  shm.kib_ps 77$' env GYRE_TUNE_FILE="$prices" "$gyre" show env
printf 'gyre-tuning 1\nshm.kib_ps 77\n' >"$prices"
expect 'line 2: it ends without "values"' env GYRE_TUNE_FILE="$prices" "$gyre" show env

[ "$offences" = 0 ]
