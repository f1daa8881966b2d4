"""Nothing is left behind by calls: no memory, no reference, no thread, no file.

GYRE_TEST_CALLS says how many calls each case makes (2,000; 100,000 take some minutes)."""

import gc
import os
import threading
import weakref

import torch
import torch.distributed as dist

import rig

WATCHED = "libasan" in os.environ.get("LD_PRELOAD", "")  # which keeps freed memory for a while
PAGES = 100000 if WATCHED else 1000
THREADS = 2  # that a group may have more for futures, where one has just been busy
CALLS = int(os.environ.get("GYRE_TEST_CALLS") or 2000)


def taken():
    """Pages of memory, threads and files of this process."""
    gc.collect()
    return (int(open("/proc/self/statm").read().split()[1]), len(os.listdir("/proc/self/task")),
            len(os.listdir("/proc/self/fd")))


def kinds(rank, size):
    """One call of each kind, on tensors that it makes: gives those."""
    ones, sparse = torch.ones(16), torch.ones(4).to_sparse()
    flat, parts = torch.empty(16 * size), [torch.empty(16) for _ in range(size)]
    holes = torch.ones(16, 2)[:, 0]  # staged
    root = rank == 0
    yield [ones], lambda wait: dist.all_reduce(ones, async_op=wait)
    yield [holes], lambda wait: dist.all_reduce(holes, async_op=wait)
    yield [sparse], lambda wait: dist.all_reduce(sparse, async_op=wait)
    yield [ones], lambda wait: dist.broadcast(ones, 0, async_op=wait)
    yield [ones], lambda wait: dist.reduce(ones, 0, async_op=wait)
    yield [flat, ones], lambda wait: dist.all_gather_into_tensor(flat, ones, async_op=wait)
    yield [*parts, ones], lambda wait: dist.all_gather(parts, ones, async_op=wait)
    yield [ones, flat], lambda wait: dist.reduce_scatter_tensor(ones, flat, async_op=wait)
    yield [ones, *parts], lambda wait: dist.reduce_scatter(ones, parts, async_op=wait)
    yield [flat], lambda wait: dist.all_to_all_single(flat, flat.clone(), async_op=wait)
    yield parts, lambda wait: dist.all_to_all(parts, [part.clone() for part in parts],
                                              async_op=wait)
    yield [ones], lambda wait: dist.gather(ones, parts if root else None, 0, async_op=wait)
    yield [ones], lambda wait: dist.scatter(ones, parts if root else None, 0, async_op=wait)
    yield [], lambda wait: dist.barrier(async_op=wait)

    def message(wait):
        if rank > 1:
            return None
        call = (dist.isend if root else dist.irecv) if wait else dist.send if root else dist.recv
        work = call(ones, 1 - rank)
        return work if wait else None

    yield [ones], message


def each_kind(rank, size, number, watched):
    """Calls of each kind: waited for, waited for later, by a future, and dropped."""
    made = 0
    while made < number:
        for tensors, call in kinds(rank, size):
            watched.extend(weakref.ref(tensor) for tensor in tensors)
            call(False)
            for end in (lambda work: work.wait(), lambda work: work.get_future().wait(),
                        lambda work: None):
                work = call(True)
                if work is not None:
                    end(work)
            made += 4
    del tensors, call, work, end
    dist.barrier()


def stay_flat(rank, size):
    each_kind(rank, size, CALLS, [])  # until the allocator has what it wants
    before = taken()
    watched = []
    each_kind(rank, size, CALLS, watched)
    for _ in range(2):  # what was dropped ends before the second call does
        dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
    after = taken()
    alive = sum(one() is not None for one in watched)
    assert alive == 0, f"{alive} of {len(watched)} tensors live"
    assert after[0] - before[0] < PAGES, f"{after[0] - before[0]} pages more"
    assert after[1] <= before[1] + THREADS and after[2] <= before[2], (before, after)


def each_kind_of_call():
    rig.run(stay_flat, 2)
    rig.run(stay_flat, 3)


def a_tensor_of(group):
    """In memory of the group's, where this torch asks a backend for it."""
    backend, cpu = group._get_backend(torch.device("cpu")), torch.device("cpu")
    if not hasattr(backend, "allocate_tensor"):
        return torch.zeros(1000)
    return backend.allocate_tensor(1000, dtype=torch.float32, device=cpu)


def make_groups(rank, size):
    def groups(number):
        for _ in range(number):
            group = dist.new_group()
            tensor = a_tensor_of(group)
            dist.all_reduce(tensor, group=group)
            dist.all_reduce(tensor, group=group, async_op=True).get_future().wait()
            dist.destroy_process_group(group)

    groups(5)
    before = taken()
    number = CALLS // 100
    groups(number)
    after = taken()
    # torch's store keeps what the ranks of each group have told in it, over gloo too
    assert after[0] - before[0] < PAGES + 2 * number, f"{after[0] - before[0]} pages more"
    assert after[1] <= before[1] + THREADS and after[2] <= before[2], (before, after)
    assert threading.active_count() == 1


def groups_made_and_destroyed():
    rig.run(make_groups, 2)


if __name__ == "__main__":
    rig.main(each_kind_of_call, groups_made_and_destroyed)
