#!/bin/sh
# gyre trace --torch: the analyser that comes with PyTorch reads what a real job did, and names the
# rank that called with another count, and the one that was killed. Exits with 77 where PyTorch, or
# its analyser, is absent.
#
#     trace_torch.sh SOURCE BUILD
set -u
build=$2
python=${XDG_CACHE_HOME:-$HOME/.cache}/gyre/torch/bin/python
if ! "$python" -c 'import torch.distributed.flight_recorder.fr_trace' 2>/dev/null; then
    echo "no PyTorch with an analyser of flight records here: ./do packages torch fetches it"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Runs four ranks of which one hurts itself at its 21st call, and has the analyser look at them.
analyse() { # the number of the fault, the rank
    mkdir "$work/traces" "$work/dumps"
    GYRE_TRACE=$work/traces "$build/gyre" run -n 4 -- "$build/tests/program_cli_why_faults" \
        "$1" 4 "$2" 21 >"$work/said" 2>&1
    "$build/gyre" trace "$work/traces" --torch "$work/dumps/gyre_" || exit 1
    "$python" -m torch.distributed.flight_recorder.fr_trace "$work/dumps" -p gyre_ \
        >"$work/found" 2>&1
    code=$?
    rm -r "$work/traces" "$work/dumps"
    return $code
}

expect() { # a line of what the analyser has found
    grep -q -e "$1" "$work/found" && return
    echo "the analyser does not say: $1"
    tail -n 40 "$work/found"
    exit 1
}

analyse 2 2 || expect 'the analyser ends without an error' # a wrong count
expect 'Collective sequence number: 21 has errors'
expect 'collective: c10d:all_reduce'
expect "Culprit rank 2; Error type: SIZE_OR_SYNTAX_MISMATCH.*'\[\[8\]\]'.*'\[\[9\]\]'"
analyse 0 1 || expect 'the analyser ends without an error' # killed
expect 'Not all ranks joining collective, sequence number: 21'
expect 'missing ranks: {1}'
