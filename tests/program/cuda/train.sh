#!/bin/sh
# gyre train --device cuda over the stand-in for CUDA, beside the same training on the CPU: with
# Gyre's own products, which both sum alike, the weights are the same bytes; and what is refused.
# In haste ConvNets train with a fifth as many images as there are digits, images of 28 x 28 come in
# one size of batch, not two, and what another case has among more is left out.
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
launcher= # of a training beside this script
trap '[ -z "$launcher" ] || kill "$launcher"; rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
failed=0
# shellcheck source=tests/haste.sh
. "$1/tests/haste.sh"
export GYRE_BLAS=own NO_COLOR=1
grep -qw fma /proc/cpuinfo || {
    echo "skipped: this CPU's own products have no fused multiply-add, as the device's have"
    exit 77
}

# Runs a case, but for haste: another one has what it tries.
unless_in_haste() {
    [ -n "$haste" ] || "$@"
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

# So many images of the tool's own bytes, 8 or 28 places wide, in octal; classes 0 to 7 take turns.
images() { # name, how many, width
    {
        printf "\\000\\000\\010\\003\\000\\000\\000\\$(printf %03o "$2")"
        printf "\\000\\000\\000\\$(printf %03o "$3")\\000\\000\\000\\$(printf %03o "$3")"
        head -c 118816 "$tool" | tail -c $(($2 * $3 * $3))
    } >"$folder/$1"
    {
        printf "\\000\\000\\010\\001\\000\\000\\000\\$(printf %03o "$2")"
        for group in $(seq $(($2 / 8))); do printf '\000\001\002\003\004\005\006\007'; done
    } >"$folder/$1-labels"
}

digits='--data digits:test' third=120 fifth=72 ninth=40
[ -z "$haste" ] || {
    images small 72 8
    digits="--data $folder/small --labels $folder/small-labels" third=24 fifth=14 ninth=8
}

unless_in_haste same "--preset wine --epochs 4"
same "--preset wine --epochs 3 --ranks 2 --optimizer adamw --clip 0.5 --wire bf16"
same "--preset wine --epochs 2 --ranks 3 --sharded --accumulate 2 --batch 5"
unless_in_haste same "$digits --model convnet --epochs 1 --batch $fifth --ranks 2 \
    --sync-batch-norm --precision bf16"
unless_in_haste same "--preset wine --epochs 2 --precision f16"

# Steps that are graphs, beside a last short one in each epoch, and with the digits' images: the
# bytes are those of single launches, which are the CPU's.
graphs() { # steps that are graphs, or these and how many graphs in all; options
    GYRE_LOG=info
    export GYRE_LOG
    same "$2"
    unset GYRE_LOG
    grep -q " ${1%,*} steps were graphs${1#"${1%,*}"}" "$folder/cuda.out" || {
        echo "not $1 steps were graphs: $2: $(grep 'were graphs' "$folder/cuda.out")"
        failed=1
    }
}

graphs '12 of 19' "--preset wine --epochs 4 --optimizer adamw --schedule cosine --clip 0.5"
graphs '8 of 14' "--preset wine --epochs 3 --optimizer sgd --momentum 0.9 --precision f16"
unless_in_haste graphs '2 of 5' "$digits --model convnet --epochs 2 --batch $third \
    --precision bf16"

# Evaluations of several batches, of which each but the first comes while one is computed.
several='--data random:3000,60,5 --layers 60,5 --epochs 2 --batch 300 --validation 0.5 --test none'
graphs '6 of 9' "$several"
grep -q '8 of 10 batches were brought ahead' "$folder/cuda.out" || {
    echo "batches of evaluations came late: $(grep 'brought ahead' "$folder/cuda.out")"
    failed=1
}
unless_in_haste same "$several --ranks 2"

# Steps of several ranks: a graph up to each bucket, the optimiser's launches another. Rows are the
# device's, or come ahead, to two places.
several='--preset wine --epochs 3 --batch 10 --ranks 2'
graphs '17 of 23, 34 in all' "$several --optimizer adamw --clip 1"
buckets='--layers 13,170,170,3 --bucket 2000'
graphs '17 of 23, 51 in all' "$several $buckets --precision f16 --wire f16 --clip 1"
export GYRE_RESIDENT=1K
graphs '16 of 23, 48 in all' "$several $buckets"
unset GYRE_RESIDENT
graphs '2 of 5, 4 in all' "$digits --model convnet --epochs 2 --batch $ninth --ranks 3 \
    --precision bf16"

# The first batch of a step, those between and the last; and steps of a sharded engine.
graphs '12 of 19, 44 in all' "--preset wine --epochs 4 --batch 10 --accumulate 3 --clip 0.5"
graphs '17 of 23, 34 in all' "$several --sharded --optimizer adamw --clip 1"
graphs '12 of 19, 12 in all' "--preset wine --epochs 4 --sharded --clip 0.5"
export GYRE_GRAPHS=0
unless_in_haste graphs '0 of 14' "--preset wine --epochs 3"
graphs '0 of 23, 0 in all' "$several"
unset GYRE_GRAPHS

# In several buckets, which are reduced beside the backward pass.
unless_in_haste same "--preset wine --layers 13,60,50,3 --epochs 2 --ranks 2 --bucket 2000 --clip 1"
unless_in_haste same "--preset wine --layers 13,60,50,3 --epochs 2 --ranks 2 --bucket 2000 \
    --wire f16 --precision f16"
same "--preset wine --layers 13,60,50,3 --epochs 2 --ranks 3 --bucket 2000 --sharded \
    --wire bf16 --optimizer adam --compare-every 1"

# What is told of steps: all but times, and losses, whose sums go another way.
told_of_steps() {
    cut -d, -f2-4,6-9,12 "$folder/$1.csv"
    grep -o 'step [0-9]*: .*' "$folder/$1.out"
}

# The same numbers, also of steps that are left out, and the same end, where that is one.
tells() { # words of the table or the end, options
    for device in cpu cuda; do
        rm -f "$folder/$device.csv"
        # shellcheck disable=SC2086
        "$tool" train --preset wine --epochs 8 --batch 30 $2 --device $device \
            --csv "$folder/$device.csv" >"$folder/$device.out" 2>&1
    done
    told_of_steps cpu >"$folder/wanted"
    told_of_steps cuda | diff "$folder/wanted" - || {
        echo "tells otherwise: $2"
        failed=1
    }
    grep -q "$1" "$folder/wanted" || {
        echo "\"$1\" is not told: $2"
        failed=1
    }
}

unless_in_haste tells ',1024,' "--precision f16 --optimizer adam --lr 1000"
tells ',512,' "--precision f16 --optimizer adam --lr 1000 --ranks 2"
tells ',512,' "--precision f16 --optimizer adam --lr 1000 --ranks 2 --sharded"
tells ',' "--optimizer sgd --lr 1 --clip 0.3 --ranks 2"
unless_in_haste tells 'step 5: rank 0 has a NaN' "--optimizer sgd --lr 1e6"
tells 'step 5: rank 0 has a NaN' "--optimizer sgd --lr 1e6 --accumulate 2"
tells 'step 5: ' "--optimizer sgd --lr 1e6 --ranks 2"
tells 'step 5: ' "--optimizer sgd --lr 1e6 --ranks 2 --sharded"

# Images of 28 x 28, whose places are more than a block of a product.
images large 24 28
batches='4 12' epochs=2
[ -z "$haste" ] || batches=12 epochs=1 # the larger, whose blocks are more
large="--data $folder/large --labels $folder/large-labels --test $folder/large"
for batch in $batches; do
    same "$large --test-labels $folder/large-labels --model convnet --epochs $epochs \
        --batch $batch --ranks 2 --sync-batch-norm --precision bf16"
done
unless_in_haste same "--preset wine --epochs 3 --ranks 2 --optimizer sgd --momentum 0.9 \
    --compare-every 1"

# Samples are on the device where they fit, and come from the host where they do not: the same run.
parts=2
resides() { # bytes of the device, words
    rm -rf "$folder/bytes-$1"
    FAKECUDA_MEMORY=$1 GYRE_LOG=info "$tool" train --data random:1200,600,5 --test none \
        --layers 600,5 --epochs 3 --batch 360 --accumulate $parts --validation 0.1 --device cuda \
        --save "$folder/bytes-$1" >"$folder/out" 2>&1 || failed=1
    grep -q "$2" "$folder/out" || {
        echo "\"$2\" is missing: $(tail -n 2 "$folder/out")"
        failed=1
    }
}

case $tool in *_fake)
    resides 20000000 "batches come from the host: 1080 samples are 2 MiB, more than one part in 8"
    grep -q '6 of 9 batches were brought ahead' "$folder/out" || failed=1
    resides 1000000000 "all 1080 samples of 600 numbers are on the device"
    cmp "$(newest "$folder/bytes-20000000")" "$(newest "$folder/bytes-1000000000")" || failed=1
    parts=1 # steps are graphs, of two places where rows come ahead
    resides 20000000 "of 9 batches were brought ahead"
    grep -q '4 of 8 steps were graphs' "$folder/out" || failed=1
    resides 1000000000 "5 of 8 steps were graphs"
    export GYRE_RESIDENT=2M
    resides 1000000001 "samples are 2 MiB, more than GYRE_RESIDENT of the device's memory"
    unset GYRE_RESIDENT
    cmp "$(newest "$folder/bytes-20000000")" "$(newest "$folder/bytes-1000000000")" || failed=1
    ;;
