"""What all_reduce of torch.distributed over gloo takes, measured as ../measure.c measures gyre_all_reduce.

    python3 allreduce_gloo.py RANKS 8 4096 65536 67108864:5

Each size is in bytes, with ":N" if N calls are to be timed rather than at least 20 and 50 ms. Sums of floats in CPU
tensors, one thread per rank. all_reduce works in place only; out of place is a copy followed by it, which is what a
program that keeps its input has to write. Up to 4 KiB the clock runs over all calls, back to back. Above, before each
call every rank reads its whole output, rewrites its whole input and waits for the others, and only the call itself is
timed. A time is the mean over calls and ranks. One more call on data that depend on rank, index and turn is checked.

Ranks are forked from one process that has imported torch. Prints a version line, then one line per size:

    size,time_us,wrong,in_place_time_us,in_place_wrong
"""

import math
import os
import socket
import sys
import time
import traceback

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist

PILOT_CALLS = 4
LEAST_CALLS = 20
MOST_CALLS = 2000000
LEAST_US = 50e3
FRESH_ABOVE = 4096  # bytes
WARM_UPS = 2


class Bench:
    def __init__(self, rank, n, largest):
        count = max(largest // 4, 1)
        self.rank, self.n, self.turn = rank, n, 0
        self.all_input = torch.full((count,), 1.0)
        self.all_output = torch.full((count,), 1.0)

    def choose(self, count, in_place):
        self.count, self.in_place = count, in_place
        self.output = self.all_output[:count]
        self.input = self.output if in_place else self.all_input[:count]

    def call(self):
        if not self.in_place:
            self.output.copy_(self.input)
        dist.all_reduce(self.output)


# -- time ----------------------------------------------------------------------------------------


def agree(value, n):
    """The mean over ranks."""
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor)
    return tensor.item() / n


def from_root(value):
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(tensor, 0)
    return tensor.item()


def now_us():
    return time.perf_counter_ns() * 1e-3


def refresh(bench, turn):
    bench.output.sum().item()
    bench.input.fill_(1.0 + (turn & 7))


def time_each(bench, calls):
    total = 0.0
    for turn in range(calls):
        refresh(bench, turn)
        dist.barrier()
        start = now_us()
        bench.call()
        total += now_us() - start
    return total


def time_calls(bench, calls):
    dist.barrier()
    if bench.count * 4 > FRESH_ABOVE:
        return time_each(bench, calls)
    start = now_us()
    for _ in range(calls):
        bench.call()
    return now_us() - start


def calls_for(total_us, calls):
    wanted = math.ceil(1.25 * LEAST_US / max(total_us / calls, 1e-3))
    return int(min(max(wanted, LEAST_CALLS), MOST_CALLS))


def time_row(bench, calls):
    """Microseconds per call; `calls` 0: as many as needed."""
    time_calls(bench, 1)
    if calls > 0:
        return time_calls(bench, calls) / calls
    calls = int(from_root(calls_for(time_calls(bench, PILOT_CALLS), PILOT_CALLS)))
    while True:
        total = time_calls(bench, calls)
        short = total < LEAST_US and calls < MOST_CALLS
        wanted = int(from_root(calls_for(total, calls) if short else 0))
        if wanted <= calls:
            return total / calls
        calls = wanted


# -- check ---------------------------------------------------------------------------------------


def count_wrong(bench):
    """Wrong elements over all ranks. Sums of small whole numbers are exact."""
    bench.turn += 1
    values = ((torch.arange(bench.count, dtype=torch.int32) * 7 + bench.turn) % 1021).to(torch.float32)
    bench.output.fill_(-1.0)
    bench.input.copy_(values * (bench.rank + 1))
    bench.call()
    wrong = (bench.output != values * (bench.n * (bench.n + 1) // 2)).sum().item()
    return round(agree(wrong, bench.n) * bench.n)


# -- rows ----------------------------------------------------------------------------------------


def run_row(bench, size, calls):
    line = [str(size)]
    for in_place in (False, True):
        bench.choose(size // 4, in_place)
        for _ in range(WARM_UPS):
            bench.call()
        line.append("%.3f" % agree(time_row(bench, calls), bench.n))
        line.append(str(count_wrong(bench)))
    if bench.rank == 0:
        print(",".join(line), flush=True)


def run_rank(rank, n, port, rows):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(n), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    bench = Bench(rank, n, max(size for size, _ in rows))
    for size, calls in rows:
        run_row(bench, size, calls)
    dist.barrier()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def parse_row(word):
    size, _, calls = word.partition(":")
    return int(size), int(calls or 0)


def start_rank(rank, n, port, rows):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run_rank(rank, n, port, rows)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def main():
    n, rows, port = int(sys.argv[1]), [parse_row(word) for word in sys.argv[2:]], free_port()
    print("# PyTorch %s, gloo" % torch.__version__, flush=True)
    children = [start_rank(rank, n, port, rows) for rank in range(n)]
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    return 1 if failed else 0


sys.exit(main())
