#!/bin/sh
# examples/jobset.yaml as far as it goes without Kubernetes: its command, run once for each pod with
# the variables that the manifest gives, joins all ranks, trains, and continues after a restart.
#
# The first pod's name, which Gyre finds by itself there, is given here. Replaced are the paths of
# the volumes and the image's `gyre`. Whether Kubernetes takes the manifest is not tested.
set -u
source=$1
build=$2
manifest=$source/examples/jobset.yaml
folder=$(mktemp -d /tmp/gyre-jobset-XXXXXX)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "program/job/jobset: $*"
    tail -n 5 "$folder"/*.txt 2>/dev/null
    exit 1
}

value_of() { # the value behind `name: NAME`
    sed -n "/- name: $1\$/{n;s/^ *value: //;s/\"//g;p}" "$manifest"
}

ranks=$(value_of WORLD_SIZE)
for field in completions parallelism; do
    [ "$(sed -n "s/^ *$field: //p" "$manifest")" = "$ranks" ] || fail "$field is not $ranks"
done
command=$(sed -n 's/^ *- \(exec gyre.*\)/\1/p' "$manifest" |
    sed "s,/checkpoints,$folder/checkpoints,")
[ -n "$command" ] || fail 'no command was found'
if command -v openssl >/dev/null; then
    openssl rand -hex 32 >"$folder/key"
else
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$folder/key"
fi
chmod 0400 "$folder/key"

# Every pod of one start; the port is the manifest's plus a number of this process.
start() { # which start, counted from 0
    running= code=0
    for pod in $(seq 0 $((ranks - 1))); do
        env PATH="$build:$PATH" JOB_COMPLETION_INDEX="$pod" WORLD_SIZE="$ranks" \
            MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) \
            GYRE_KEY_FILE="$folder/key" GYRE_EPOCH="$1" \
            sh -c "$command" >"$folder/$1-$pod.txt" 2>&1 &
        running="$running $!"
    done
    for pid in $running; do
        wait "$pid" || code=$?
    done
    [ "$code" = 0 ] || fail "start $1 ended with $code"
}

start 0
grep -q "$ranks ranks on 1 node" "$folder/0-0.txt" || fail "the $ranks pods did not join"
ls -d "$folder"/checkpoints/step-* >/dev/null 2>&1 || fail 'nothing was saved'
start 1
! grep -q 'epoch 1/' "$folder/1-0.txt" || fail 'the second start began anew'
echo "the command of examples/jobset.yaml trains on $ranks pods, and continues after a restart"
