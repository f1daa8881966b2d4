"""Builds gyre_torch against the torch that is installed.

libgyre is the one that pkg-config finds. Where it finds none, and this folder stands in a checkout
of Gyre or is an sdist, libgyre is built by meson and becomes part of the extension. The environment
changes that:

    LIBGYRE_BUILD     a build folder of the checkout, whose library becomes part of the extension
    LIBGYRE_BUNDLED   1: as if pkg-config found none
    LIBGYRE_OPTIONS   words for meson where the library is built: "-Dgyre:verbs=disabled"

Tested by tests/program/torch/install.py."""

import glob
import os
import shlex
import subprocess
import sys
import tempfile

from setuptools import setup

try:
    import torch
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ImportError as error:
    if "sdist" in sys.argv:  # holds sources only, and so needs no torch
        setup(install_requires=["torch"])
        sys.exit()
    raise SystemExit(f"gyre-torch: builds against the torch that is installed, but: {error}")

HERE = os.path.dirname(os.path.abspath(__file__))
os.chdir(HERE)


def ask_pkg_config(*words):
    """What pkg-config says of Gyre, as a list of words; None where it does not know it."""
    try:
        asked = subprocess.run(
            ["pkg-config", *words, "gyre"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.split()


def use_installed():
    """The words with which to compile and link against the library that is installed."""
    link_words = ask_pkg_config("--libs")
    places = [word[2:] for word in link_words if word.startswith("-L")]
    return ask_pkg_config("--cflags"), link_words + ["-Wl,-rpath," + place for place in places]


def use_archive(root, build, archive):
    """The words that make a libgyre.a of a build folder part of the extension."""
    os.environ["PKG_CONFIG_PATH"] = os.path.join(build, "meson-uninstalled")
    needed = [
        word
        for word in ask_pkg_config("--libs", "--static")
        if word != "-lgyre" and not word.startswith("-Wl,-rpath,")
    ]
    link_words = [
        os.path.join(build, archive),
        "-Wl,--exclude-libs,ALL",
        "-Wl,--as-needed",
        "-Wl,--strip-debug",
    ]
    return ["-I" + os.path.join(root, "include")], link_words + needed


def sources():
    """The folder with the library's sources: the checkout, or what an sdist carries."""
    for root in (os.path.join(HERE, "libgyre"), os.path.dirname(HERE)):
        if os.path.exists(os.path.join(root, "include", "gyre", "gyre.h")):
            return root
    raise SystemExit(
        "gyre-torch: pkg-config finds no gyre, and its sources are not here to build it"
    )


def build_library(place):
    """Builds libgyre.a without tests and benches, as a part of a project of a few lines."""
    root = sources()
    build = os.path.join(place, "build")
    os.makedirs(os.path.join(place, "subprojects"))
    os.symlink(root, os.path.join(place, "subprojects", "gyre"))
    with open(os.path.join(place, "meson.build"), "w") as words:
        words.write("project('gyre_torch', 'c')\nsubproject('gyre')\n")
    options = shlex.split(os.environ.get("LIBGYRE_OPTIONS", ""))
    subprocess.check_call(
        ["meson", "setup", "--buildtype", "release", "-Db_staticpic=true", *options, build, place]
    )
    archive = os.path.join("subprojects", "gyre", "src", "libgyre.a")
    subprocess.check_call(["ninja", "-C", build, archive])
    return use_archive(root, build, archive)


def find_library(place):
    build = os.environ.get("LIBGYRE_BUILD")
    if build:
        archive = os.path.join("src", "libgyre.a")
        subprocess.check_call(["ninja", "-C", build, archive])
        return use_archive(sources(), os.path.abspath(build), archive)
    if os.environ.get("LIBGYRE_BUNDLED") == "1" or ask_pkg_config("--cflags") is None:
        return build_library(place)
    return use_installed()


class Build(BuildExtension):
    """Finds the library when the extension is built, not for each question of pip's."""

    def build_extensions(self):
        # Not below the sources, which the project of the library refers to.
        with tempfile.TemporaryDirectory(prefix="gyre-torch-") as place:
            compile_words, link_words = find_library(place)
            for extension in self.extensions:
                extension.extra_compile_args += compile_words
                extension.extra_link_args += link_words
                extension.depends += [word for word in link_words if word.endswith(".a")]
            super().build_extensions()


extension = CppExtension(
    "gyre_torch._C",
    ["src/all.cpp"],
    depends=glob.glob("src/**", recursive=True),
    include_dirs=[os.path.join(HERE, "src")],
    extra_compile_args=["-O2", "-g0", "-fvisibility=hidden", "-Wall"],
)

setup(
    ext_modules=[extension],
    cmdclass={"build_ext": Build},
    install_requires=["torch==" + torch.__version__.split("+")[0]],
)
