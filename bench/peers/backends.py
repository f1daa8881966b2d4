"""Backends of torch.distributed beside each other: Gyre and gloo, in the same processes, in turns.

    python3 backends.py [--ranks 2] [--rounds 5] [--batch 64] [--tcp] [--steps] [SIZES in bytes]

An all-reduce (sum, f32, in place) of each size, steps of DistributedDataParallel for two
perceptrons, and steps of a small transformer under FSDP2. One thread a rank. In each round one
backend goes after the other, calls back to back; a time is the mean over the calls of a round, and
what is printed is the median over the rounds, of the slowest rank. Column free_us is the step over
torch's backend "fake", whose calls do nothing: no backend can make a step shorter, so gloo_us /
free_us, column most, is the highest ratio that can be had. Column alone_us is the step of the bare
model. --tcp makes each rank a node of its own, so that Gyre uses TCP as gloo does. --steps leaves
the calls out.
Needs gyre_torch (docs/pytorch.md)."""

import argparse
import contextlib
import os
import statistics
import tempfile
import time

import torch
import torch._dynamo  # here once, and not in each rank
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed import fake_pg  # makes backend "fake" known

NETWORKS = {"784-500-10": (784, 500, 10), "8x1024": (1024,) * 9}


def timed(step, calls):
    """Microseconds of a call, on the slowest rank."""
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(calls):
        step()
    took = torch.tensor([(time.perf_counter() - begun) / calls * 1e6], dtype=torch.float64)
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item()


def in_turns(steps, calls, rounds):
    """The median of each step, which take turns."""
    found = {name: [] for name in steps}
    for turn in range(rounds + 1):
        for name, step in steps.items():
            took = timed(step, calls)
            if turn:  # the first is a warm-up
                found[name].append(took)
    return {name: statistics.median(took) for name, took in found.items()}


def training_step(model, width, batch):
    """A step that learns nothing sensible: forward, backward, and the update by SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(batch, *width)

    def step():
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def perceptron(widths):
    torch.manual_seed(1)
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def give_back(_, bucket):
    """A hook of DDP's that does nothing. (The futures of "fake" have no value, which DDP needs.)"""
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def ddp_step(widths, batch, group):
    model = perceptron(widths)
    if group:
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    if group and dist.get_backend(group) == "fake":
        model.register_comm_hook(None, give_back)
    return training_step(model, widths[:1], batch)


def fsdp_step(group, ranks):
    """Four layers of a transformer, 256 wide, on two sequences of 32."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(
        torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        for _ in range(4)))
    if group:
        mesh = DeviceMesh.from_group(group, "cpu", mesh=list(range(ranks)))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return training_step(model, (32, 256), 2)


def measure(rank, words, place):
    torch.set_num_threads(1)
    if words.tcp:
        os.environ["GYRE_SIMULATED_NODE"] = str(rank)
    store = dist.FileStore(place, words.ranks)
    dist.init_process_group("gyre", store=store, rank=rank, world_size=words.ranks)
    groups = {"gyre": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    if rank == 0:
        print(f"torch {torch.__version__}, {words.ranks} ranks, load {os.getloadavg()[0]:.1f}")
        print("what,gyre_us,gloo_us,ratio,free_us,most,alone_us")
    rows = [(f"all_reduce {size}", size) for size in words.sizes if not words.steps]
    for label, size in rows:
        tensor = torch.zeros(size // 4)
        steps = {name: lambda group=group: dist.all_reduce(tensor, group=group)
                 for name, group in groups.items()}
        show(rank, label, in_turns(steps, max(3, min(300, (1 << 22) // size)), words.rounds))
    groups |= {"free": dist.new_group(backend="fake"), "alone": None}
    for label, widths in NETWORKS.items():
        steps = {name: ddp_step(widths, words.batch, group) for name, group in groups.items()}
        show(rank, "ddp step " + label, in_turns(steps, 5, words.rounds))
    steps = {name: fsdp_step(group, words.ranks) for name, group in groups.items()}
    show(rank, "fsdp step transformer", in_turns(steps, 5, words.rounds))
    dist.destroy_process_group()


def show(rank, label, took):
    if rank == 0:
        gyre, gloo, free = took["gyre"], took["gloo"], took.get("free")
        rest = f"{free:.1f},{gloo / free:.2f},{took['alone']:.1f}" if free else ",,"
        print(f"{label},{gyre:.1f},{gloo:.1f},{gloo / gyre:.2f},{rest}", flush=True)


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--ranks", type=int, default=2)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--tcp", action="store_true")
    words.add_argument("--batch", type=int, default=64)
    words.add_argument("--steps", action="store_true")
    words.add_argument("sizes", type=int, nargs="*",
                       default=[8, 4096, 65536, 1 << 20, 1 << 24, 1 << 26])
    words = words.parse_args()
    place = tempfile.mktemp(prefix="gyre-torch-")
    context = torch.multiprocessing.get_context("fork")
    ranks = [context.Process(target=measure, args=(rank, words, place))
             for rank in range(words.ranks)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join()
    with contextlib.suppress(FileNotFoundError):  # the last rank has removed it
        os.unlink(place)
    return any(one.exitcode for one in ranks)


if __name__ == "__main__":
    raise SystemExit(main())
