"""DistributedDataParallel and what people put around it: losses as with gloo, hooks, uneven
inputs."""

import os
import unittest.mock

import torch
import torch.distributed as dist
import torch._dynamo  # here once, and not in each rank
from torch.nn.parallel import DistributedDataParallel

import rig


def make_model():
    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Linear(13, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
        torch.nn.Linear(64, 3),
    )


def batches(rank, number):
    torch.manual_seed(100 + rank)
    for _ in range(number):
        yield torch.randn(32, 13), torch.randint(0, 3, (32,))


def train(rank, size, prepare=None, **options):
    """The losses of 20 steps, and the sum of the weights at the end."""
    model = DistributedDataParallel(make_model(), **options)
    if prepare:
        prepare(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for inputs, labels in batches(rank, 20):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.double().sum().item() for parameter in model.parameters()]


def compare(size, tolerance, **options):
    ours, theirs = (rig.run(train_with, size, options, backend=name) for name in ("gyre", "gloo"))
    for rank in range(size):
        for mine, other in zip(ours[rank][0] + ours[rank][1], theirs[rank][0] + theirs[rank][1]):
            assert abs(mine - other) <= tolerance * max(1, abs(other)), (rank, mine, other)
    for rank in range(size):
        assert ours[rank][1] == ours[0][1], "ranks have different weights"


def train_with(rank, size, options):
    return train(rank, size, **options)


def losses_of_two_ranks():
    """Two terms have one order of summation: the bits are gloo's."""
    compare(2, 0)


def losses_of_more_ranks():
    for size in (3, 4):
        compare(size, 1e-5)


def many_buckets():
    compare(2, 0, bucket_cap_mb=0.005)


def views_of_buckets():
    compare(2, 0, gradient_as_bucket_view=True, static_graph=True)


def mapped_from(address):
    """What is mapped at an address of this process: the end of its line in the list of maps."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            first, end = (int(number, 16) for number in line.split()[0].split("-"))
            if first <= address < end:
                return line.split(maxsplit=5)[-1]


def train_in_place(rank, size):
    """The places of the buckets, as DDP gives them to a hook."""
    places = []

    def hook(_, bucket):
        places.append(mapped_from(bucket.buffer().data_ptr()))
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda ended: ended.value()[0])

    train(rank, size, lambda model: model.register_comm_hook(None, hook))
    return ["memfd:gyre" in place for place in places]


def memory_of_buckets():
    """The buckets lie in memory that the ranks share, but where the user wants torch's default."""
    if not hasattr(torch._C._distributed_c10d.Backend, "allocate_tensor"):
        raise rig.Skip("this torch asks no backend for memory")
    if torch.cuda.is_available():
        raise rig.Skip("with a GPU torch's default stays")
    assert all(shared for found in rig.run(train_in_place, 2).values() for shared in found)
    with unittest.mock.patch.dict(os.environ, DDP_DISABLE_COMM_MEM="1"):
        assert not any(shared for found in rig.run(train_in_place, 2).values() for shared in found)


def train_with_hook(rank, size, name):
    import torch.distributed.algorithms.ddp_comm_hooks as hooks
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    def prepare(model):
        if name == "powersgd":
            state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=3)
            model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        else:
            model.register_comm_hook(None, getattr(default_hooks, name))

    return train(rank, size, prepare)


def hooks():
    for name in ("allreduce_hook", "bf16_compress_hook", "fp16_compress_hook", "powersgd"):
        ours, theirs = (rig.run(train_with_hook, 2, name, backend=backend)
                        for backend in ("gyre", "gloo"))
        for mine, other in zip(ours[0][0], theirs[0][0]):
            assert abs(mine - other) < 0.05, (name, mine, other)
        assert ours[0][1] == ours[1][1], name


def train_uneven(rank, size):
    model = DistributedDataParallel(make_model())
    steps = 0
    with model.join():
        for inputs, labels in batches(rank, 5 + 3 * rank):
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            steps += 1
    return steps


def uneven_inputs():
    assert rig.run(train_uneven, 3) == {0: 5, 1: 8, 2: 11}


def normalize(rank, size):
    torch.manual_seed(3 + rank)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 4),
                                                        torch.nn.BatchNorm1d(4)))
    for _ in range(3):
        model(torch.randn(8, 4)).sum().backward()
    dist.barrier()
    return [buffer.double().sum().item() for buffer in model.buffers()]


def buffers():
    rig.run(normalize, 2)


def shard_the_optimizer(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(make_model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-2)
    for inputs, labels in batches(rank, 5):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return [parameter.double().sum().item() for parameter in model.parameters()]


def sharded_optimizer():
    ours, theirs = (rig.run(shard_the_optimizer, 2, backend=name) for name in ("gyre", "gloo"))
    assert ours[0] == ours[1] == theirs[0], (ours, theirs)


if __name__ == "__main__":
    rig.main(losses_of_two_ranks, losses_of_more_ranks, many_buckets, views_of_buckets,
             memory_of_buckets, hooks, uneven_inputs, buffers, sharded_optimizer)
