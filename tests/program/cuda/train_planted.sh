#!/bin/sh
# gyre train --device cuda, of which each call of CUDA fails, over the stand-in: the training ends
# with a sentence, or with the weights that it should have. Nothing hangs, and nothing crashes. The
# names of the calls are read from the sources.
#
#     train_planted.sh SOURCE BUILD
set -u
source=$1
tool=$2/tests/gyre_fake
[ -x "$tool" ] || {
    echo "skipped: there is no C++ compiler for the stand-in's kernels"
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0 told=0 whole=0
export GYRE_BLAS=own NO_COLOR=1

# Some steps, of which later ones are graphs, evaluations and a checkpoint.
train() { # folder
    "$tool" train --preset wine --epochs 3 --batch 71 --optimizer adam --device cuda \
        --save "$folder/$1" >"$folder/out" 2>&1
}

newest() { # folder
    ls "$folder/$1"/step-*/model.safetensors | tail -n 1
}

wrong() { # what
    echo "$FAKECUDA_FAIL: $1: $(tail -n 2 "$folder/out")"
    failed=1
}

# The nth call of that name fails.
plant() { # name, n
    rm -rf "$folder/planted"
    export FAKECUDA_FAIL="$1:$2:CUDA_ERROR_LAUNCH_FAILED"
    train planted
    code=$?
    if [ $code -ge 126 ]; then
        wrong "ended with $code"
    elif [ $code -ne 0 ]; then
        told=$((told + 1))
        grep -Eqi 'cuda|device' "$folder/out" || wrong "no sentence tells of the device"
    else
        whole=$((whole + 1))
        cmp -s "$(newest good)" "$(newest planted)" ||
            wrong "other weights, and no word"
    fi
}

train good || {
    echo "failed: nothing is planted: $(tail -n 2 "$folder/out")"
    exit 1
}
names=$(grep -oh 'cu[A-Z][A-Za-z0-9]*' "$source/src/device/cuda/inside.h" \
    "$source/src/device/cuda/calls.c" | sort -u)
for name in $names cudaLaunchKernel; do
    plant "$name" 1
done
for n in 2 3 5 8; do
    for name in cuMemcpyAsync cuEventRecord cuEventQuery cudaLaunchKernel cuCtxPushCurrent \
        cuMemCreate cuMemMap cuGraphLaunch; do
        plant $name $n
    done
done
for n in 1 2 4 8 16 32 64; do
    plant kernel $n
    plant copy $n
done
unset FAKECUDA_FAIL
echo "$told were told, $whole did no harm"
[ $told -ge 20 ] || failed=1
exit $failed
