#!/bin/sh
# Runs one test of gyre_torch: builds the extension from python/ against the library of the build
# folder, and runs the test with the torch that `./do packages torch` has fetched; or, where
# GYRE_TORCH is a version, with that of `./do packages torch VERSION`. Exits with 77 where that is
# absent.
#
#     run.sh SOURCE BUILD NAME [CASE...]      # all cases, or those named
#
# With GYRE_TEST_SANITIZE=address the extension, in a folder of its own, is watched by
# AddressSanitizer. (The library is not: `.ci/run asan` has it.)
set -eu
source=$1
build=$2
name=$3
shift 3
version=${GYRE_TORCH:+-$GYRE_TORCH}
python=${XDG_CACHE_HOME:-$HOME/.cache}/gyre/torch$version/bin/python
place=$build/python$version
watch=
if [ "${GYRE_TEST_SANITIZE:-}" = address ]; then
    place=$build/python$version-address
    # with the library of C++, whose exceptions are watched, too
    watch=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libstdc++.so)
fi
if [ ! -x "$python" ]; then
    echo "no PyTorch here: ./do packages torch${GYRE_TORCH:+ $GYRE_TORCH} fetches it"
    exit 77
fi
mkdir -p "$place/lib"
export LIBGYRE_BUILD="$build" MAX_JOBS="${MAX_JOBS:-2}" PYTHONDONTWRITEBYTECODE=1
[ ! -d /usr/lib/ccache ] || PATH=/usr/lib/ccache:$PATH # g++ by way of ccache

if [ -n "$watch" ]; then
    export CFLAGS="-fsanitize=address -fno-omit-frame-pointer" LDFLAGS="-fsanitize=address"
    export GYRE_TEST_SLOW="${GYRE_TEST_SLOW:-4}"
    # Python itself leaks. CUDA's stand-ins and torch map memory where the default leaves no room.
    export ASAN_OPTIONS="detect_leaks=0:protect_shadow_gap=0:${ASAN_OPTIONS:-}"
fi

# One test builds at a time; those after it find all built, and touch nothing that others use.
is_built() {
    [ -f "$place/stamp" ] && [ -z "$(find "$source"/python/*.py "$source/python/src" \
        "$source/python/gyre_torch" "$source/include" "$build"/src/libgyre* \
        -type f -newer "$place/stamp" | head -n 1)" ]
}

(
    flock 9
    ! is_built || exit 0
    # joined, because a shell goes on after a failure in what is left of "||"
    touch "$place/began" && cd "$source/python" &&
        "$python" setup.py egg_info --egg-base "$place/lib" build --build-base "$place/work" \
            --build-lib "$place/lib" >"$place/log" 2>&1 &&
        mv "$place/began" "$place/stamp"
) 9>"$place/lock" || {
    tail -n 40 "$place/log"
    exit 1
}
unset GYRE_TORCH # which the library does not know
cd "$place" # where no folder is called gyre_torch
[ -z "$watch" ] || export LD_PRELOAD="$watch"
PYTHONPATH=$place/lib exec "$python" "$source/tests/program/torch/$name.py" "$@"
