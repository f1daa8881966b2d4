"""Several calls as one: the coalescing manager, and the calls that take lists of tensors."""

import torch
import torch.distributed as dist

import rig


def reduce_together(rank, size):
    for async_ops in (False, True):
        tensors = [torch.full((count,), 1.0 + rank) for count in (1, 10, 5000)]
        with dist._coalescing_manager(async_ops=async_ops) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        if async_ops:
            manager.wait()
        for tensor in tensors:
            rig.same(tensor, torch.full(tensor.shape, 1.0 * sum(range(1, size + 1))))


def all_reduces():
    for size in (2, 3):
        rig.run(reduce_together, size)


def gather_together(rank, size):
    given = [torch.full((count,), 1.0 * rank) for count in (2, 300)]
    found = [torch.empty(size * len(tensor)) for tensor in given]
    with dist._coalescing_manager():
        for out, tensor in zip(found, given):
            dist.all_gather_into_tensor(out, tensor)
    for out, tensor in zip(found, given):
        rig.same(out, torch.arange(size).repeat_interleave(len(tensor)).float())
    with dist._coalescing_manager():
        for out, tensor in zip(found, given):
            dist.reduce_scatter_tensor(tensor, out)
    for tensor in given:
        rig.same(tensor, torch.full(tensor.shape, 1.0 * rank * size))


def all_gathers_and_reduce_scatters():
    for size in (2, 3):
        rig.run(gather_together, size)


def collect_by_device(rank, size):
    """With a device, each call goes to the group, which collects them: here messages."""
    got = torch.zeros(4)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.isend(torch.full((4,), 1.0 * rank), dst=(rank + 1) % size)
        dist.irecv(got, src=(rank - 1) % size)
    manager.wait()
    rig.same(got, torch.full((4,), 1.0 * ((rank - 1) % size)))


def messages():
    rig.run(collect_by_device, 3)


def refuse_one(rank, size):
    """A call that is refused does not leave the group collecting."""
    good, bad = torch.ones(3), torch.ones(3)[None].to_sparse()
    group = dist.distributed_c10d._get_default_group()
    options = dist.AllreduceCoalescedOptions()
    rig.raises(NotImplementedError, ["cannot be coalesced"],
               lambda: group._get_backend(torch.device("cpu")).allreduce_coalesced([good, bad],
                                                                                   options))
    dist.all_reduce(good)
    dist.barrier()


def a_refused_call():
    rig.run(refuse_one, 2)


if __name__ == "__main__":
    rig.main(all_reduces, all_gathers_and_reduce_scatters, messages, a_refused_call)