esac

# A run goes on where it ended, on the other kind: there, and back. So do the sums that halves could
# not hold.
train() { # folder, epochs, device, other options
    saved=$1 epochs=$2 device=$3
    shift 3
    "$tool" train --preset wine --optimizer adam --epochs "$epochs" --device "$device" \
        --save "$folder/$saved" "$@" >"$folder/out" 2>&1 || {
        echo "failed: $epochs epochs on $device: $(tail -n 2 "$folder/out")"
        failed=1
    }
}
goes_on() { # other options
    rm -rf "$folder/one" "$folder/two"
    train one 6 cpu "$@"
    train two 2 cuda "$@"
    train two 4 cpu "$@" --resume
    train two 6 cuda "$@" --resume
    cmp "$(newest "$folder/one")" "$(newest "$folder/two")" || failed=1
}

unless_in_haste goes_on
goes_on --ranks 2 --wire bf16
goes_on --ranks 2 --sharded

# The process of a rank that the launcher started.
process_of() { # launcher, rank
    for process in $(grep -ls "^PPid:.$1\$" /proc/[0-9]*/status); do
        pid=${process#/proc/}
        pid=${pid%/status}
        tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "RANK=$2" && echo "$pid"
    done
}

# Until the words have been told, or the run has ended. What an earlier run has told must be gone:
# a process behind "&" empties its file when it comes to run.
told() { # launcher, words
    until grep -Eq "$2" "$folder/out"; do
        kill -0 "$1" 2>/dev/null || return 1
        sleep 0.1
    done
}

# A rank is killed when the loss is low, and the others go on from their values, which lie on the
# device. The rank comes back, to its own device.
devices=
case $tool in *_fake) devices='--devices 1,2,0' ;; esac
: >"$folder/out"
# shellcheck disable=SC2086 # the devices are two words, or none
FAKECUDA_DEVICES=3 "$tool" train --preset wine --ranks 3 --elastic 1 --restarts 1 --epochs 100000 \
    --device cuda $devices --optimizer adamw --batch 10 --tail once --test none \
    >"$folder/out" 2>&1 &
