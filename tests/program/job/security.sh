#!/bin/sh
# What protects TCP's bytes: by default and as GYRE_TCP_SECURITY says, between simulated nodes and
# inside one machine; and what is refused. Values that differ between ranks: program/cli/knobs.sh.
set -u
gyre=$2/gyre
offences=0
unset $(env | sed -n 's/^\(GYRE_[A-Z_]*\)=.*/\1/p') GYRE_NONE

offend() {
    echo "$*"
    offences=$((offences + 1))
}

train() { # flags of gyre run, variables: what the ranks say
    flags=$1
    shift
    # shellcheck disable=SC2086 # several words
    env GYRE_TRANSPORT=tcp GYRE_LOG=debug "$@" "$gyre" run $flags "$gyre" train --preset wine \
        --epochs 1 2>&1
}

expect() { # wanted words, flags of gyre run, variables
    wanted=$1
    shift
    told=$(train "$@")
    [ "$(echo "$told" | grep -c "frames to rank [01] by tcp are $wanted\$")" = 2 ] ||
        offend "$*: both ranks should say $wanted: $told"
    [ "$(echo "$told" | grep -c "the watch's messages to rank [01] are $wanted\$")" = 2 ] ||
        offend "$*: both watches should say $wanted: $told"
    echo "$told" | grep -q 'done: 1 epoch' || offend "$*: the job failed: $told"
}

refuse() { # wanted words, variables
    wanted=$1
    shift
    told=$(train '--simulate-nodes 1+1' "$@")
    [ $? = 2 ] || offend "$*: not refused with exit code 2: $told"
    echo "$told" | grep -q "$wanted" || offend "$*: not told that $wanted: $told"
}

expect authenticated '--simulate-nodes 1+1' A=
expect authenticated '--simulate-nodes 1+1' GYRE_TCP_SECURITY=auto GYRE_TCP_CONNECTIONS=3
expect encrypted '--simulate-nodes 1+1' GYRE_TCP_SECURITY=encrypt
expect summed '--simulate-nodes 1+1' GYRE_TCP_SECURITY=none
expect summed '--simulate-nodes 1+1' GYRE_AUTH=none
expect summed '-n 2' A=
expect authenticated '-n 2' GYRE_TCP_SECURITY=auth GYRE_TCP_SUMS=header
refuse "GYRE_TCP_SECURITY=auth needs the job's key" GYRE_AUTH=none GYRE_TCP_SECURITY=auth
refuse "GYRE_TCP_SECURITY=encrypt needs the job's key" GYRE_AUTH=none GYRE_TCP_SECURITY=encrypt
refuse 'did you mean "auth"' GYRE_TCP_SECURITY=atuh

[ "$offences" = 0 ]
