"""Ranks for the tests of gyre_torch: processes of this machine, each with a group of torch's.

    def rank_main(rank, size): ...          # what each rank does; an exception fails the test
    rig.run(rank_main, size=3)

A test is a program. It prints a line for each case, and ends with 0 if all were right. A rank that
does not end within LIMIT is killed, and fails its case. The limits are long, because a busy machine
may leave a process without a processor for a while."""

import datetime
import multiprocessing
import os
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed as dist

OLD = not hasattr(torch, "_import_device_backends")  # 2.4, which looks for no entry points
if OLD:
    import gyre_torch

SLOW = int(os.environ.get("GYRE_TEST_SLOW") or 1)
LIMIT = 300 * SLOW  # seconds for one case
torch.set_num_threads(1)


def begin(rank, size, place, backend="gyre", timeout=200 * SLOW):
    """Makes the default group; the ranks meet in the file `place`."""
    dist.init_process_group(
        backend,
        store=dist.FileStore(place, size),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
    )


def leave(backend):
    """Destroys the groups. The destructor of gloo may hang with torch 2.4, because it waits for a
    thread that needs Python's lock; there the processes end together without it."""
    if OLD and backend == "gloo":
        dist.barrier()
        if not multiprocessing.parent_process():  # a forked process runs no destructors
            os._exit(0)
    elif dist.is_initialized():
        dist.destroy_process_group()


def _rank_process(main, rank, size, place, backend, results, apart, arguments):
    torch.set_num_threads(1)
    if apart:
        os.environ["GYRE_SIMULATED_NODE"] = str(rank)
    try:
        begin(rank, size, place, backend)
        results.put((rank, "fine", main(rank, size, *arguments)))
        leave(backend)
    except BaseException:
        results.put((rank, "failed", traceback.format_exc()))


def run(main, size, *arguments, backend="gyre", lost=(), apart=False):
    """Runs main(rank, size, *arguments) on each rank, and gives what they return, by rank. Ranks in
    `lost` may end without a result. Where they are `apart`, each is a node of its own."""
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    place = tempfile.mktemp(prefix="gyre-torch-")
    processes = [
        context.Process(
            target=_rank_process,
            args=(main, rank, size, place, backend, results, apart, arguments),
        )
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    end = time.monotonic() + LIMIT
    for process in processes:
        process.join(max(0, end - time.monotonic()))
    late = [rank for rank, process in enumerate(processes) if process.is_alive()]
    for process in processes:
        process.kill()
        process.join()
    found = _collect(results)
    if os.path.exists(place):
        os.unlink(place)
    wrong = [f"rank {rank}:\n{text}" for rank, (end, text) in found.items() if end == "failed"]
    wrong += [f"rank {rank} has not ended within {LIMIT} s" for rank in late]
    missing = set(range(size)) - set(found) - set(lost) - set(late)
    wrong += [f"rank {rank} ended without a result" for rank in missing]
    if wrong:
        raise AssertionError("\n".join(wrong))
    return {rank: value for rank, (_, value) in found.items()}


def _collect(results):
    found = {}
    while not results.empty():
        rank, end, value = results.get()
        if found.get(rank, ("fine",))[0] == "fine":
            found[rank] = (end, value)
    return found


def raises(kind, words, step):
    """Expects an exception with all of the words in it, and gives its text."""
    try:
        step()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} are not in: {error}"
        return str(error)
    raise AssertionError(f"no {kind.__name__} was raised")


def same(tensor, expected):
    """Expects the same dtype, shape and bits."""
    expected = torch.as_tensor(expected, dtype=tensor.dtype)
    assert tensor.shape == expected.shape, f"{tensor.shape}, not {expected.shape}"
    assert torch.equal(tensor, expected), f"{tensor}, not {expected}"


def close(tensor, expected):
    """Expects values that are right but for their rounding."""
    assert tensor.shape == expected.shape, f"{tensor.shape}, not {expected.shape}"
    assert torch.allclose(tensor, expected, rtol=1e-6, atol=0), f"{tensor}, not {expected}"


class Skip(Exception):
    """Raised by a case that this torch cannot run, with the reason."""


def main(*cases):
    """Runs all cases, which are functions, or those named on the command line."""
    chosen = [case for case in cases if case.__name__ in sys.argv[1:]] or cases
    failed = skipped = 0
    for case in chosen:
        begun = time.monotonic()
        try:
            case()
            print(f"fine: {case.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
        except Skip as reason:
            skipped += 1
            print(f"skipped: {case.__name__}: {reason}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED: {case.__name__}\n{traceback.format_exc()}", flush=True)
    sys.exit(77 if skipped == len(chosen) else failed > 0)
