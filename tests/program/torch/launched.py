"""Programs as torchrun starts them: begun again after a death, begun again with more ranks, and
compiled by torch.compile.

    launched.py again | grown | compiled BACKEND FOLDER     # what a rank runs"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

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


# -- more ranks ------------------------------------------------------------------------------------


def run_grown(backend, folder):
    """Of two ranks one dies at the first start. At the next one sleeps, and the other waits for it,
    until torchrun ends both. Three ranks sum, and end."""
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    ones = torch.ones(3)
    dist.all_reduce(ones)
    if (rank, size, os.environ["TORCHELASTIC_RESTART_COUNT"]) == (1, 2, "0"):
        os.kill(os.getpid(), signal.SIGKILL)
    write(folder, f"{rank}of{size}", repr(ones.tolist()))
    if size < 3 and rank == 0:
        signal.pause()
    if size < 3:
        dist.all_reduce(ones)
    dist.destroy_process_group()


# Each start has a store of its own: with a common one the agent of PyTorch 2.15 tells a node that
# comes later no address. A busy machine may keep an agent from its beats for long.
AGENT = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
CONF = "last_call_timeout=3,keep_alive_max_attempt=100,read_timeout=300"


def start_agent(folder, port, ranks, is_host):
    """torchrun on a node of its own, of a job of one or two nodes."""
    with open(os.path.join(folder, f"agent{ranks}"), "w") as told:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node",
             str(ranks), "--max-restarts", str(ranks - 1), "--rdzv-id", "grown",
             "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}",
             "--rdzv-conf", f"is_host={is_host},{CONF}", __file__, "grown", "gyre", folder],
            stdout=told, stderr=told, env=dict(os.environ, **AGENT))


def agents_told(folder):
    return [open(os.path.join(folder, name)).read()[-3000:] for name in sorted(os.listdir(folder))
            if name.startswith("agent")]


def await_rank(folder, name, agent):
    end = time.monotonic() + rig.LIMIT
    while not os.path.exists(os.path.join(folder, name)):
        assert agent.poll() is None and time.monotonic() < end, (name, *agents_told(folder))
        time.sleep(0.05)


def begun_again_with_more_ranks():
    """A node that comes (--nnodes 1:2) has torchrun start all ranks again, in a larger world. The
    nodes' counts of starts differ, because one has lost a rank before."""
    folder, agents = tempfile.mkdtemp(prefix="gyre-torch-launched-"), []
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    try:
        agents.append(start_agent(folder, port, 2, 1))
        await_rank(folder, "rank1of2", agents[0])
        agents.append(start_agent(folder, port, 1, 0))
        codes = [agent.wait(rig.LIMIT) for agent in agents]
        assert codes == [0, 0], (codes, *agents_told(folder))
        found = [open(os.path.join(folder, f"rank{rank}of3")).read() for rank in range(3)]
        assert found == [repr([3.0] * 3)] * 3, found
    finally:
        for agent in agents:
            agent.terminate()  # it ends its ranks
            agent.wait()
        shutil.rmtree(folder)


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
    rig.leave(backend)


def compiled():
    assert launch("compiled", "gyre") == launch("compiled", "gloo")


if __name__ == "__main__":
    if sys.argv[2:]:
        programs = {"again": run_again, "grown": run_grown, "compiled": run_compiled}
        programs[sys.argv[1]](*sys.argv[2:])
    else:
        rig.main(begun_again_after_a_death, begun_again_with_more_ranks, compiled)
