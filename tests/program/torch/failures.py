"""What a rank sees when another dies, fails, leaves, or calls something else."""

import datetime
import inspect
import os
import signal
import subprocess
import sys
import time
import unittest.mock

import torch
import torch.distributed as dist

import rig


def lose_a_rank(rank, size, asynchronous):
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    tensor = torch.ones(10)

    def reduce():
        if asynchronous:
            dist.all_reduce(tensor, async_op=True).wait()
        else:
            dist.all_reduce(tensor)

    begun = time.monotonic()
    rig.raises(dist.DistBackendError, ["gyre: all_reduce: GYRE_PEER_LOST", "rank 1",
                                       os.uname().nodename], reduce)
    took = time.monotonic() - begun
    rig.raises(dist.DistBackendError, ["GYRE_PEER_LOST"], dist.barrier)
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    if hasattr(backend, "get_error"):  # older versions have none
        assert backend.get_error() == torch._C._distributed_c10d.ErrorType.REMOTE_ERROR
    return took


def a_killed_rank():
    """The survivors are told by the end of its process: no silence is long enough here."""
    with unittest.mock.patch.dict(os.environ, GYRE_DEAD_TIME="0"):
        for apart in (False, True):
            for asynchronous in (False, True):
                took = rig.run(lose_a_rank, 4, asynchronous, lost=(1,), apart=apart)
                print(f"told after {1000 * max(took.values()):.0f} ms at the latest"
                      f"{', over TCP' * apart}", flush=True)


def lose_with_future(rank, size):
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    future = dist.all_reduce(torch.ones(10), async_op=True).get_future()
    rig.raises(RuntimeError, ["GYRE_PEER_LOST", "rank 1"], future.wait)


def a_future_fails():
    rig.run(lose_with_future, 3, lost=(1,))


def lose_in_training(rank, size):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(200, 300))
    for step in range(10):
        loss = model(torch.ones(4, 200)).sum()
        if (rank, step) == (1, 3):
            os.kill(os.getpid(), signal.SIGKILL)
        if step < 3:
            loss.backward()
        else:
            rig.raises(dist.DistBackendError, ["GYRE_PEER_LOST", "rank 1", os.uname().nodename],
                       loss.backward)
            return


def a_rank_killed_in_training():
    """The backward pass of the others raises, by DDP's futures."""
    with unittest.mock.patch.dict(os.environ, GYRE_DEAD_TIME="0"):
        for apart in (False, True):
            rig.run(lose_in_training, 3, lost=(1,), apart=apart)


def differ(rank, size, how, asynchronous):
    """One rank's call is unlike the other's: both are told, and what differs is named."""
    other, root = rank == size - 1, rank == 0
    ones, flat = torch.ones(10), torch.ones(10 * size)
    longer = torch.ones(10 + other)
    doubles = torch.ones(10, dtype=torch.float64 if other else torch.float32)
    op = dist.ReduceOp.MAX if other else dist.ReduceOp.SUM
    calls = {
        "shape": (["10", "11"], lambda **a: dist.all_reduce(longer, **a)),
        "dtype": (["f32", "f64"], lambda **a: dist.all_reduce(doubles, **a)),
        "op": (["sum", "max"], lambda **a: dist.all_reduce(ones, op, **a)),
        "call": (["all_reduce", "broadcast"],
                 lambda **a: dist.broadcast(ones, 0, **a) if other else dist.all_reduce(ones, **a)),
        "barrier": (["all_reduce", "barrier"],
                    lambda **a: dist.barrier(**a) if other else dist.all_reduce(ones, **a)),
        "root": (["from rank 0", "from rank 1"], lambda **a: dist.broadcast(ones, int(other), **a)),
        "gathered": (["10", "11"], lambda **a: dist.all_gather_into_tensor(
            torch.empty(size * (10 + other)), longer, **a)),
        "scattered": (["sum", "max"],
                      lambda **a: dist.reduce_scatter_tensor(ones, flat, op, **a)),
        "blocks": (["17", "18"], lambda **a: dist.reduce_scatter(
            torch.empty(20 + rank if rank else 17),
            [torch.ones(20 + to if to else 17 + other) for to in range(size)], **a)),
        "reduced": (["10", "11"], lambda **a: dist.reduce(longer, 0, **a)),
        "list": (["10", "11"], lambda **a: dist.gather(
            longer, [torch.empty(10)] * size if root else None, 0, **a)),
        "splits": (["rank"], lambda **a: dist.all_to_all_single(
            torch.empty(10 + other), torch.ones(10 + other),
            [10 - size + 1 + other] + [1] * (size - 1), [10 - size + 1 + other] + [1] * (size - 1),
            **a)),
        "sparse": (["all_reduce", "all_gather"],
                   lambda **a: dist.all_reduce(ones.to_sparse() if other else ones, **a)),
    }
    words, call = calls[how]

    def step():
        if asynchronous:
            call(async_op=True).wait()
        else:
            call()
        dist.barrier()  # a root that has only sent is told by its next call

    rig.raises(dist.DistBackendError, ["GYRE_MISMATCH", *words], step)


