"""What a call gives with async_op=True: its Work, and the Work's future."""

import datetime
import gc
import os
import threading
import time

import torch
import torch.distributed as dist

import rig


def chain_futures(rank, size):
    work = dist.all_reduce(torch.ones(5), async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    rig.same(doubled.wait(), torch.full((5,), 2.0 * size))
    assert work.wait() and work.result()[0][0] == size
    again = work.get_future()
    assert again.done() and again.wait()[0][0] == size


def futures():
    rig.run(chain_futures, 3)


def wait_in_a_callback(rank, size):
    """What a future sets off waits for a future in turn, as DDP's PowerSGD hook does."""
    def go_on(future):
        tensor = future.value()[0]
        inner = dist.all_reduce(tensor, async_op=True).get_future().wait()[0]
        return dist.all_reduce(inner, async_op=True).get_future().wait()[0]

    for _ in range(5):
        future = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(go_on)
        assert future.wait().tolist() == [size ** 3] * 3


def futures_within_futures():
    rig.run(wait_in_a_callback, 2)


def end_out_of_order(rank, size):
    """The first future waits for a message that is sent last."""
    late = torch.zeros(1)
    first = dist.irecv(late, src=(rank + 1) % size).get_future()
    second = dist.all_reduce(torch.ones(1), async_op=True).get_future()
    assert second.wait()[0] == size and not first.done()
    dist.barrier()  # nobody has sent until all have looked
    dist.send(torch.full((1,), 7.0), dst=(rank - 1) % size)
    assert first.wait()[0] == 7


def futures_in_another_order():
    rig.run(end_out_of_order, 3)


def drop_works(rank, size):
    """Works that nobody waits for go on, with tensors that only they hold."""
    out = torch.zeros(6, 2)
    for _ in range(50):
        dist.all_reduce(torch.ones(1000), async_op=True)
    gathered = [out[:3, 0], out[:3, 1]]
    dist.all_gather(gathered, torch.full((3,), rank + 1.0), async_op=True)
    gc.collect()
    dist.barrier()
    end = time.monotonic() + rig.LIMIT
    while out[2, 1] != 2 and time.monotonic() < end:
        time.sleep(0.001)  # whoever sees it end copies it
    rig.same(out[:3], torch.tensor([[1.0, 2.0]] * 3))


def dropped():
    rig.run(drop_works, 2)


def wait_with_a_limit(rank, size):
    tensor = torch.ones(3)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        rig.raises(RuntimeError, ["all_reduce", "has not ended after 50 ms"],
                   lambda: work.wait(datetime.timedelta(milliseconds=50)))
        assert not work.is_completed()
        dist.send(tensor.new_zeros(1), dst=1)
        assert work.wait()
    else:
        dist.recv(tensor.new_zeros(1), src=0)
        dist.all_reduce(tensor)
    rig.same(tensor, torch.full((3,), 2.0))


def limits():
    rig.run(wait_with_a_limit, 2)


def wait_in_threads(rank, size):
    """Four threads wait for one Work, and others for their own messages."""
    tensor = torch.ones(10)
    work = dist.all_reduce(tensor, async_op=True)
    found = []
    waiters = [threading.Thread(target=lambda: found.append(work.wait())) for _ in range(4)]

    def exchange(tag):
        got = torch.zeros(1)
        receipt = dist.irecv(got, src=(rank - 1) % size, tag=tag)
        dist.send(torch.tensor([1.0 * tag]), dst=(rank + 1) % size, tag=tag)
        receipt.wait()
        found.append(got.item() == tag)

    waiters += [threading.Thread(target=exchange, args=(tag,)) for tag in range(1, 5)]
    for thread in waiters:
        thread.start()
    for thread in waiters:
        thread.join()
    assert found == [True] * 8 and tensor[0] == size


def threads():
    rig.run(wait_in_threads, 3)


def python_runs_meanwhile(rank, size):
    """A thread that waits leaves Python to the others."""
    if rank == 0:
        steps = [0]
        done = threading.Event()

        def count():
            while not done.is_set():
                steps[0] += 1
                if steps[0] == 1000:
                    dist.send(torch.zeros(1), dst=1)

        counter = threading.Thread(target=count)
        counter.start()
        dist.all_reduce(torch.ones(1))  # ends when rank 1 has the counter's message
        done.set()
        counter.join()
        assert steps[0] >= 1000
    else:
        dist.recv(torch.zeros(1), src=0)
        dist.all_reduce(torch.ones(1))


def python_is_not_held():
    rig.run(python_runs_meanwhile, 2)


if __name__ == "__main__":
    rig.main(futures, futures_within_futures, futures_in_another_order, dropped, limits, threads,
             python_is_not_held)
