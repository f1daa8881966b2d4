"""Backends of torch.distributed beside each other: Gyre and gloo, in the same processes, in turns.

    python3 backends.py [--ranks 2] [--rounds 5] [SIZES in bytes]

An all-reduce (sum, f32, in place) of each size, and steps of DistributedDataParallel for two
perceptrons. One thread a rank. In each round one backend goes after the other, calls back to back;
a time is the mean over the calls of a round, and what is printed is the median over the rounds, of
the slowest rank. Needs gyre_torch (docs/pytorch.md)."""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch._dynamo  # here once, and not in each rank
import torch.distributed as dist

NETWORKS = {"784-500-10": (784, 500, 10), "8x1024": (1024,) * 9}
NAMES = ("gyre", "gloo")


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


def ddp_step(widths, group):
    torch.manual_seed(1)
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers),
                                                      process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(64, widths[0])

    def step():
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def measure(rank, words, place):
    torch.set_num_threads(1)
    store = dist.FileStore(place, words.ranks)
    dist.init_process_group("gyre", store=store, rank=rank, world_size=words.ranks)
    groups = {"gyre": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    if rank == 0:
        print(f"torch {torch.__version__}, {words.ranks} ranks, load {os.getloadavg()[0]:.1f}")
        print("what,gyre_us,gloo_us,ratio")
    rows = [(f"all_reduce {size}", size) for size in words.sizes]
    for label, size in rows:
        tensor = torch.zeros(size // 4)
        steps = {name: lambda group=group: dist.all_reduce(tensor, group=group)
                 for name, group in groups.items()}
        show(rank, label, in_turns(steps, max(3, min(300, (1 << 22) // size)), words.rounds))
    for label, widths in NETWORKS.items():
        steps = {name: ddp_step(widths, group) for name, group in groups.items()}
        show(rank, "ddp step " + label, in_turns(steps, 5, words.rounds))
    dist.destroy_process_group()


def show(rank, label, took):
    if rank == 0:
        ratio = took["gloo"] / took["gyre"]
        print(f"{label},{took['gyre']:.1f},{took['gloo']:.1f},{ratio:.1f}", flush=True)


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--ranks", type=int, default=2)
    words.add_argument("--rounds", type=int, default=5)
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
    os.unlink(place)
    return any(one.exitcode for one in ranks)


if __name__ == "__main__":
    raise SystemExit(main())
