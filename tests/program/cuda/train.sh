#!/bin/sh
# gyre train --device cuda over the stand-in for CUDA, beside the same training on the CPU: with
# Gyre's own products, which both sum alike, the weights are the same bytes; and what is refused.
#
#     train.sh SOURCE BUILD [TOOL]
#
# TOOL is one that computes on a real device, as tests/gpu/run has it; nothing is planted there.
set -u
tool=${3:-$2/tests/gyre_fake}
[ -x "$tool" ] || {
    echo "skipped: there is no C++ compiler for the stand-in's kernels"
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
export GYRE_BLAS=own GYRE_NO_COLOR=1
grep -qw fma /proc/cpuinfo || {
    echo "skipped: this CPU's own products have no fused multiply-add, as the device's have"
    exit 77
}

# What was printed of losses and accuracies.
losses() {
    grep '^epoch.*accuracy' "$folder/$1.out" | sed 's/ *exposed.*//; s/ *[0-9,]* samples.*//'
}

# Trains twice with the options, and compares losses as they are printed, and weights and running
# figures by their bytes. (training.safetensors has the best loss, whose sum goes another way.)
same() {
    rm -rf "$folder/cpu" "$folder/cuda"
    for device in cpu cuda; do
        # shellcheck disable=SC2086 # the options are words
        "$tool" train $1 --device $device --save "$folder/$device" >"$folder/$device.out" 2>&1 || {
            echo "failed: $1 --device $device: $(tail -n 2 "$folder/$device.out")"
            failed=1
            return
        }
    done
    for path in "$folder"/cpu/*/model.safetensors; do
        cmp "$path" "$folder/cuda/${path#"$folder/cpu/"}" || {
            echo "differs: $1"
            failed=1
        }
    done
    [ -n "$(ls "$folder"/cuda/*/model.safetensors)" ] || failed=1
    losses cpu >"$folder/wanted"
    losses cuda | diff "$folder/wanted" - || failed=1
    [ -s "$folder/wanted" ] || failed=1
}

# The newest weights in a folder of checkpoints.
newest() {
    ls "$1"/step-*/model.safetensors | tail -n 1
}

refused() { # words of the sentence, options
    # shellcheck disable=SC2086
    "$tool" train $2 >"$folder/out" 2>&1 && {
        echo "taken: $2"
        failed=1
    }
    grep -q "$1" "$folder/out" || {
        echo "\"$1\" is missing: $2: $(tail -n 2 "$folder/out")"
        failed=1
    }
}

same "--preset wine --epochs 4"
same "--preset wine --epochs 3 --ranks 2 --optimizer adamw --clip 0.5 --wire bf16"
same "--preset wine --epochs 2 --ranks 3 --sharded --accumulate 2 --batch 5"
same "--data digits:test --model convnet --epochs 1 --batch 72 --ranks 2 --sync-batch-norm \
    --precision bf16"
same "--preset wine --epochs 2 --precision f16"
same "--preset wine --epochs 3 --ranks 2 --optimizer sgd --momentum 0.9 --compare-every 1"

# A run goes on where it ended, on the other kind: there, and back.
rm -rf "$folder/one" "$folder/two"
train() { # folder, epochs, device, other options
    saved=$1 epochs=$2 device=$3
    shift 3
    "$tool" train --preset wine --optimizer adam --epochs "$epochs" --device "$device" \
        --save "$folder/$saved" "$@" >"$folder/out" 2>&1 || {
        echo "failed: $epochs epochs on $device: $(tail -n 2 "$folder/out")"
        failed=1
    }
}
train one 6 cpu
train two 2 cuda
train two 4 cpu --resume
train two 6 cuda --resume
cmp "$(newest "$folder/one")" "$(newest "$folder/two")" || failed=1

refused "device" "--preset wine --device gpu"
case $tool in *_fake) ;; *) exit $failed ;; esac
FAKECUDA_DEVICES=0 refused "CUDA" "--preset wine --epochs 1 --device cuda"
FAKECUDA_MEMORY=1048576 refused "memory" "--preset wine --epochs 1 --device cuda"
exit $failed
