"""What operations of torch.distributed over gloo take, measured as ../measure.c measures Gyre's.

    python3 gloo.py all_reduce RANKS 8 4096 65536 67108864:5

Each size is in bytes, with ":N" if N calls are to be timed rather than at least 20 and 50 ms (where
20 would take over 0.2 s fewer, at least 4). Floats in CPU tensors, sums, root 0, one thread per
rank. all_reduce, broadcast and reduce work in place only; out of place is a copy and the call,
which is what a program that keeps its input has to write. The others work out of place only.
all_gather_v and reduce_scatter are not there: exit code 5.

Up to 4 KiB the clock runs over all calls, back to back. Above, before each call every rank reads
its whole output, rewrites its whole input and waits for the others, and only the call itself is
timed; after it all wait for each other. Of operations with a root some ranks may return early, so a
barrier ends what is timed. A time is the mean over calls and ranks; percentiles are those of the
slowest rank, call by call; processor time is that of all threads of all ranks, per call. One more
call on data that depend on rank, index and turn is checked.

Ranks are forked from one process that has imported torch. Prints a version line, then one line per
size; the last five are 0 where there is no such half:

    size,time_us,wrong,p50_us,p99_us,processor_us,in_place_time_us,in_place_wrong,…
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
ENOUGH_US = 200e3  # where calls are so slow, PILOT_CALLS will do
MOST_SAMPLES = 2000  # of calls one by one
FRESH_ABOVE = 4096  # bytes
WARM_UPS = 2


# Which elements a rank gives and gets: one block, n of them, the same on rank 0 alone.
BLOCK, BLOCKS, ROOT_BLOCK, ROOT_BLOCKS, NOTHING = range(5)


class Bench:
    def __init__(self, op, rank, n, largest):
        count = max(largest // 4, 1)
        self.op, self.rank, self.n, self.turn = op, rank, n, 0
        self.all_input = torch.full((count,), 1.0)
        self.all_output = torch.full((count,), 1.0)

    def choose(self, size, in_place):
        whole = {BLOCKS, ROOT_BLOCKS} & {self.op.gives, self.op.gets}
        self.count = size // 4 // self.n // 4 * 4 if whole else size // 4
        self.bytes = 4 * self.count * (self.n if whole else 1)
        self.in_place = in_place
        self.output = self.all_output[: self.elements(self.op.gets)]
        self.input = self.all_output if in_place else self.all_input
        self.input = self.input[: self.elements(self.op.gives)]

    def elements(self, shape):
        root = self.rank == 0
        counts = {BLOCK: 1, BLOCKS: self.n, NOTHING: 0}
        counts.update({ROOT_BLOCK: root, ROOT_BLOCKS: root * self.n})
        return self.count * counts[shape]

    def blocks(self, tensor):
        return [tensor[i * self.count : (i + 1) * self.count] for i in range(self.n)]


# -- operations ----------------------------------------------------------------------------------


def in_place_only(call):
    """Of what works in place only: out of place is a copy first. Other ranks than the root lend
    their output."""

    def both(bench):
        if bench.in_place or bench.input.numel() == 0:
            call(bench, bench.all_output[: bench.count])
        else:
            target = bench.all_output[: bench.count]
            target.copy_(bench.input)
            call(bench, target)

    return both


def all_gather(bench):
    dist.all_gather(bench.blocks(bench.output), bench.input)


def gather(bench):
    dist.gather(bench.input, bench.blocks(bench.output) if bench.rank == 0 else None, 0)


def scatter(bench):
    dist.scatter(bench.output, bench.blocks(bench.input) if bench.rank == 0 else None, 0)


def uneven(bench, index):
    def start(rank):
        return bench.count * rank * (rank + 1) // (bench.n + 1)

    return start(index % bench.n + 1) - start(index % bench.n)


def all_to_all_v(bench):
    counts = [uneven(bench, bench.rank + peer) for peer in range(bench.n)]
    dist.all_to_all_single(bench.output, bench.input, counts, counts)


def sendrecv(bench):
    sent = dist.isend(bench.input, (bench.rank + 1) % bench.n)
    dist.recv(bench.output, (bench.rank - 1) % bench.n)
    sent.wait()


class Op:
    def __init__(self, gives, gets, call, rooted=False, sums=False, both=False):
        self.gives, self.gets, self.call = gives, gets, call
        self.rooted, self.sums, self.both = rooted, sums, both


OPS = {
    "all_reduce": Op(
        BLOCK,
        BLOCK,
        in_place_only(lambda bench, data: dist.all_reduce(data)),
        sums=True,
        both=True,
    ),
    "broadcast": Op(
        ROOT_BLOCK,
        BLOCK,
        in_place_only(lambda bench, data: dist.broadcast(data, 0)),
        rooted=True,
        both=True,
    ),
    "reduce": Op(
        BLOCK,
        ROOT_BLOCK,
        in_place_only(lambda bench, data: dist.reduce(data, 0)),
        rooted=True,
        sums=True,
        both=True,
    ),
    "all_gather": Op(BLOCK, BLOCKS, all_gather),
    "all_to_all": Op(
        BLOCKS, BLOCKS, lambda bench: dist.all_to_all_single(bench.output, bench.input)
    ),
    "all_to_all_v": Op(BLOCKS, BLOCKS, all_to_all_v),
    "gather": Op(BLOCK, ROOT_BLOCKS, gather, rooted=True),
    "scatter": Op(ROOT_BLOCKS, BLOCK, scatter, rooted=True),
    "barrier": Op(NOTHING, NOTHING, lambda bench: dist.barrier()),
    "sendrecv": Op(BLOCK, BLOCK, sendrecv),
}


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


def processor_us():
    return time.process_time_ns() * 1e-3


def refresh(bench, turn):
    bench.output.sum().item()
    bench.input.fill_(1.0 + (turn & 7))


def finish(bench):
    if bench.op.rooted:
        dist.barrier()


def time_each(bench, calls, times):
    total = processor = 0.0
    for turn in range(calls):
        if bench.bytes > FRESH_ABOVE:
            refresh(bench, turn)
            dist.barrier()
        begun, start = processor_us(), now_us()
        bench.op.call(bench)
        finish(bench)
        took = now_us() - start
        total += took
        processor += processor_us() - begun
        if times is not None:
            times.append(took)
        if bench.bytes > FRESH_ABOVE:
            dist.barrier()
    return total, processor


def time_calls(bench, calls, times=None):
    """Microseconds of all calls, and of the processor."""
    dist.barrier()
    if bench.bytes > FRESH_ABOVE or times is not None:
        return time_each(bench, calls, times)
    begun, start = processor_us(), now_us()
    for _ in range(calls):
        bench.op.call(bench)
    finish(bench)
    total = now_us() - start
    return total, processor_us() - begun


def calls_for(total_us, calls):
    each = max(total_us / calls, 1e-3)
    least = max(min(LEAST_CALLS, ENOUGH_US / each), PILOT_CALLS)
    return int(min(math.ceil(max(1.25 * LEAST_US / each, least)), MOST_CALLS))


def time_row(bench, calls):
    """Of one call: microseconds, the processor's; and each call's own, where they were timed one by
    one. `calls` 0: as many as needed."""
    fresh, given = bench.bytes > FRESH_ABOVE, calls > 0
    time_calls(bench, 1)
    if not given:
        calls = int(from_root(calls_for(time_calls(bench, PILOT_CALLS)[0], PILOT_CALLS)))
    while True:
        times = [] if fresh else None
        total, processor = time_calls(bench, calls, times)
        short = not given and total < LEAST_US and calls < MOST_CALLS
        wanted = int(from_root(calls_for(total, calls) if short else 0))
        if wanted <= calls:
            break
        calls = wanted
    if not fresh:
        times = []
        time_calls(bench, min(calls, MOST_SAMPLES), times)
    return total / calls, processor / calls, times


def percentiles(times):
    """Of the slowest rank, call by call."""
    slowest = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    ascending = slowest.sort().values.tolist()
    return ascending[len(times) // 2], ascending[(len(times) * 99 + 99) // 100 - 1]


# -- check ---------------------------------------------------------------------------------------


def values(bench, rank, first, count):
    index = torch.arange(first, first + count, dtype=torch.int64)
    return ((index * 7 + rank * 13 + bench.turn) % 1021).to(torch.float32)


def expected(bench):
    """What this rank must find in its output. Sums of small whole numbers are exact."""
    op, count = bench.op, bench.count
    if bench.output.numel() == 0:
        return bench.output.clone()
    if op.sums:
        return sum(values(bench, rank, 0, count) for rank in range(bench.n))
    if op is OPS["sendrecv"]:
        return values(bench, (bench.rank - 1) % bench.n, 0, count)
    if op is OPS["all_to_all_v"]:
        firsts = [
            sum(uneven(bench, source + peer) for peer in range(bench.rank))
            for source in range(bench.n)
        ]
        return torch.cat(
            [
                values(bench, source, firsts[source], uneven(bench, source + bench.rank))
                for source in range(bench.n)
            ]
        )
    own = bench.rank * count if op.gives in (BLOCKS, ROOT_BLOCKS) else 0
    sources = range(bench.n) if op.gets in (BLOCKS, ROOT_BLOCKS) else [0]
    return torch.cat([values(bench, source, own, count) for source in sources])


def count_wrong(bench):
    """Wrong elements over all ranks."""
    bench.turn += 1
    bench.all_output[: bench.bytes // 4].fill_(-1.0)
    bench.input.copy_(values(bench, bench.rank, 0, bench.input.numel()))
    bench.op.call(bench)
    wrong = (bench.output != expected(bench)).sum().item()
    return round(agree(wrong, bench.n) * bench.n)


# -- rows ----------------------------------------------------------------------------------------


def measure(bench, size, calls, in_place):
    bench.choose(size, in_place)
    for _ in range(WARM_UPS):
        bench.op.call(bench)
    mean, processor, times = time_row(bench, calls)
    mean, processor = agree(mean, bench.n), agree(processor, bench.n) * bench.n
    p50, p99 = percentiles(times)
    wrong = str(count_wrong(bench))
    return ["%.3f" % mean, wrong] + ["%.3f" % value for value in (p50, p99, processor)]


def run_row(bench, size, calls):
    line = [str(size)] + measure(bench, size, calls, False)
    line += measure(bench, size, calls, True) if bench.op.both else ["0"] * 5
    if bench.rank == 0:
        print(",".join(line), flush=True)


def run_rank(op, rank, n, port, rows):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(n))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    bench = Bench(op, rank, n, max(size for size, _ in rows))
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


def start_rank(op, rank, n, port, rows):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run_rank(op, rank, n, port, rows)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def main():
    if sys.argv[1] not in OPS:
        print("gloo has no %s" % sys.argv[1], file=sys.stderr)
        return 5
    op, n, port = OPS[sys.argv[1]], int(sys.argv[2]), free_port()
    rows = [parse_row(word) for word in sys.argv[3:]]
    print("# PyTorch %s, gloo" % torch.__version__, flush=True)
    children = [start_rank(op, rank, n, port, rows) for rank in range(n)]
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    return 1 if failed else 0


sys.exit(main())
