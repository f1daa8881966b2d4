"""pip installs gyre_torch into a fresh environment, and it runs there without an import: from the
sources, without fetching a torch; against an installed library; and from an sdist, which carries
the library."""

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

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
sys.path.append(os.path.join(ROOT, "python"))
import gyre_build
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
LAUNCHED = """
import torch, torch.distributed as dist
if not hasattr(torch, "_import_device_backends"): import gyre_torch
dist.init_process_group("gyre")
ones = torch.ones(5)
dist.all_reduce(ones)
print("sum", ones.tolist())
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

    def run(self, *words, **variables):
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run([self.python, *words], capture_output=True, text=True, cwd="/",
                              env=clean | variables)

    def run_well(self, *words, **variables):
        done = self.run(*words, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pip(self, *words, **variables):
        return self.run_well("-m", "pip", "--disable-pip-version-check", *words, **variables)

    def install(self, place, room, *words, **variables):
        """What is built from `place`, without asking a registry. Gives the name of the wheel."""
        wheels = os.path.join(room, "wheels")
        self.pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels,
                 *words, place, **variables)
        wheel, = glob.glob(os.path.join(wheels, "*.whl"))
        self.pip("install", "--no-index", wheel)
        return os.path.basename(wheel)

    def library(self):
        """The libgyre that the installed extension loads; "" where it is part of the extension."""
        extension, = glob.glob(self.place + "/lib/python*/site-packages/gyre_torch/_C*.so")
        loaded = subprocess.run(["ldd", extension], capture_output=True, text=True, check=True)
        lines = [line.split() for line in loaded.stdout.splitlines() if "libgyre" in line]
        return lines[0][2] if lines else ""

    def try_two_ranks(self):
        place = tempfile.mktemp(prefix="gyre-torch-")
        imports = ["import"] if rig.OLD else []
        ranks = [subprocess.Popen([self.python, "-c", PROGRAM, str(rank), place, *imports], cwd="/",
                                  stdout=subprocess.PIPE, text=True,
                                  env={name: value for name, value in os.environ.items()
                                       if name != "PYTHONPATH"})
                 for rank in range(2)]
        for rank in ranks:
            told, _ = rank.communicate(timeout=rig.LIMIT)
            assert told.startswith("[2.0, 2.0, 2.0, 2.0, 2.0] " + self.place), told

    def try_torchrun(self, room):
        """Two ranks as torchrun starts them."""
        program = os.path.join(room, "launched.py")
        with open(program, "w") as file:
            file.write(LAUNCHED)
        told = self.run_well("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                             program, OMP_NUM_THREADS="1")
        assert told.count("sum [2.0, 2.0, 2.0, 2.0, 2.0]") == 2, told


def copied(room, *names):
    """The sources, so that nothing is built in the tree: the extension's, headers, and others."""
    for name in ("include", "python", *names):
        from_tree, to = os.path.join(ROOT, name), os.path.join(room, name)
        if os.path.isdir(from_tree):
            shutil.copytree(from_tree, to, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so"))
        else:
            shutil.copy2(from_tree, to)
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
        environment.install(place, room)
        assert not environment.library(), environment.library()
        environment.try_two_ranks()
        told = environment.pip("show", "gyre-torch")
        assert "Requires: torch\n" in told, told


def stage(room):
    """Installs the library of the build folder, and gives what has pkg-config find it."""
    place = os.path.join(room, "stage")
    done = subprocess.run([os.path.join(ROOT, "do"), "install"], capture_output=True, text=True,
                          env=dict(os.environ, BUILD=os.environ["LIBGYRE_BUILD"], DESTDIR=place))
    assert done.returncode == 0, done.stdout + done.stderr
    description, = glob.glob(place + "/**/gyre.pc", recursive=True)
    return {"PKG_CONFIG_SYSROOT_DIR": place, "PKG_CONFIG_PATH": os.path.dirname(description),
            "LIBGYRE_BUILD": ""}


def installed_library():
    """The library that pkg-config finds is loaded, and nothing of the checkout is needed."""
    with tempfile.TemporaryDirectory(prefix="gyre-torch-") as room:
        environment, place = Environment(room), copied(room)
        shutil.rmtree(os.path.join(room, "include"))
        environment.install(place, room, **stage(room))
        assert environment.library().startswith(os.path.join(room, "stage")), environment.library()
        environment.try_two_ranks()


def sdist():
    """An sdist is made without torch, and builds where no checkout and no library is, as `python -m
    build` has it built; for other machines where auditwheel is there."""
    with tempfile.TemporaryDirectory(prefix="gyre-torch-") as room:
        environment, place = Environment(room), copied(room, *gyre_build.CARRIED)
        environment.run_well("-c", f"import os, sys; os.chdir({place!r}); sys.path.insert(0, '.')\n"
                             "sys.modules['torch'] = None\n"  # as where it is not installed
                             f"import gyre_build; gyre_build.build_sdist({room!r})")
        shutil.rmtree(place)
        archive, = glob.glob(room + "/*.tar.gz")
        travels = shutil.which("auditwheel") is not None
        settings = ["--config-settings", "manylinux=1"] if travels else []
        wheel = environment.install(archive, room, *settings, LIBGYRE_BUILD="",
                                    LIBGYRE_BUNDLED="1")
        assert ("manylinux" in wheel) == travels, wheel
        assert not environment.library(), environment.library()
        environment.try_two_ranks()
        environment.try_torchrun(room)


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
    watched = os.environ.get("GYRE_TEST_SANITIZE")  # then one installed extension is enough
    rig.main(sources, without_sources, *(() if watched else (installed_library, sdist)))
