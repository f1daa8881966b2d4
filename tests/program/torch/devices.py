"""Tensors of a CUDA device, over the stand-in for CUDA (tests/stand_in/fakecuda), whose streams run
in an order that a seed decides and whose work may be late. torch's own kernels need a GPU, so what
stages tensors is not here."""

import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch.utils import cpp_extension

import rig

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../../..")
SEEDS = range(1, 4)


def load_stand_in():
    """The extension once more, with the stand-in in front of the library."""
    build = os.environ["LIBGYRE_BUILD"]
    place = os.path.join(os.getcwd(), "stand_in")
    os.makedirs(place, exist_ok=True)
    if os.path.exists(place + "/lock"):  # of a build that was killed, for which torch would wait
        os.unlink(place + "/lock")
    targets = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, text=True,
                             capture_output=True).stdout
    # Where there is a toolkit, only the second is made for the small headers.
    stand_in = "libfakecuda_small.a" if "libfakecuda_small.a:" in targets else "libfakecuda.a"
    archives = ["tests/" + stand_in, "tests/libfolds_fake.a", "src/libgyre.a"]
    subprocess.run(["ninja", "-C", build, *archives], check=True, stdout=subprocess.DEVNULL)
    folds, whole, library = [os.path.join(build, archive) for archive in archives]
    needed = subprocess.run(["pkg-config", "--libs", "--static", "gyre"], check=True, text=True,
                            capture_output=True, env=dict(os.environ, PKG_CONFIG_PATH=build +
                                                          "/meson-uninstalled")).stdout.split()
    sys.modules["gyre_torch._C"] = cpp_extension.load(
        "gyre_on_stand_in",
        [os.path.join(ROOT, "python/src/all.cpp"), os.path.join(HERE, "stand_in.cpp")],
        extra_include_paths=[os.path.join(ROOT, "python/src"), os.path.join(ROOT, "include"),
                             os.path.join(ROOT, "tests/stand_in/fakecuda/include")],
        extra_cflags=["-O1", "-g0", "-fvisibility=hidden"],
        extra_ldflags=["-Wl,--whole-archive", folds, whole, "-Wl,--no-whole-archive", library,
                       "-Wl,--exclude-libs,ALL", "-Wl,-Bsymbolic", "-Wl,--as-needed"] +
        [word for word in needed if word not in ("-lgyre",) and "cudart" not in word],
        build_directory=place)
    return torch.ops.gyre_stand_in


def on_device(values):
    return DEVICE.to_device(torch.as_tensor(values, dtype=torch.float32))


def late(values):
    """A tensor that gets its values on the current stream, and maybe not soon."""
    tensor, zeros = on_device([0.0] * len(values)), on_device([0.0] * len(values))
    source = on_device(values)
    for _ in range(20):  # so that another stream has its turn between them
        DEVICE.copy(tensor, zeros)
    DEVICE.copy(tensor, source)
    return tensor


def seen(tensor):
    """A copy that the current stream makes, so that it is right only if the stream waits."""
    copy = on_device(torch.zeros(tensor.numel()))
    DEVICE.copy(copy, tensor)
    return DEVICE.to_host(copy).tolist()


def with_streams(rank, size):
    own = [float(rank + 1)] * 1000
    for async_op in (False, True):
        tensor = late(own)
        work = dist.all_reduce(tensor, async_op=async_op)
        assert (work is None) != async_op
        assert not async_op or work.wait()
        assert seen(tensor) == [3.0] * 1000
        gathered = on_device([0.0] * 4)
        work = dist.all_gather_into_tensor(gathered, late([rank, rank + 5.0]), async_op=async_op)
        assert not async_op or work.wait()
        assert seen(gathered) == [0.0, 5.0, 1.0, 6.0]
        part = on_device([0.0] * 2)
        work = dist.reduce_scatter_tensor(part, late([1.0, 2.0, 3.0, 4.0]), async_op=async_op)
        assert not async_op or work.wait()
        assert seen(part) == ([2.0, 4.0] if rank == 0 else [6.0, 8.0])
        told = late([7.0, 8.0] if rank else [0.0, 0.0])
        work = dist.broadcast(told, 1, async_op=async_op)
        assert not async_op or work.wait()
        assert seen(told) == [7.0, 8.0]


def follow_a_future(rank, size):
    tensor = late([rank + 1.0] * 8)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    assert seen(future.wait()[0]) == [3.0] * 8


def with_the_host(rank, size):
    """Calls that know no streams wait for the caller's."""
    if rank == 0:
        dist.send(late([4.0, 5.0]), 1)
    else:
        got = on_device([0.0, 0.0])
        dist.recv(got, 0)
        assert seen(got) == [4.0, 5.0]
    swapped = on_device([0.0] * (2 + rank))
    dist.all_to_all_single(swapped, late([1.0, 2.0, 3.0] if rank == 0 else [4.0, 5.0]),
                           [2, 1] if rank else [1, 1], [1, 1] if rank else [1, 2])
    assert seen(swapped) == ([2.0, 3.0, 5.0] if rank else [1.0, 4.0])
    first, second = late([1.0, 1.0]), late([2.0])
    with dist._coalescing_manager(device=torch.device("cuda", 0), async_ops=True) as manager:
        dist.all_reduce(first)
        dist.all_reduce(second)
    manager.wait()
    assert seen(first) == [2.0, 2.0] and seen(second) == [4.0]
    dist.barrier()


def with_memory(rank, size):
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda", 0))
    tensor = backend.allocate_tensor(6, dtype=torch.float32, device=torch.device("cuda", 0))
    DEVICE.copy(tensor, on_device([2.0] * 6))
    dist.all_reduce(tensor)
    assert seen(tensor) == [4.0] * 6


def streams(case):
    for seed in SEEDS:
        os.environ.update(FAKECUDA_SEED=str(seed), FAKECUDA_DELAY="300")
        rig.run(case, 2)


def ordered():
    streams(with_streams)
    streams(follow_a_future)


def unordered():
    streams(with_the_host)


def memory():
    streams(with_memory)


if __name__ == "__main__":
    if not torch.version.cuda or not hasattr(torch.Stream, "native_handle"):
        print("this torch was built without CUDA, or does not tell the handles of streams")
        sys.exit(77)
    DEVICE = load_stand_in()
    torch.cuda.get_device_capability = lambda device=None: (9, 0)  # broadcast() asks the driver
    # A rank's device is the one that is current when its group is made.
    os.register_at_fork(after_in_child=lambda: on_device([1.0]))
    rig.main(ordered, unordered, memory)
