#!/bin/sh
# `DESTDIR=STAGE ./do install` of the build folder that the tests run in: README's program is built
# against the staged tree by pkg-config, by CMake and with the static library, and run on two ranks
# by the staged tool. Then the staged pages: man, HTML, completion.
set -u
# shellcheck source=tests/program/install/common.sh
. "$(dirname "$0")/common.sh"

stage=$room/stage
expect "./do install stages" env BUILD="$build_root" DESTDIR="$stage" "$source_root/do" install ||
    exit 1
pc=$(find "$stage" -name gyre.pc)
prefix=$stage$(sed -n 's/^prefix=//p' "$pc")
libraries=$(dirname "$(dirname "$pc")")
tool=$prefix/bin/gyre
readme_program "$room/program"
cd "$room/program" || exit 1

# --- pkg-config -----------------------------------------------------------------------------------

staged_config() {
    PKG_CONFIG_SYSROOT_DIR=$stage PKG_CONFIG_PATH=$(dirname "$pc") pkg-config "$@" gyre
}

by_pkg_config() {
    # shellcheck disable=SC2046 # the flags are words
    cc allreduce.c $(staged_config --cflags --libs) -o shared
}

with_static_library() {
    # shellcheck disable=SC2046
    cc allreduce.c $(staged_config --cflags) -l:libgyre.a -Wl,--as-needed \
        $(staged_config --static --libs) -o static && ! ldd static | grep libgyre
}

expect "pkg-config builds README's program" by_pkg_config
expect "which runs on the staged library" \
    env LD_LIBRARY_PATH="$libraries" "$tool" run -n 2 ./shared
export LD_LIBRARY_PATH="$libraries"
expect "and sums over two ranks" two_ranks "$tool" ./shared
unset LD_LIBRARY_PATH
expect "the final prefix is in the program" \
    sh -c "readelf -d shared | grep -q '${libraries#"$stage"}'"
expect "the static library serves too" with_static_library
expect "and sums over two ranks" two_ranks "$tool" ./static

# --- CMake ----------------------------------------------------------------------------------------

cmake_project() { # the version that it asks for
    cat >CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.13)
project(program C)
find_package(gyre $1 REQUIRED)
add_executable(by_cmake allreduce.c)
target_link_libraries(by_cmake gyre::gyre)
END
    rm -rf cmake
    cmake -G Ninja -S . -B cmake -DCMAKE_PREFIX_PATH="$prefix"
}

if has cmake "find_package(gyre) was not tried"; then
    expect "CMake finds the package" cmake_project 0.1 &&
        expect "and builds with it" ninja -C cmake &&
        expect "and the program sums over two ranks" two_ranks "$tool" cmake/by_cmake
    expect_not "CMake refuses a later version" cmake_project 0.2
fi

# --- pages ----------------------------------------------------------------------------------------

calls=$(sed -n 's/^GYRE_API .*[ *]\(gyre_[a-z0-9_]*\)(.*/\1/p' "$source_root"/include/gyre/*.h)
commands=$("$tool" help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -vx 'help\|version')

without_page() {
    for call in $calls; do [ -f "man3/$call.3" ] || echo "man3/$call.3"; done
    for command in $commands; do [ -f "man1/gyre-$command.1" ] || echo "man1/gyre-$command.1"; done
}

# What the reader of manual pages has against them, who takes them all at once.
warnings() {
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning man1/*.1 man3/*.3 | grep -v '\.so is fragile'
    else
        groff -man -Tutf8 -K utf8 -ww -z man1/*.1 man3/*.3 2>&1
    fi
}

dead_links() { # of the HTML: anchors that no page has
    cd "$prefix/share/doc/gyre/html" || return
    for page in *.html; do
        echo "$page"
        grep -o 'id="[^"]*"' "$page" | sed "s/id=\"/$page#/; s/\"//"
    done | sort >"$room/anchors"
    grep -oh 'href="[^"]*\.html[^"]*"' ./*.html | sed 's/href="//; s/"//' | sort -u |
        comm -23 - "$room/anchors"
}

# shellcheck disable=SC2086 # the words are words
completed() { # the words of a line, of which the last is completed, and bash's script
    bash -c '. "$0" && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) && _gyre &&
        echo "${COMPREPLY[*]}"' \
        "$prefix/share/bash-completion/completions/gyre" "$@"
}

# The HTML once more, by the modules of Debian's perl-base only, which is all that a container has.
by_small_perl() {
    perl -e 'BEGIN { @INC = splice @ARGV, 0, 2; $0 = shift } do "$0"; die $@ if $@' \
        "$1" "$source_root/docs/pages" "$source_root/docs/pages/html" \
        "$room/small" "$source_root"/include/gyre/*.h
}

nothing() { [ -z "$("$@" | tee "$log.lines")" ] || ! cat "$log.lines"; }
completes() { # what must come, then the words
    wanted=$1
    shift
    words=$(completed "$@")
    echo "$* completes to: $words"
    [ "$words" = "$wanted" ]
}

if [ -d "$prefix/share/man/man3" ]; then
    cd "$prefix/share/man" || exit 1
    expect "the headers declare calls" [ -n "$calls" ]
    expect "the tool has commands" [ -n "$commands" ]
    expect "each call and command has its page" nothing without_page
    if command -v mandoc >/dev/null || has groff "manual pages were not checked"; then
        expect "no reader objects to a page" nothing warnings
    fi
    expect "a page has the promises of the call that it refers to" \
        grep -q 'GYRE_PEER_LOST' man3/gyre_broadcast.3
    expect "a page tells the tool's flags" grep -q 'simulate\\-nodes' man1/gyre-run.1
    expect "every link of the HTML has its place" nothing dead_links
    expect "a call has its place" grep -q 'gyre.html#gyre_all_reduce' "$room/anchors"
    for small in /usr/lib/*/perl-base; do
        [ ! -d "$small" ] || expect "the smallest perl makes pages" by_small_perl "$small"
    done
    if has bash "completion was not tried"; then
        expect "bash completes a command" completes train gyre trai
        expect "and a part of it" completes choices gyre show cho
        expect "and its flags" completes --optimizer gyre train --opti
        expect "and the words of a flag" completes "adam adamw" gyre train --optimizer ad
    fi
    if has zsh "completion of zsh was not read"; then
        expect "zsh reads its completion" zsh -n "$prefix/share/zsh/site-functions/_gyre"
    fi
elif has perl "no pages were made"; then
    expect "perl makes pages" false
fi
finish
