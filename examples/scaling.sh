#!/bin/sh
# The scaling of a ConvNet on handwritten digits, in f32 and in mixed precision: a table of each.
#
#     examples/scaling.sh                       on CPUs, 1, 2 and 4 ranks
#     examples/scaling.sh 1,2,4,8 cuda          on GPUs, as many
#     PRESET=mnist examples/scaling.sh          MNIST, with its files in this folder
#
# A row is a run of its own on so many ranks. Its columns are the batch of all ranks, the seconds of
# an epoch, samples/s, speed-up and efficiency against the first row, the communication that was not
# hidden behind the backward pass, loss and accuracy.
set -eu
ranks=${1:-1,2,4} device=${2:-cpu} preset=${PRESET:-digits}
gyre=${GYRE:-$(dirname "$0")/../build/gyre}
for precision in f32 bf16; do
    echo "== $preset, $device, $precision"
    "$gyre" train --preset "$preset" --epochs 2 --scaling "$ranks" --device "$device" \
        --precision "$precision"
done
