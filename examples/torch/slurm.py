"""Trains under Slurm, which starts a process for each task and tells it its place.

    sbatch --nodes 2 --ntasks-per-node 2 --wrap "srun python slurm.py --epochs 10 --save-every 5"

Rank, size and the host of rank 0 are Slurm's; only the port is chosen here. Rank 0 writes the
weights. Nothing but the word "gyre" is Gyre's."""

import argparse
import os
import subprocess

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def first_host():
    """Of the job: Slurm writes several as node[3-5,8]."""
    hosts = os.environ["SLURM_JOB_NODELIST"]
    if "[" not in hosts and "," not in hosts:
        return hosts
    told = subprocess.run(["scontrol", "show", "hostnames", hosts], capture_output=True, text=True,
                          check=True)
    return told.stdout.split()[0]


def begin(backend):
    os.environ.setdefault("MASTER_ADDR", first_host())
    os.environ.setdefault("MASTER_PORT", str(20000 + int(os.environ["SLURM_JOB_ID"]) % 20000))
    dist.init_process_group(backend, rank=int(os.environ["SLURM_PROCID"]),
                            world_size=int(os.environ["SLURM_NTASKS"]))


def make_table():
    generator = torch.Generator().manual_seed(42)
    labels = torch.arange(142) % 3
    centres = torch.randn(3, 13, generator=generator)
    return TensorDataset(centres[labels] + 0.7 * torch.randn(142, 13, generator=generator), labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--save-every", type=int, default=5)
    parser.add_argument("--folder", default=".")
    parser.add_argument("backend", nargs="?", default="gyre")
    words = parser.parse_args()
    begin(words.backend)
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    table = make_table()
    sampler = DistributedSampler(table)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(13, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(words.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(2)
        for inputs, labels in DataLoader(table, batch_size=32, sampler=sampler):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item() * len(labels), len(labels)])
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: loss {(total[0] / total[1]).item():.4f}", flush=True)
        if rank == 0 and (epoch + 1) % words.save_every == 0:
            torch.save(model.module.state_dict(),
                       os.path.join(words.folder, f"model_{epoch + 1}.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
