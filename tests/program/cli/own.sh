#!/bin/sh
# `gyre show FILE` as its users type it: a schedule of every operation, from a file, is printed as
# it was, played, and run by real processes, which find every number right. What has a defect, or
# cannot run, is refused with its reason, and starts nothing. In haste sockets carry three of the
# schedules: a sum, one with a root, and one with a block for each pair.
#
#     own.sh SOURCE BUILD
set -u
source=$1
command=show
. "$1/tests/program/cli/expect.sh"
runs=0

run_own() { # transport, words behind `gyre show` that print a schedule
    transport=$1
    shift
    "$gyre" show "$@" --json >own.json
    expect 0 'every number is right' own.json --run --backend "$transport"
    [ "$(grep -c '^ *[0-9][0-9]* ' said)" -ge 3 ] || offend "gyre show $*: lacks a time"
    runs=$((runs + 1))
}

for transport in shm tcp; do
    run_own $transport all_reduce --algo ring -n 3 -c 7
    run_own $transport broadcast --root 2 -n 3
    run_own $transport all_to_all -n 3
    [ $transport = shm ] || [ -z "$haste" ] || continue
    run_own $transport all_reduce --algo knomial -n 4
    run_own $transport reduce --root 1 -n 3 --type-bytes 8
    run_own $transport all_gather -n 3 --type-bytes 1
    run_own $transport reduce_scatter -n 3 --type-bytes 2
    run_own $transport gather --root 1 -n 3
    run_own $transport scatter --root 2 -n 3
done

# What is printed of a file is what was read.
"$gyre" show all_reduce --algo ring -n 5 --json >ring.json
"$gyre" show ring.json --json >again.json
cmp -s ring.json again.json || { : >said; offend "the JSON of a file is not the file"; }
expect 0 'rank 0' ring.json
expect 0 'open it in a browser' ring.json --html ring.html
[ -s ring.html ] || offend "no page was written"

# A page plays a defect, and says so.
expect 1 'rank 2, round 1' "$source/docs/learn/exercises/3-ring.json" --html wrong.html
[ -s wrong.html ] || offend "no page of a defect was written"

# Twenty lines of C.
if cc "$source/docs/learn/exercises/star.c" -o star 2>said; then
    ./star 5 >star.json
    expect 0 'every number is right' ./star.json --run
else
    offend "star.c does not compile"
fi

expect 1 'is not run, for it has a defect' "$source/docs/learn/exercises/3-ring.json" --run
"$gyre" show all_gather --counts 3,0,5 --json >unequal.json
expect 2 'equal blocks' unequal.json --run
"$gyre" show all_reduce -n 3 --type-bytes 12 --json >wide.json
expect 2 '1, 2, 4 or 8 bytes' wide.json --run
"$gyre" show all_reduce -n 65 --json >many.json
expect 2 '2 to 64 ranks' many.json --run
"$gyre" show all_reduce -n 1 --json >alone.json
expect 2 '2 to 64 ranks' alone.json --run
expect 2 'backend' ring.json --run --backend pigeon
expect 1 'absent.json' absent.json --run
echo '{"operation": "dance"}' >dance.json
expect 2 'line 1' dance.json --run
[ $offences = 0 ] && echo "$runs schedules from files ran, and every number was right"
