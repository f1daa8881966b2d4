# shellcheck shell=sh
# Shared by own.sh and plan.sh: a folder to work in, and a command of the tool that is expected to
# end and to speak in a certain way. Sourced with SOURCE and BUILD as arguments.
gyre=$2/gyre
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# shellcheck disable=SC2034 # for plan.sh
slow=${GYRE_TEST_SLOW-} # under a sanitizer
# shellcheck source=tests/haste.sh
. "$1/tests/haste.sh"
unset $(env | sed -n 's/^\(GYRE_[A-Z_]*\)=.*/\1/p') GYRE_NONE
offences=0

offend() {
    echo "$*"
    cat said
    offences=$((offences + 1))
}

expect() { # exit code, a part of what it says, words behind `gyre $command`
    code=$1
    says=$2
    shift 2
    "$gyre" $command "$@" >said 2>&1
    found=$?
    [ $found = "$code" ] || offend "gyre $command $*: ends with $found, not $code"
    grep -q -- "$says" said || offend "gyre $command $*: does not say '$says'"
}
