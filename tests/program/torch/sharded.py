"""What shards a model: FSDP2, DTensor, tensor parallelism, and checkpoints of them. Each gives what
it gives over gloo."""

import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint
import torch.distributed.tensor.parallel
import torch.distributed.checkpoint.state_dict as states
from torch.distributed.device_mesh import init_device_mesh

import rig

if rig.OLD:  # where both were in the making
    from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed._tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
else:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor


class Block(torch.nn.Module):
    """Of a small transformer."""

    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, 2, batch_first=True)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(torch.relu(self.up(x)))


class Small(torch.nn.Module):
    def __init__(self, words=17, width=8):
        super().__init__()
        torch.manual_seed(11)
        self.words = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(2))
        self.out = torch.nn.Linear(width, words)

    def forward(self, words):
        x = self.words(words)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def shard(mesh=None, **options):
    model = Small()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def step(model, optimizer, rank, number):
    generator = torch.Generator().manual_seed(1000 * rank + number)
    words = torch.randint(17, (4, 6), generator=generator)
    loss = torch.nn.functional.cross_entropy(model(words[:, :-1]).transpose(1, 2).float(),
                                             words[:, 1:])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def whole(value):
    """The numbers of a parameter of all ranks together."""
    value = value.full_tensor() if isinstance(value, DTensor) else value
    return value.detach().double().sum().item()


def train(rank, size, kind):
    mesh = None
    options = {}
    if kind == "hybrid":
        mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("copies", "shards"))
    if kind == "bf16":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                                    reduce_dtype=torch.float32)
    model = shard(mesh, **options)
    if kind == "allocated":  # all-gathers and reduce-scatters in memory of the group
        for module in (model, *model.blocks):
            module.set_allocate_memory_from_process_group_for_comm(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = [step(model, optimizer, rank, number) for number in range(5)]
    return losses, [whole(parameter) for parameter in model.parameters()]


def compare(size, kind, tolerance):
    other = "plain" if kind == "allocated" else kind  # gloo has no memory to give
    ours, theirs = rig.run(train, size, kind), rig.run(train, size, other, backend="gloo")
    for rank in range(size):
        for mine, other in zip(ours[rank][0] + ours[rank][1], theirs[rank][0] + theirs[rank][1]):
            assert abs(mine - other) <= tolerance * max(1, abs(other)), (rank, mine, other)
        assert ours[rank][1] == ours[0][1], "ranks have different weights"


def needs_fsdp2():
    if rig.OLD:
        raise rig.Skip("this torch's FSDP2 is for CUDA devices only")


def fsdp2():
    needs_fsdp2()
    compare(2, "plain", 0)
    compare(3, "plain", 1e-5)


def fsdp2_in_bf16():
    needs_fsdp2()
    compare(2, "bf16", 1e-5)


def fsdp2_in_memory_of_the_group():
    needs_fsdp2()
    compare(2, "allocated", 0)


def hybrid_shards():
    needs_fsdp2()
    compare(4, "hybrid", 1e-5)


# -- DTensor ---------------------------------------------------------------------------------------


def spread(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(5)
    left, right = torch.randn(7, 6), torch.randn(6, 5)
    rows = distribute_tensor(left, mesh, [Shard(0)])  # 7 rows: not the same number each
    columns = distribute_tensor(right, mesh, [Shard(1)])
    found = [rows.full_tensor(), columns.full_tensor(), (rows @ columns).full_tensor()]
    inner = distribute_tensor(left, mesh, [Shard(1)]) @ distribute_tensor(right, mesh, [Shard(0)])
    assert inner.placements == (Partial(),)
    found.append(inner.redistribute(mesh, [Replicate()]).to_local())
    found.append(inner.redistribute(mesh, [Shard(0)]).full_tensor())
    found.append(rows.redistribute(mesh, [Shard(1)]).full_tensor())  # all to all
    found.append(rows.max().full_tensor())
    assert torch.equal(found[0], left) and torch.equal(found[1], right)
    assert torch.allclose(found[2], left @ right) and torch.equal(found[5], left)
    assert torch.allclose(found[3], left @ right, atol=1e-5)
    return [tensor.tolist() for tensor in found]


def dtensor():
    for size in (2, 3):
        ours, theirs = rig.run(spread, size), rig.run(spread, size, backend="gloo")
        for rank in range(size):
            for mine, other in zip(ours[rank], theirs[rank]):
                assert torch.allclose(torch.tensor(mine), torch.tensor(other), atol=1e-6)
        assert size > 2 or ours == theirs


def parallel(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(9)
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 6))
    plan = {"0": torch.distributed.tensor.parallel.ColwiseParallel(),
            "2": torch.distributed.tensor.parallel.RowwiseParallel()}
    inputs = torch.randn(5, 6)
    expected = model(inputs).detach().clone()
    model = torch.distributed.tensor.parallel.parallelize_module(model, mesh, plan)
    outputs = model(inputs)
    outputs.sum().backward()
    assert torch.allclose(outputs, expected, atol=1e-6)
    return [whole(parameter.grad) for parameter in model.parameters()]


def tensor_parallelism():
    assert rig.run(parallel, 2) == rig.run(parallel, 2, backend="gloo")


# -- checkpoints -----------------------------------------------------------------------------------


def make(rank):
    model = shard()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step(model, optimizer, rank, 0)
    return model, optimizer


def state_of(model, optimizer):
    model_state, optimizer_state = states.get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def save(rank, size, folder, asynchronous):
    model, optimizer = make(rank)
    if asynchronous:
        torch.distributed.checkpoint.async_save(state_of(model, optimizer), checkpoint_id=folder,
                                                process_group=dist.new_group()).result()
    else:
        torch.distributed.checkpoint.save(state_of(model, optimizer), checkpoint_id=folder)
    return [whole(parameter) for parameter in model.parameters()]


def load(rank, size, folder):
    model, optimizer = make(rank)
    state = state_of(model, optimizer)
    torch.distributed.checkpoint.load(state, checkpoint_id=folder)
    states.set_state_dict(model, optimizer, model_state_dict=state["model"],
                          optim_state_dict=state["optimizer"])
    return [whole(parameter) for parameter in model.parameters()]


def checkpoints():
    """Two ranks save, three ranks load, over either backend."""
    needs_fsdp2()
    for asynchronous, writer, reader in ((False, "gyre", "gyre"), (False, "gloo", "gyre"),
                                         (True, "gyre", "gloo")):
        folder = tempfile.mkdtemp(prefix="gyre-torch-checkpoint-")
        try:
            saved = rig.run(save, 2, folder, asynchronous and writer == "gyre", backend=writer)
            loaded = rig.run(load, 3, folder, backend=reader)
        finally:
            shutil.rmtree(folder)
        for rank in range(3):
            assert all(abs(mine - other) < 1e-6 for mine, other in zip(loaded[rank], saved[0]))


if __name__ == "__main__":
    rig.main(fsdp2, fsdp2_in_bf16, fsdp2_in_memory_of_the_group, hybrid_shards, dtensor,
             tensor_parallelism, checkpoints)
