"""pip installs gyre_torch into a fresh environment, and it runs there without an import: from the
sources, without fetching a torch, and as the wheel that carries the library."""

import glob
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv

import torch

import rig

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
PROGRAM = """
import sys, torch, torch.distributed as dist
if "import" in sys.argv: import gyre_torch
rank, place = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gyre", store=dist.FileStore(place, 2), rank=rank, world_size=2)
ones = torch.ones(5)
dist.all_reduce(ones)
import gyre_torch
print(ones.tolist(), gyre_torch.__file__)
dist.destroy_process_group()
"""


class Environment:
    """A virtual environment that has the packages of this one, and its own before them."""

    def __init__(self, room):
        self.place = os.path.join(room, "environment")
        self.python = os.path.join(self.place, "bin", "python")
        venv.create(self.place, with_pip=False)
        packages = glob.glob(os.path.join(self.place, "lib", "python*", "site-packages"))[0]
        with open(os.path.join(packages, "torch.pth"), "w") as others:
            others.write(sysconfig.get_path("purelib") + "\n")

    def run(self, *words, **more):
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run([self.python, *words], capture_output=True, text=True, cwd="/",
                              env=clean, **more)

    def run_well(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pip(self, *words):
        return self.run_well("-m", "pip", "--disable-pip-version-check", *words)

    def try_two_ranks(self):
        place = tempfile.mktemp(prefix="gyre-torch-")
        imports = [] if hasattr(torch, "_import_device_backends") else ["import"]
        ranks = [subprocess.Popen([self.python, "-c", PROGRAM, str(rank), place, *imports], cwd="/",
                                  stdout=subprocess.PIPE, text=True,
                                  env={name: value for name, value in os.environ.items()
                                       if name != "PYTHONPATH"})
                 for rank in range(2)]
        for rank in ranks:
            told, _ = rank.communicate(timeout=rig.LIMIT)
            assert told.startswith("[2.0, 2.0, 2.0, 2.0, 2.0] " + self.place), told


def copied(room):
    """The sources, so that nothing is built in the tree."""
    for name in ("include", "python"):
        shutil.copytree(os.path.join(ROOT, name), os.path.join(room, name),
                        ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so"))
    return os.path.join(room, "python")


def needs_no_other_torch(environment, sources):
    """A build in an environment of its own uses the torch that is there."""
    asked = environment.run_well(
        "-c", f"import sys; sys.path.insert(0, {sources!r}); import gyre_build as build\n"
        "print(build.get_requires_for_build_wheel(), len(build._torch_places()) > 0)")
    assert "torch" not in asked.split("]")[0] and asked.endswith("True\n"), asked


def sources():
    with tempfile.TemporaryDirectory(prefix="gyre-torch-") as room:
        environment, place = Environment(room), copied(room)
        needs_no_other_torch(environment, place)
        wheels = os.path.join(room, "wheels")
        environment.pip("wheel", "--no-index", "--no-deps", "--no-build-isolation",
                        "--wheel-dir", wheels, place)
        wheel, = glob.glob(os.path.join(wheels, "*.whl"))
        environment.pip("install", "--no-index", wheel)
        environment.try_two_ranks()
        told = environment.pip("show", "gyre-torch")
        assert "Requires: torch\n" in told, told


def without_sources():
    """Without a library and without sources of it the build says so."""
    with tempfile.TemporaryDirectory(prefix="gyre-torch-") as room:
        environment, place = Environment(room), copied(room)
        shutil.rmtree(os.path.join(room, "include"))
        done = environment.run("-c", f"import os; os.environ.pop('LIBGYRE_BUILD', None)\n"
                               "os.environ['LIBGYRE_BUNDLED'] = '1'\n"
                               f"import runpy, sys; sys.argv = ['setup.py', 'build_ext']\n"
                               f"os.chdir({place!r}); runpy.run_path('setup.py')")
        assert done.returncode and "its sources are not here" in done.stderr, done.stderr


if __name__ == "__main__":
    rig.main(sources, without_sources)
