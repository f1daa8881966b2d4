# shellcheck shell=sh
# The rule of rig/haste.h for scripts, which read this file with `.`: `haste` is 1 where a sweep
# takes the sample that its script's first comment names, and empty where all cases are asked for.
# shellcheck disable=SC2034 # for those scripts
haste=1
[ -z "${GYRE_TEST_ALL-}" ] || [ -n "${GYRE_TEST_SLOW-}" ] || haste=
