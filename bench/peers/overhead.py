"""What a call of torch.distributed costs above Gyre's own: processor time, one rank, no waiting.

    python3 overhead.py [--calls 20000]

An all-reduce of 8 bytes in a group of one rank, which has nothing to send. torch's own backend
"fake" does nothing at all, so its time is Python's and c10d's; what gyre takes beyond it is the
extension and the call of Gyre for one rank. The flight recorder, which torch attaches to gyre and
not to "fake", is a row of its own. Processor time hardly depends on what else the machine does.
Needs gyre_torch (docs/pytorch.md)."""

import argparse
import os
import statistics
import subprocess
import sys
import time

ROWS = (("fake", "0"), ("gyre", "0"), ("gyre", "2000"))


def processor_us(step, calls):
    begun = time.process_time()
    for _ in range(calls):
        step()
    return (time.process_time() - begun) / calls * 1e6


def measure(backend, calls):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if backend == "fake":
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    else:
        dist.init_process_group("gyre", store=dist.HashStore(), rank=0, world_size=1)
    tensor = torch.zeros(2)
    steps = (lambda: dist.all_reduce(tensor),
             lambda: dist.all_reduce(tensor, async_op=True).wait())
    took = [statistics.median(processor_us(step, calls) for _ in range(5)) for step in steps]
    print(",".join(f"{one:.2f}" for one in took))
    dist.destroy_process_group()


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--calls", type=int, default=20000)
    words.add_argument("--backend", help=argparse.SUPPRESS)
    words = words.parse_args()
    if words.backend:
        return measure(words.backend, words.calls)
    print("backend,flight_recorder,all_reduce_us,all_reduce_async_us")
    for backend, size in ROWS:
        told = subprocess.run([sys.executable, __file__, "--backend", backend, "--calls",
                               str(words.calls)], check=True, text=True, stdout=subprocess.PIPE,
                              env=dict(os.environ, TORCH_FR_BUFFER_SIZE=size)).stdout
        print(f"{backend},{'on' if size != '0' else 'off'},{told}", end="", flush=True)


if __name__ == "__main__":
    main()