launcher=$!
told $launcher '^epoch ([2-9][0-9]|[0-9]{3,})/'
kill -9 "$(process_of $launcher 1)" || kill $launcher
told $launcher '2 ranks go on from step'
told $launcher 'taken in rank 2|does not fit|refuses'
grep -q 'taken in rank 2' "$folder/out" || failed=1
behind=$(grep -c '' "$folder/out")
until [ "$(sed "1,${behind}d" "$folder/out" | grep -c '^epoch')" -ge 3 ]; do
    kill -0 $launcher 2>/dev/null || break
    sleep 0.1
done
kill $launcher
wait $launcher
launcher=
sed "1,${behind}d" "$folder/out" | grep '^epoch' | grep -q 'loss 0\.[01]' || {
    echo "a rank was lost: $(tail -n 3 "$folder/out")"
    failed=1
}
sed "1,${behind}d" "$folder/out" | grep '^epoch' | grep -v 'loss 0\.[01]' && failed=1

# A rank that is left alone by the loss of the other goes on from its values, by graphs.
case $tool in *_fake) devices='--devices 1,0' ;; esac
: >"$folder/out"
# shellcheck disable=SC2086 # the devices are two words, or none
FAKECUDA_DEVICES=2 GYRE_LOG=info "$tool" train --preset wine --ranks 2 --elastic 1 \
    --epochs 100000 --device cuda $devices --optimizer adamw --batch 10 --tail once --test none \
    >"$folder/out" 2>&1 &
launcher=$!
told $launcher '^epoch ([2-9][0-9]|[0-9]{3,})/'
kill -9 "$(process_of $launcher 1)" || kill $launcher
told $launcher '1 rank goes on from step'
behind=$(grep -c '' "$folder/out")
until [ "$(sed "1,${behind}d" "$folder/out" | grep -c '^epoch')" -ge 3 ]; do
    kill -0 $launcher 2>/dev/null || break
    sleep 0.1
done
kill $launcher
wait $launcher
launcher=
sed "1,${behind}d" "$folder/out" | grep '^epoch' | grep -q 'loss 0\.[01]' &&
    grep -q '[1-9][0-9]* of [0-9]* steps were graphs' "$folder/out" || {
    echo "a rank was left alone: $(tail -n 3 "$folder/out")"
    failed=1
}

refused "device" "--preset wine --device gpu"

# Ranks of both kinds are told so, all alike.
# shellcheck disable=SC2016 # each rank has its own RANK
"$tool" run -n 2 sh -c 'kind=cpu
    [ "$RANK" = 1 ] || kind=cuda
    exec "$0" train --preset wine --epochs 1 --device $kind' "$tool" >"$folder/out" 2>&1 && failed=1
grep -q -e '--device is cuda on rank 0 .* and cpu on rank 1' "$folder/out" || {
    echo "ranks of both kinds: $(tail -n 2 "$folder/out")"
    failed=1
}
case $tool in *_fake) ;; *) exit $failed ;; esac
FAKECUDA_DEVICES=0 refused "CUDA" "--preset wine --epochs 1 --device cuda"
FAKECUDA_MEMORY=1048576 refused "no memory for batches of 256 samples, outputs of layer 1: 65536" \
    "--preset wine --epochs 1 --device cuda"
FAKECUDA_MEMORY=20000000 refused "no memory for '0.weight': 106496 bytes: .* are free" \
    "--preset wine --epochs 1 --device cuda --layers 13,2048,1024,3 --batch 10 --test none"
exit $failed
