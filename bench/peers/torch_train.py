# PyTorch's DistributedDataParallel over gloo as `gyre train` would train the same model: one
# process and one thread for each rank, random data in memory, every step the same batch. With one
# rank there is no DistributedDataParallel.
#
#     torch_train.py --layers 784,500,10 --batch 100 --ranks 2 --steps 100
#
# With --bind each rank, its gloo threads too, keeps to one core.
#
# Prints steps per second, the time of day (seconds since 1970) when rank 0 had done its first step,
# and the peak memory of the fullest and of the leanest rank in KiB: "112.5 1795312980.85 245944
# 245732".
import argparse
import os
import socket
import time

os.environ["OMP_NUM_THREADS"] = "1"
import torch  # noqa: E402  (reads the variable)
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
import torch.nn as nn  # noqa: E402

WARM_UPS = 5


def peak_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def make_model(sizes):
    layers = []
    for i in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def make_step(options):
    sizes = [int(word) for word in options.layers.split(",")]
    model = make_model(sizes)
    if options.ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
    x, y = torch.rand(options.batch, sizes[0]), torch.randint(0, sizes[-1], (options.batch,))
    find_loss = nn.CrossEntropyLoss()
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[options.optimizer]
    optimizer = kind(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        find_loss(model(x), y).backward()
        optimizer.step()

    return step


def run_rank(rank, options, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if options.bind:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    torch.manual_seed(rank)
    step = make_step(options)
    step()
    first = time.time()
    for _ in range(WARM_UPS):
        step()
    dist.barrier()
    begun = time.monotonic()
    for _ in range(options.steps):
        step()
    seconds = time.monotonic() - begun
    memory = [None] * options.ranks
    dist.all_gather_object(memory, peak_kib())
    if rank == 0:
        figures = (options.steps / seconds, first, max(memory), min(memory))
        print("%.6g %.6f %d %d" % figures, flush=True)
    dist.barrier()
    os._exit(0)  # destroy_process_group() of PyTorch 1.13 hangs in one of four runs


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="sgd")
    parser.add_argument("--bind", action="store_true")
    words = parser.parse_args()
    mp.spawn(run_rank, args=(words, free_port()), nprocs=words.ranks)
