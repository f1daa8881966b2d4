#!/bin/sh
# `gyre plan` as its users type it: the best is what `gyre show choices` says, the parts add up, a
# slow link costs what its bytes take, a hundred thousand ranks are planned, and nonsense is refused
# with the right form. In haste the large clusters are a tenth as large, and of 1024 simulated ranks
# a broadcast is taken.
#
#     plan.sh SOURCE BUILD
set -u
command=plan
. "$1/tests/program/cli/expect.sh"

near() { # what, a number, another: equal to a tenth of a percent
    awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; exit !(d * d <= a * a / 1e6 && a > 0) }' ||
        offend "$1: $2 and $3 differ"
}

# The same answer as `gyre show choices`, which knows the built-in network: 25G:15us. It has less
# time, so not of the longest operations of many ranks.
for asked in '8 8 1' '64K 8 1' '1M 8 1' '16M 8 1' '8 4 4' '64K 4 4' '1M 4 4' '8 16 2' '64K 16 2'; do
    set -- $asked
    chosen=$("$gyre" show choices --nodes "${2}x$3" -b "$1" -e "$1" --json |
        sed -n 's/.*"algorithm":"\([a-z_]*\)".*/\1/p')
    expect 0 "\"best\":\"$chosen\"" --nodes "$2" --ranks "$3" --link 23.405714G:15us \
        --size "$1" --json
done

# The parts are the whole.
expect 0 best --nodes 16 --ranks 4 --link 100G:5us --size 64M --json
sum=$(sed -n 's/.*"parts_us":{\([^}]*\)}.*/\1/p' said | tr ',' '\n' |
    awk -F: '{ sum += $2 } END { printf "%.3f", sum }')
near "the parts and the time" "$(sed -n 's/.*"us":\([0-9.]*\).*/\1/p' said | head -n 1)" "$sum"

# A ring's time at a link of a tenth of the speed: that of 14 eighths of its bytes there.
lone() { # algorithm, key
    sed -n "s/.*\"algorithm\":\"$1\".*\"$2\":\([0-9.]*\),.*/\1/p" said
}
expect 0 ring --nodes 8 --link 100G:0us --slow 3:10G --size 1G --json
awk -v took="$(lone ring slow_us)" \
    'BEGIN { bytes = 14 / 8 * 2 ^ 30 / 1250; exit !(took > bytes && took < 1.02 * bytes) }' ||
    offend "a slow link: $(lone ring us) and $(lone ring slow_us)"
expect 0 'node 3 with 10 Gbit/s' --nodes 8 --link 100G:5us --slow 3:10G --size 1M
# Whichever node it is, also one that a sample of the ranks would miss.
for node in 0 17 39; do
    expect 0 slow_us --nodes 40 --ranks 2 --link 100G:0us --slow $node:10G --size 4M --json
    lone two_level slow_us
done | sort -n >slows
awk 'NR == 1 { least = $1 } END { exit !(NR == 3 && $1 < 1.1 * least) }' slows ||
    offend "the node that is slow makes a difference: $(cat slows)"

# Of a large cluster; the time is not asserted, the limit of the test is. What is too much to be
# rehearsed is marked.
nodes=12500
[ -z "$haste" ] || nodes=1250
expect 0 "$nodes nodes of 8" --nodes $nodes --ranks 8 --link 100G:5us --size 1M
grep -q 'ring .*~[0-9.]* m*s' said || offend "a ring of $nodes nodes, and it is not marked"
expect 0 '"rehearsed":true' --nodes 8 --json

# Nothing that was not rehearsed stands before what was, unless it is shorter by more than the
# formula's error.
layout='--nodes 32 --ranks 4'
[ -z "$haste" ] || layout='--nodes 32 --ranks 2'
expect 0 'rehearsed":false' $layout --link 100G:5us --size 64M --json
sed -n 's/.*"us":\([0-9.]*\),.*"rehearsed":\([a-z]*\).*/\1 \2/p' said | awk '
    $2 == "false" { formula = $1 }
    $2 == "true" { over += formula > 0 && formula > 0.69 * $1; rehearsed++ }
    END { exit over || rehearsed < 5 }' ||
    offend "the formula stands before a rehearsal: $(cat said)"

