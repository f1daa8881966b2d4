#!/bin/sh
# Gyre built from its sources as a part of another project, which README's program is: found as a
# subproject through a wrap file, not optimised, then installed into a prefix of its own, where
# pkg-config and the examples' Makefile find it and programs start without more ado. Then the same
# build with --prefix /usr becomes Debian packages, which README's program is built against.
set -u
# shellcheck source=tests/program/install/common.sh
. "$(dirname "$0")/common.sh"

project=$room/project
prefix=$room/prefix
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null) || triplet=
libdir=lib${triplet:+/$triplet}

# --- a subproject ---------------------------------------------------------------------------------

readme_program "$project"
mkdir "$project/subprojects"
ln -s "$source_root" "$project/subprojects/gyre"
printf '[wrap-file]\ndirectory = gyre\n\n[provide]\ndependency_names = gyre\n' \
    >"$project/subprojects/gyre.wrap"
cat >"$project/meson.build" <<'END'
project('program', 'c')
executable('allreduce', 'allreduce.c', dependencies: dependency('gyre'))
END

# The shortest way to a library: what is optional stays out, debug information too.
configure() {
    env -u CFLAGS -u LDFLAGS meson setup --prefix "$prefix" --libdir "$libdir" -Doptimization=0 \
        -Ddebug=false --wrap-mode forcefallback -Dgyre:cuda=disabled -Dgyre:verbs=disabled \
        "$project" "$project/build"
}

tests_and_benches() {
    ninja -C "$project/build" -t targets all | grep 'subprojects/gyre/\(tests\|bench\)/'
}

expect "meson finds Gyre by its wrap file" configure || exit 1
expect_not "a subproject builds no tests and benches" tests_and_benches
expect "the project builds" ninja -C "$project/build" || exit 1
tool=$project/build/subprojects/gyre/gyre
expect "and its program sums over two ranks" two_ranks "$tool" "$project/build/allreduce"

# --- a prefix -------------------------------------------------------------------------------------

put() { # DESTDIR
    DESTDIR=$1 meson install -C "$project/build" --no-rebuild --quiet
}

by_pkg_config() { # the program to make
    # shellcheck disable=SC2046 # the flags are words
    cc "$project/allreduce.c" $(pkg-config --cflags --libs gyre) -o "$1"
}

expect "the project installs" put ''
export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig"
expect "pkg-config finds the library" by_pkg_config "$room/installed"
unset PKG_CONFIG_PATH
expect "which needs no ldconfig" two_ranks "$prefix/bin/gyre" "$room/installed"
if has make "the examples' Makefile was not tried"; then
    mkdir "$room/examples"
    expect "the examples' Makefile builds them in any folder" \
        make -C "$room/examples" -f "$prefix/share/doc/gyre/examples/Makefile"
    expect "and they run" two_ranks "$prefix/bin/gyre" "$room/examples/allreduce"
fi

# --- Debian packages ------------------------------------------------------------------------------

unpack() {
    for package in "$room"/*.deb; do dpkg-deb -x "$package" "$room/root" || return; done
}

by_root() {
    PKG_CONFIG_SYSROOT_DIR=$room/root PKG_CONFIG_PATH=$room/root/usr/$libdir/pkgconfig \
        by_pkg_config "$room/unpacked"
}

depends_on() { # package, a pattern of what it needs
    dpkg-deb -f "$room/$1"_*.deb Depends | tee -a "$log" | grep -q "$2"
}

packages() {
    expect "the prefix becomes /usr" meson configure "$project/build" -Dprefix=/usr
    expect "and the build follows" ninja -C "$project/build"
    expect "the tree is staged" put "$room/stage"
    expect "and becomes packages" env DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1 \
        DEBFULLNAME=Gyre DEBEMAIL=gyre@packages.debian.org \
        "$source_root/packaging/deb" "$room/stage" "$room" || return
    expect "they unpack" unpack
    expect_not "a library in /usr needs no rpath" \
        grep rpath "$room/root/usr/$libdir/pkgconfig/gyre.pc"
    expect "README's program is built against them" by_root
    export LD_LIBRARY_PATH="$room/root/usr/$libdir"
    expect "and sums over two ranks" two_ranks "$room/root/usr/bin/gyre" "$room/unpacked"
    unset LD_LIBRARY_PATH
    expect "the library depends on what it is linked with" depends_on libgyre0 'libssl3'
    expect "the tool does" depends_on gyre 'libssl3'
    expect "the headers depend on their library" depends_on libgyre-dev '^libgyre0 (= '
    expect "and on what gyre.pc requires" depends_on libgyre-dev 'libssl-dev'
    if has lintian "the packages were not checked"; then
        expect "lintian has nothing against them" lintian --fail-on error,warning "$room"/*.deb
    fi
}

if has dpkg-deb "no package was made" && has dpkg-shlibdeps "no package was made"; then
    packages
fi
finish
