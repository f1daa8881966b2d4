"""What is seen of calls from outside: torch's profiler shows each with its elements, and torch's
flight recorder, where it takes other backends, has each with its state."""

import json
import os
import pickle
import tempfile
import unittest.mock

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

import rig


def events_of(step):
    """The events of the profiler's trace that tell of collectives, as (name, arguments)."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        step()
    place = tempfile.mktemp(prefix="gyre-torch-", suffix=".json")
    found.export_chrome_trace(place)
    with open(place) as trace:
        events = json.load(trace)["traceEvents"]
    os.unlink(place)
    return [event["args"] for event in events if event.get("name") == "record_param_comms"]


def make_calls(rank, size):
    ones = torch.ones(6, dtype=torch.float64)
    dist.all_reduce(ones)
    dist.all_gather_into_tensor(torch.empty(size * 3), torch.ones(3))
    dist.broadcast(torch.ones(5, dtype=torch.bfloat16), 0, async_op=True).wait()
    dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * size))


def make_other_calls(rank, size):
    root = rank == 0
    ones = torch.ones(6)
    dist.reduce(ones, 0)
    dist.gather(torch.ones(2), [torch.empty(2) for _ in range(size)] if root else None, 0)
    dist.scatter(torch.empty(3), [torch.ones(3)] * size if root else None, 0)
    dist.all_gather([torch.empty(5) for _ in range(size)], torch.ones(5))
    dist.reduce_scatter(torch.empty(3), [torch.ones(3)] * size)
    dist.all_to_all_single(torch.empty(2 * size), torch.ones(2 * size))
    dist.all_to_all([torch.empty(2) for _ in range(size)], [torch.ones(2)] * size)
    dist.barrier()
    dist.recv(torch.empty(7), 1) if root else dist.send(torch.ones(7), 0)
    with dist._coalescing_manager(async_ops=False):
        dist.all_reduce(ones)
        dist.all_reduce(torch.ones(2))


def profile_calls(rank, size):
    dist.barrier()
    events = events_of(lambda: [make_calls(rank, size), make_other_calls(rank, size)])
    told = [(event["Collective name"], event["In msg nelems"], event["Out msg nelems"],
             event["dtype"]) for event in events]
    assert told == [
        ("allreduce", 6, 6, "Double"),
        ("_allgather_base", 3, 3 * size, "Float"),
        ("broadcast", 5, 5, "BFloat16"),
        ("_reduce_scatter_base", 2 * size, 2, "Float"),
        ("reduce", 6, 6, "Float"),
        ("gather", 2, 2 * size if rank == 0 else 2, "Float"),
        ("scatter", 3 * size if rank == 0 else 3, 3, "Float"),
        ("allgather", 5, 5 * size, "Float"),
        ("reduce_scatter", 3 * size, 3, "Float"),
        ("alltoall_base", 2 * size, 2 * size, "Float"),
        ("alltoall", 2 * size, 2 * size, "Float"),
        ("barrier", 0, 0, "Byte"),
        ("recv" if rank == 0 else "send", 7, 7, "Float"),
        ("allreduce", 6, 6, "Float"),
        ("allreduce", 2, 2, "Float"),
    ], told
    assert {event["Group size"] for event in events} == {size}


def profiled():
    rig.run(profile_calls, 2)


def entries():
    return pickle.loads(torch._C._distributed_c10d._dump_fr_trace(backend="gyre"))["entries"]


def states(name):
    return [entry["state"] for entry in entries() if name in entry["profiling_name"]]


def record_calls(rank, size):
    make_calls(rank, size)
    work = dist.all_reduce(torch.ones(7), async_op=True)
    work.wait()
    for name in ("all_reduce", "all_gather", "broadcast", "reduce_scatter"):
        assert set(states(name)) == {"completed"}, (name, states(name))
    sizes = [entry["input_sizes"] for entry in entries() if "all_reduce" in entry["profiling_name"]]
    assert sizes == [[[6]], [[7]]], sizes


def record_a_failure(rank, size, place):
    """The dump of a rank whose peer does not come names the call that has not ended."""
    if rank == 1:
        os._exit(0)
    rig.raises(dist.DistBackendError, ["GYRE_PEER_LOST"], lambda: dist.all_reduce(torch.ones(9)))
    with open(place + "0", "rb") as dump:
        last = pickle.load(dump)["entries"][-1]
    os.unlink(place + "0")
    assert last["input_sizes"] == [[9]] and last["state"] == "scheduled", last


def recorded():
    if not hasattr(torch._C._distributed_c10d, "FlightRecorderHook"):
        raise rig.Skip("this torch's flight recorder takes no other backends")
    rig.run(record_calls, 2)
    place = tempfile.mktemp(prefix="gyre-torch-")
    asked = {"TORCH_FR_DUMP_ON_TIMEOUT": "1", "TORCH_FR_DUMP_TEMP_FILE": place,
             "TORCH_INCLUDE_STACK_TRACE": "0"}
    with unittest.mock.patch.dict(os.environ, asked):
        rig.run(record_a_failure, 2, place, lost=[1])


if __name__ == "__main__":
    rig.main(profiled, recorded)
