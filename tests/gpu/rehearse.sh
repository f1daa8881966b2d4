#!/bin/sh
# tests/gpu/run over the stand-in for CUDA, with the steps that are no tests of their own: what they
# leave, and that a step which hangs is told, is ended, and costs the others nothing.
#
#     rehearse.sh SOURCE BUILD
set -u
cd "$1" || exit 1
build=$2
[ -x "$build/tests/gyre_fake" ] || {
    echo "skipped: there is no C++ compiler for the stand-in's kernels"
    exit 77
}
[ -z "${GYRE_TEST_SLOW:-}" ] || {
    echo "skipped: its steps have time limits of their own, which are for programs at full speed"
    exit 77
}
[ -n "${GYRE_TEST_ALL:-}" ] || {
    echo "skipped: a rehearsal is among all tests: ./do test --all gpu/rehearse"
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

rehearse() { # steps, the exit code wanted, variables
    steps=$1 wanted=$2
    shift 2
    rm -rf "$folder/out"
    env SECONDS_MOST=900 SECONDS_EACH=240 ONLY="^($steps)\$" GYRE_LOG=error "$@" \
        tests/gpu/run --rehearse "$build" "$folder/out" >"$folder/told" 2>&1
    code=$?
    [ $code = "$wanted" ] && return
    echo "$steps: exit code $code, not $wanted"
    cat "$folder/told" "$folder"/out/*.log
    failed=1
}

has() { # words, a file
    # shellcheck disable=SC2086 # the file is a pattern
    grep -q "$1" $2 || {
        echo "\"$1\" is not in $2:"
        cat $2
        failed=1
    }
}

# held tries what a strict driver may hang at: here the stand-in is a lenient one. torch is missing.
export FAKECUDA_ENGINES=0 FAKECUDA_WAITS=0 FAKECUDA_DEPTH=1000000
rehearse 'device|held|all_reduce_2_.*|link_2_one|train_.*|graphs|feed|torch' 3
[ "$(ls "$folder/out" | wc -l)" = 3 ] || {
    echo "not three files: $(ls "$folder/out")"
    failed=1
}
has '^| held | 0 | .* 2 ranks: .* us each' "$folder/out/*.md"
has '^| all_reduce_2_in_one_process | 0 | .* bandwidth' "$folder/out/*.md"
has '^| train_wide_bf16 | 0 | .* samples/s' "$folder/out/*.md"
has '^| graphs | 0 | .* steps/s: [0-9.]* with GYRE_GRAPHS=1, [0-9.]* with' "$folder/out/*.md"
has '^| feed | 0 | .* steps/s: [0-9.]* with GYRE_RESIDENT=1, ' "$folder/out/*.md"
has '^| torch | missing ' "$folder/out/*.md"
has '^{"name": "train_mlp", "code": "0", ' "$folder/out/*.json"
! command -v python3 >/dev/null || python3 -m json.tool "$folder"/out/*.json >/dev/null || failed=1

# The step that hangs is ended and has failed; what comes behind it is run.
rehearse 'held|link_2_one' 1 HANG=held SECONDS_EACH=60
has '^| held | 124 ' "$folder/out/*.md"
has '^| link_2_one | 0 ' "$folder/out/*.md"
exit $failed
