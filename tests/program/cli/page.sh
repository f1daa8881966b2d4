#!/bin/sh
# Runs page.py, the test of the page of `gyre show --html`, in Debian's Chromium. Exits with 77
# where the browser, its driver or Selenium is absent. In haste every third schedule is played.
#
#     page.sh SOURCE BUILD
set -eu
source=$1
build=$2
python=${XDG_CACHE_HOME:-$HOME/.cache}/gyre/browser/bin/python
for program in chromium chromedriver "$python"; do
    if ! command -v "$program" >/dev/null; then
        echo "no $program here: ./do packages browser fetches it"
        exit 77
    fi
done
# shellcheck source=tests/haste.sh
. "$source/tests/haste.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1 "$python" "$source/tests/program/cli/page.py" "$build/gyre" "$work" \
    "$source/docs/learn/exercises" "${haste:+3}"
