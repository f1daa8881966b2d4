#!/bin/sh
# The examples of layouts, over the stand-in for CUDA: uneven nodes, device lists, one box of four.
# Each runs on CPUs and on devices, unchanged, and prints the same table but for the devices. A
# device that is not there is refused. (program/ddp/device_network counts contexts: a rank has
# one, on its own device.)
#
#     examples.sh SOURCE BUILD
set -u
source=$1 build=$2
gyre=$build/tests/gyre_fake
[ -x "$gyre" ] || {
    echo "skipped: there is no C++ compiler for the stand-in's kernels"
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
export GYRE_BLAS=own GYRE_LOG=error NO_COLOR=1 FAKECUDA_DEVICES=4

# What was printed, without devices. Losses differ in the last digits of their sum.
plain() {
    sed 's/cuda [0-9]/   cpu/; s/\(0\.[0-9]\{4\}\)[0-9]*/\1/' "$folder/$1"
}

# On CPUs, then on those devices, which the lines of ranks name in this order.
same() { # example, devices in the order of ranks, options of gyre run
    example=$1 devices=$2
    shift 2
    rm -f "$folder/net"
    FAKECUDA_DEVICES=0 "$gyre" run --no-prefix "$@" "$build/tests/example_${example}_fake" \
        "$folder/net" >"$folder/cpu" 2>&1 &&
        "$gyre" run --no-prefix "$@" --devices 0,1,2,3 "$build/tests/example_${example}_fake" \
            "$folder/net" >"$folder/cuda" 2>&1 || {
        echo "$example: $(cat "$folder/cpu" "$folder/cuda")"
        failed=1
        return
    }
    grep -q '  cpu  ' "$folder/cpu" && ! grep -q cuda "$folder/cpu" || {
        echo "$example: no ranks on CPUs: $(cat "$folder/cpu")"
        failed=1
    }
    found=$(sed -n 's/.* of [0-9].*cuda \([0-9]\).*/\1/p' "$folder/cuda" | tr -d '\n')
    [ "$found" = "$devices" ] || {
        echo "$example: ranks are on devices $found, not $devices"
        failed=1
    }
    plain cpu >"$folder/wanted"
    plain cuda | diff "$folder/wanted" - || {
        echo "$example: other words on devices"
        failed=1
    }
}

same uneven 012301 --simulate-nodes 4+2
same devices 0123 -n 4
same devices 010 --simulate-nodes 2+1
same wine 01 -n 2
same save_and_load 0123 -n 4

# A list in another order, and one with a device that is not there.
"$gyre" run --no-prefix -n 2 --devices 3,1 "$build/tests/example_devices_fake" \
    >"$folder/cuda" 2>&1 || failed=1
for device in 3 1; do
    grep -q " of 2  cuda $device  100000\$" "$folder/cuda" || {
        echo "devices 3 and 1: $(cat "$folder/cuda")"
        failed=1
    }
done
"$gyre" run --no-prefix -n 2 --devices 0,7 "$build/tests/example_devices_fake" \
    >"$folder/cuda" 2>&1 && failed=1
grep -q 'gives it device 7: 4 are visible here' "$folder/cuda" || {
    echo "device 7 of 4: $(cat "$folder/cuda")"
    failed=1
}

# The table of scaling, in both precisions.
GYRE=$gyre PRESET=wine "$source/examples/scaling.sh" 1,2 cuda >"$folder/scaling" 2>&1 || failed=1
for words in '^== wine, cuda, f32$' '^== wine, cuda, bf16$' '^ *ranks .*exposed' '^ *2 '; do
    grep -q "$words" "$folder/scaling" || {
        echo "\"$words\" is missing: $(cat "$folder/scaling")"
        failed=1
    }
done
exit $failed
