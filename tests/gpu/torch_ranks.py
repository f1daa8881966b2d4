"""gyre_torch where torch sees a GPU: two ranks that share it, started by tests/gpu/run.

    torch_ranks.py build LIBGYRE FOLDER          the extension, with the torch that is installed
    torch_ranks.py run FOLDER [--device cpu]     collectives, messages, and DDP beside one process

The library is a libgyre.so or libgyre.a. No network, and nothing is installed."""

import argparse
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.utils import cpp_extension

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RANKS = 2
TIMED = 64 << 20  # bytes


def build(library, place):
    os.makedirs(place, exist_ok=True)
    folder, name = os.path.split(os.path.abspath(library))
    cpp_extension.load(
        "_C",
        [os.path.join(ROOT, "python/src/all.cpp")],
        extra_include_paths=[os.path.join(ROOT, "python/src"), os.path.join(ROOT, "include")],
        extra_cflags=["-O1", "-g0", "-fvisibility=hidden"],
        extra_ldflags=[os.path.join(folder, name), "-Wl,-rpath," + folder],
        build_directory=place,
    )
    print("built against torch", torch.__version__)


def load(place):
    """The backend, with the extension of the folder."""
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import importlib.util

    where = importlib.util.spec_from_file_location("_C", os.path.join(place, "_C.so"))
    extension = importlib.util.module_from_spec(where)
    where.loader.exec_module(extension)
    sys.modules["gyre_torch._C"] = extension
    import gyre_torch

    gyre_torch._C = extension


# -- what a rank does ------------------------------------------------------------------------------


def sums(rank, device):
    for dtype in torch.float32, torch.bfloat16, torch.int64:
        for count in 1, 1000, 1 << 20:
            tensor = torch.full((count,), rank + 1, dtype=dtype, device=device)
            dist.all_reduce(tensor)
            assert (tensor == 3).all(), (dtype, count, tensor)


def blocks(rank, device):
    own = torch.arange(6, dtype=torch.float32, device=device) + 10 * rank
    gathered = torch.empty(12, device=device)
    dist.all_gather_into_tensor(gathered, own)
    assert gathered.tolist() == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15]
    part = torch.empty(3, device=device)
    dist.reduce_scatter_tensor(part, own)
    assert part.tolist() == ([10, 12, 14] if rank == 0 else [16, 18, 20])
    swapped = torch.empty(6, device=device)
    dist.all_to_all_single(swapped, own)
    assert swapped.tolist() == ([0, 1, 2, 10, 11, 12] if rank == 0 else [3, 4, 5, 13, 14, 15])
    dist.broadcast(own, 1)
    assert own.tolist() == [10, 11, 12, 13, 14, 15]


def messages(rank, device):
    tensor = torch.full((100000,), float(rank), device=device)
    if rank == 0:
        dist.send(tensor, 1)
        dist.recv(tensor, 1)
        assert (tensor == 2).all()
    else:
        dist.recv(tensor, 0)
        assert (tensor == 0).all()
        dist.send(tensor + 2, 0)
    dist.barrier()


def streams(rank, device):
    """A call waits for what its stream computes, and the stream for the call."""
    if device.type != "cuda":
        return
    beside = torch.cuda.Stream()
    with torch.cuda.stream(beside):
        tensor = torch.zeros(1 << 22, device=device)
        for _ in range(50):
            tensor += 1
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        tensor *= 2
    beside.synchronize()
    assert (tensor == 200).all()


def network(device):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)]
    return torch.nn.Sequential(*layers).to(device)


def train(model, samples, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(samples), labels).backward()
        optimizer.step()


def ddp(rank, device):
    """The weights are those of one process with the samples of both."""
    draw = torch.Generator().manual_seed(2)
    samples = torch.randn(200, 64, generator=draw).to(device)
    labels = torch.randint(10, (200,), generator=draw).to(device)
    alone = network(device)
    train(alone, samples, labels)
    places = [device.index] if device.type == "cuda" else None
    both = torch.nn.parallel.DistributedDataParallel(network(device), device_ids=places)
    train(both, samples[rank::RANKS], labels[rank::RANKS])
    for one, other in zip(alone.parameters(), both.module.parameters()):
        assert torch.allclose(one, other, atol=1e-5), (one - other).abs().max()


def timed(device):
    tensor = torch.zeros(TIMED // 4, device=device)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for _ in range(3):
        dist.all_reduce(tensor)
    wait()
    begun = time.perf_counter()
    for _ in range(10):
        dist.all_reduce(tensor)
    wait()
    return (time.perf_counter() - begun) / 10


def rank_main(rank, folder, place, kind, results):
    device = torch.device(kind, rank % torch.cuda.device_count()) if kind == "cuda" else \
        torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    load(folder)
    dist.init_process_group("gyre", store=dist.FileStore(place, RANKS), rank=rank,
                            world_size=RANKS)
    for case in sums, blocks, messages, streams, ddp:
        case(rank, device)
    results.put((rank, timed(device)))
    dist.destroy_process_group()


def run(folder, kind):
    context = torch.multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(
            rank_main, (folder, os.path.join(place, "store"), kind, results), RANKS)
    seconds = max(results.get()[1] for _ in range(RANKS))
    print(f"{RANKS} ranks are right; all_reduce of 64 MiB: {seconds * 1e6:.0f} us, "
          f"{TIMED / seconds / 1e9:.2f} GB/s")


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("what", choices=["build", "run"])
    words.add_argument("places", nargs="+")
    words.add_argument("--device", default="cuda")
    told = words.parse_args()
    if told.what == "build":
        build(*told.places)
    else:
        run(told.places[0], told.device)