def ranks_that_differ():
    wrong = []
    for how in ("shape", "dtype", "op", "call", "barrier", "root", "gathered", "scattered",
                "blocks", "reduced", "list", "splits", "sparse"):
        for asynchronous in (False, True):
            try:
                rig.run(differ, 2 + asynchronous, how, asynchronous)
            except AssertionError as error:
                wrong.append(f"{how}, async_op={asynchronous}: {error}")
    assert not wrong, "\n".join(wrong)


def go_by_exception(rank, size):
    if rank == 1:
        raise ValueError("planted")
    rig.raises(dist.DistBackendError, ["rank 1", "uncaught ValueError: planted"], dist.barrier)


def script(rank, size, place):
    """A rank of its own program, whose uncaught exception runs Python's exit handlers."""
    rig.begin(rank, size, place)
    dist.barrier()
    go_by_exception(rank, size)
    os._exit(0)


def run_script(rank, size, place):
    return subprocess.Popen(
        [sys.executable, __file__, "--script", str(rank), str(size), place],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )


def an_exception_is_told_to_the_others():
    place = f"/tmp/gyre-torch-script-{os.getpid()}"
    ranks = [run_script(rank, 2, place) for rank in range(2)]
    texts = [one.communicate(timeout=rig.LIMIT)[0] for one in ranks]
    os.unlink(place)
    assert ranks[0].returncode == 0, texts[0]
    assert ranks[1].returncode == 1 and "planted" in texts[1], (ranks[1].returncode, texts[1])


def time_out(rank, size):
    group = dist.new_group(timeout=datetime.timedelta(seconds=5))  # it must be joined, too
    if rank == 0:
        rig.raises(dist.DistBackendError, ["GYRE_TIMED_OUT", "rank 1"],
                   lambda: dist.all_reduce(torch.ones(2), group=group))
    dist.barrier()


def a_rank_that_does_not_come():
    rig.run(time_out, 2)


def abort_a_group(rank, size):
    group = dist.new_group()
    dist.barrier()  # all have joined: an abort may reach a rank that still does
    if rank == 1:
        group.abort()
    rig.raises(dist.DistBackendError, ["GYRE_ABORTED", "rank 1"],
               lambda: [dist.barrier(group=group) for _ in range(1000000)])
    tensor = torch.ones(1)
    dist.all_reduce(tensor)  # the other group goes on
    assert tensor.item() == size


def abort():
    if not hasattr(dist.ProcessGroup, "abort"):
        raise rig.Skip("this torch has no abort")
    rig.run(abort_a_group, 3)


def go_on_in_a_child(rank, size):
    """A forked child, as a data loader's, leaves the group to its parent."""
    child = os.fork()
    if child == 0:
        try:
            rig.raises(dist.DistBackendError, ["GYRE_FORKED"], dist.barrier)
            dist.destroy_process_group()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == size
    loader = torch.utils.data.DataLoader(list(range(8)), batch_size=4, num_workers=2)
    for batch in loader:
        dist.all_reduce(batch)
    dist.barrier()


def children():
    rig.run(go_on_in_a_child, 2)


def monitor(rank, size, all_ranks):
    group = dist.new_group()
    short = datetime.timedelta(milliseconds=300)
    dist.monitored_barrier(group=group, wait_all_ranks=all_ranks)
    if rank == 0:
        words = "Ranks 1, 2 failed" if all_ranks else "Rank 1 failed"
        rig.raises(dist.DistBackendError, [words + " to pass monitoredBarrier in 300 ms"],
                   lambda: dist.monitored_barrier(group, short, wait_all_ranks=all_ranks))
    dist.barrier()


def monitored_barrier():
    if "only implemented for GLOO" in inspect.getsource(dist.monitored_barrier):
        raise rig.Skip("this torch has it for gloo only")
    for all_ranks in (False, True):
        rig.run(monitor, 3, all_ranks)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--script"]:
        script(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    rig.main(a_killed_rank, a_future_fails, a_rank_killed_in_training, ranks_that_differ,
             an_exception_is_told_to_the_others, a_rank_that_does_not_come, abort, children,
             monitored_barrier)