# A training step: what is not hidden is exposed.
expect 0 'exposed' --nodes 32 --link 10G:20us --model 8x1024 --compute 20ms
expect 0 '"parameters":8396800,"buckets":2' --nodes 32 --model 8x1024 --json
expect 0 '"hidden_us":0.000' --nodes 4 --link 10G:20us --model 8x1024 --json
for verb in broadcast reduce all_gather reduce_scatter all_to_all gather scatter; do
    expect 0 "$verb of" --nodes 4 --ranks 2 --op $verb --size 64K
done

# The engine itself, in virtual time, takes what was planned: every algorithm, to two percent.
simulated() { # how many algorithms at least, then the flags
    least=$1
    shift
    expect 0 simulated_us --link 10G:5us --simulate --json "$@"
    sed -n 's/.*"algorithm":"\([a-z_]*\)".*"off_percent":\([-0-9.]*\),.*/\1 \2/p' said >offs
    awk -v least="$least" '$2 > 2 || $2 < -2 { exit bad = 1 } END { exit bad || NR < least }' \
        offs || offend "$*: simulated, they are off: $(cat offs)"
}
simulated 9 --nodes 16 --size 1K
simulated 9 --nodes 13 --size 1M
simulated 9 --nodes 8 --size 100K --slow 3:5G
for verb in all_gather reduce_scatter broadcast reduce gather all_to_all; do
    simulated 2 --nodes 16 --size 20K --op $verb
done
# A sanitizer has no room for so many ranks.
if [ -z "$slow" ]; then
    operation=all_reduce least=3
    [ -z "$haste" ] || operation=broadcast least=2
    expect 0 'too large' --nodes 1024 --size 64 --simulate --op $operation
    sed -n 's/^  [a-z_]* .* us .* us  *\([-+0-9.]*\) %$/\1/p' said >offs
    awk -v least=$least '$1 > 2 || $1 < -2 { exit bad = 1 } END { exit bad || NR < least }' offs ||
        offend "of 1024 ranks, simulated, they are off: $(cat offs)"
fi
expect 2 'leave --ranks out' --ranks 2 --simulate
expect 2 'at most 4096 ranks' --nodes 5000 --size 1K --simulate
expect 2 '1G of data' --nodes 16 --size 1G --simulate
expect 2 'the --size of a bucket' --model 8x8 --simulate
expect 2 'expected 1, 2, 4 or 8' --type-bytes 3 --simulate

# The network that was measured.
printf 'gyre-tuning 1\nnetwork.latency_ns 7000\nnetwork.kib_ps 819200\nvalues 2\n' >prices
GYRE_TUNE_FILE=$PWD/prices expect 0 'each with 10 Gbit/s and 7.0 us' --link tuned
expect 2 'GYRE_TUNE_FILE names no file' --link tuned
expect 2 '100G:5us' --link 100
expect 2 '100G:5us' --link 100X:5us
expect 2 '100G:5us' --link 100G:5parsecs
expect 2 '100G:5us' --link nan:5us
expect 2 '3:10G' --slow 10G
expect 2 '0 to 3' --nodes 4 --slow 4:1G
expect 2 'not slower' --link 10G:5us --slow 1:10G
expect 2 'at most' --nodes 1048576 --ranks 2
expect 2 '8x1024' --model 8
expect 2 '8x1024' --model 0x8
expect 2 '8x1024' --model 8x8x8
expect 2 'leave --size out' --model 8x8 --size 1M
expect 2 'belongs to --model' --compute 5ms
expect 2 '20ms' --model 8x8 --compute soon
expect 2 'did you mean' --op all_reduc
expect 2 'size' --size 0
[ $offences = 0 ] && echo "plans agree with the chooser, and nonsense is refused"
