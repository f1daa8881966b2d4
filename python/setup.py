"""Builds gyre_torch against the torch that is installed.

libgyre is the one that pkg-config finds. Where it finds none, and this folder stands in a checkout
of Gyre, libgyre is built there by meson and becomes part of the extension. LIBGYRE_BUILD names a
build folder of that checkout, which is then used in any case.
"""

import glob
import os
import subprocess

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
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


def use_checkout(build):
    """Builds libgyre.a in a build folder, and gives the words that make it part of an extension."""
    if not os.path.exists(os.path.join(ROOT, "meson.build")):
        raise SystemExit("gyre-torch: pkg-config finds no gyre, and there is no checkout to build")
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.check_call(["meson", "setup", "--buildtype", "release", build, ROOT])
    subprocess.check_call(["ninja", "-C", build, "src/libgyre.a"])
    os.environ["PKG_CONFIG_PATH"] = os.path.join(build, "meson-uninstalled")
    needed = [word for word in ask_pkg_config("--libs", "--static") if word != "-lgyre"]
    library = os.path.join(build, "src", "libgyre.a")
    link_words = [library, "-Wl,--exclude-libs,libgyre.a"] + needed
    return ["-I" + os.path.join(ROOT, "include")], link_words


def find_libgyre():
    build = os.environ.get("LIBGYRE_BUILD")
    if build or ask_pkg_config("--cflags") is None:
        return use_checkout(os.path.abspath(build or os.path.join(ROOT, "build-python")))
    return use_installed()


compile_words, link_words = find_libgyre()

setup(
    ext_modules=[
        CppExtension(
            "gyre_torch._C",
            ["src/all.cpp"],
            depends=glob.glob("src/*") + [
                word for word in link_words if word.endswith(".a")
            ],
            extra_compile_args=["-O2", "-g0", "-fvisibility=hidden", "-Wall"]
            + compile_words,
            extra_link_args=link_words,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
