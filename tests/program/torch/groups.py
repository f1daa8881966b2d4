"""Groups: of all ranks, of some, made by members only, split, and made again."""

import datetime
import multiprocessing
import os
import subprocess
import sys

import torch
import torch.distributed as dist

import rig


def sum_of(group=None, value=1.0):
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


def make_parts(rank, size):
    even, odd = dist.new_group([0, 2]), dist.new_group([1, 3])
    mine = odd if rank % 2 else even
    assert sum_of(mine, rank) == (4 if rank % 2 else 2)
    if rank % 2:
        apart = dist.new_group([3, 1], use_local_synchronization=True)
        assert sum_of(apart, rank) == 4
        dist.destroy_process_group(apart)
    assert sum_of(None, rank) == 6
    both = [dist.all_reduce(torch.ones(1), group=group, async_op=True) for group in (None, mine)]
    for work in reversed(both):
        work.wait()
    tensor = torch.tensor([rank * 1.0])
    dist.broadcast(tensor, src=2 + rank % 2, group=mine)
    assert tensor.item() == 2 + rank % 2


def subgroups():
    rig.run(make_parts, 4)


def split_in_two(rank, size):
    part = dist.split_group(split_ranks=[[1, 0], [2, 3]])
    assert part.size() == 2 and sum_of(part, rank) == (1 if rank < 2 else 5)
    assert part.rank() == [1, 0, 0, 1][rank]


def split():
    if not hasattr(dist, "split_group"):
        raise rig.Skip("this torch has no split_group")
    rig.run(split_in_two, 4)


def merge_again(rank, size, place):
    """Of two halves one group."""
    part = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    merged = part.merge_remote_group(dist.FileStore(place, size), size, group_name="merged")
    ranks = torch.tensor([2 ** rank, 2 ** merged.rank()])  # torch numbers them as they come
    merged.allreduce([ranks]).wait()
    assert ranks.tolist() == [15, 15] and merged.size() == size
    merged.shutdown()


def merged():
    if not hasattr(dist.ProcessGroup, "merge_remote_group"):
        raise rig.Skip("this torch has no merge_remote_group")
    place = f"/tmp/gyre-torch-merged-{os.getpid()}"
    rig.run(merge_again, 4, place)
    if os.path.exists(place):
        os.unlink(place)


def bind_a_device(rank, size):
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    dist.init_process_group("gyre", store=dist.PrefixStore("bound/", store), rank=rank,
                            world_size=size, device_id=torch.device("cpu", 0))
    part = dist.new_group([0, 2])  # torch tells rank 1, too, where the backend can split
    if rank != 1:
        assert sum_of(part) == 2
    assert sum_of() == size


def bound_to_a_device():
    if rig.OLD:
        raise rig.Skip("this torch binds to accelerators only")
    rig.run(bind_a_device, 3)


def make_again(rank, size):
    store = dist.distributed_c10d._get_default_store()
    for turn in range(3):
        dist.destroy_process_group()
        dist.init_process_group("gyre", store=dist.PrefixStore(f"turn{turn}/", store), rank=rank,
                                world_size=size, timeout=datetime.timedelta(seconds=rig.LIMIT))
        assert sum_of() == size


def again():
    rig.run(make_again, 2)


def meet_in_tcp(rank, size, port):
    """The same store for all: groups of one name follow each other in it."""
    dist.destroy_process_group()
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    for _ in range(3):
        dist.init_process_group("gyre", store=store, rank=rank, world_size=size)
        assert sum_of() == size and dist.get_backend() == "gyre"
        dist.barrier()
        dist.destroy_process_group()


def a_tcp_store():
    """The store outlives the groups. (One that a group makes ends with it, while another rank may
    already look for the next.)"""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    rig.run(meet_in_tcp, 2, store.port)


def stand_beside_gloo(rank, size):
    other = dist.new_group(backend="gloo")
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=other)
    assert tensor[0] == size and sum_of() == size


def beside_gloo():
    rig.run(stand_beside_gloo, 2)


def no_import_is_needed():
    """torch knows the backend by its entry point."""
    if rig.OLD:
        raise rig.Skip("this torch looks for no entry points")
    code = "import sys, torch.distributed as d; assert 'gyre' in d.Backend.backend_list; " \
           "assert 'gyre_torch._C' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def a_script_ends_without_goodbye():
    """A program that never destroys its group ends well all the same, on every rank."""
    code = "import sys; sys.path.insert(0, {path!r}); import rig, torch, torch.distributed as d; " \
           "rig.begin({rank}, 2, {place!r}); d.barrier()"
    place = f"/tmp/gyre-torch-left-{os.getpid()}"
    path = os.path.dirname(os.path.abspath(__file__))
    codes = [code.format(path=path, rank=rank, place=place) for rank in range(2)]
    ranks = [subprocess.Popen([sys.executable, "-c", one], stderr=subprocess.PIPE, text=True)
             for one in codes]
    for one in ranks:
        text = one.communicate(timeout=rig.LIMIT)[1]
        assert one.returncode == 0, text
    if os.path.exists(place):  # torch's store may have removed it
        os.unlink(place)


def be_a_child(rank, size, place, told):
    dist.destroy_process_group()  # the parent's
    rig.begin(rank, size, place)
    assert sum_of() == size
    if rank == 0:
        told.put(rig.raises(dist.DistBackendError, ["rank 1"], dist.barrier))


def have_a_child(rank, size, place):
    context = multiprocessing.get_context("fork")
    told = context.SimpleQueue()
    child = context.Process(target=be_a_child, args=(rank, size, place, told))
    child.start()
    child.join(rig.LIMIT)
    assert child.exitcode == 0
    if rank == 0:
        text = told.get()
        assert "without a goodbye" not in text, text


def a_child_says_goodbye():
    """Children of ranks that make a group of their own leave it as their parents would."""
    place = f"/tmp/gyre-torch-children-{os.getpid()}"
    rig.run(have_a_child, 2, place)
    if os.path.exists(place):
        os.unlink(place)


def a_missing_rank_is_told():
    place = f"/tmp/gyre-torch-missing-{os.getpid()}"
    rig.raises(dist.DistBackendError, ["init_process_group", "GYRE_TIMED_OUT", "rank 1"],
               lambda: rig.begin(0, 2, place, timeout=0.5))
    os.unlink(place)


if __name__ == "__main__":
    rig.main(subgroups, split, merged, bound_to_a_device, again, a_tcp_store, beside_gloo,
             no_import_is_needed, a_script_ends_without_goodbye, a_child_says_goodbye,
             a_missing_rank_is_told)
