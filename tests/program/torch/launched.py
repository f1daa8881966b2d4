"""Programs as torchrun starts them: begun again after a death, and compiled by torch.compile.

    launched.py again | compiled BACKEND FOLDER     # what a rank runs"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist

import rig


def launch(program, backend, *flags):
    """Runs two ranks of this file, and gives what they have written, by rank."""
    folder = tempfile.mkdtemp(prefix="gyre-torch-launched-")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             *flags, __file__, program, backend, folder],
            capture_output=True, text=True, timeout=2 * rig.LIMIT,
            env=dict(os.environ, OMP_NUM_THREADS="1"))
        assert done.returncode == 0, done.stdout + done.stderr
        return [open(os.path.join(folder, f"rank{rank}")).read() for rank in range(2)]
    finally:
        shutil.rmtree(folder)


def write(folder, rank, text):
    with open(os.path.join(folder, f"rank{rank}"), "w") as file:
        file.write(text)


# -- begun again -----------------------------------------------------------------------------------


def run_again(backend, folder):
    """Saves after each epoch; rank 1 dies in the third. The next start goes on from there. (Over
    gloo the second start may fail: a rank finds the address of one that has died.)"""
    dist.init_process_group(backend)
    rank, start = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    saved = os.path.join(folder, "saved")
    weights, epoch = torch.load(saved) if os.path.exists(saved) else (torch.zeros(3), 0)
    first = epoch
    for epoch in range(first, 6):
        if (rank, start, epoch) == (1, 0, 3):
            os.kill(os.getpid(), signal.SIGKILL)
        gradient = torch.full((3,), float(rank + epoch))
        dist.all_reduce(gradient)
        weights += gradient
        if rank == 0:
            torch.save((weights, epoch + 1), saved + ".new")
            os.rename(saved + ".new", saved)
        dist.barrier()
    write(folder, rank, f"start {start} from epoch {first}: {weights.tolist()}")
    dist.destroy_process_group()


def begun_again_after_a_death():
    ours = launch("again", "gyre", "--max-restarts", "1")
    total = float(sum(1 + 2 * epoch for epoch in range(6)))
    assert ours == [f"start 1 from epoch 3: {[total] * 3}"] * 2, ours


# -- compiled --------------------------------------------------------------------------------------


def run_compiled(backend, folder):
    from torch.distributed._functional_collectives import all_reduce
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group(backend)
    rank = dist.get_rank()
    torch.manual_seed(7)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(13, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3)))
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    losses = []
    for _ in range(4):
        loss = torch.nn.functional.cross_entropy(compiled(torch.randn(8, 13)),
                                                 torch.randint(3, (8,)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())

    @torch.compile(fullgraph=True)
    def with_a_collective(x):
        return all_reduce(x * 2, "sum", dist.group.WORLD) + 1

    found = with_a_collective(torch.full((4,), float(rank)))
    assert found.tolist() == [3.0] * 4, found
    weights = [parameter.double().sum().item() for parameter in model.parameters()]
    write(folder, rank, repr((losses, weights)))
    dist.destroy_process_group()


def compiled():
    assert launch("compiled", "gyre") == launch("compiled", "gloo")


if __name__ == "__main__":
    if sys.argv[2:]:
        {"again": run_again, "compiled": run_compiled}[sys.argv[1]](*sys.argv[2:])
    else:
        rig.main(begun_again_after_a_death, compiled)
