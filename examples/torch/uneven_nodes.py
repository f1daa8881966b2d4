"""Trains on machines that have different numbers of devices: here 2 and 1.

    torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint HOST:12355 --rdzv-id JOB \\
        --nproc-per-node 2 uneven_nodes.py       # on the other machine: --nproc-per-node 1

torchrun numbers the ranks, node behind node, so that none has to be computed from the size of its
own node. Nothing but the word "gyre" is Gyre's."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_table():
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(1000, 10, generator=generator)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def main():
    dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "gyre")
    rank, size = dist.get_rank(), dist.get_world_size()
    places = [None] * size
    dist.all_gather_object(places, (rank, int(os.environ["LOCAL_RANK"]),
                                    int(os.environ["LOCAL_WORLD_SIZE"])))
    if rank == 0:
        print("rank, local rank, ranks of the node:", *places, flush=True)
    torch.manual_seed(0)
    table = make_table()
    sampler = DistributedSampler(table)
    loader = DataLoader(table, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(torch.nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        dist.all_reduce(loss := loss.detach())
        if rank == 0:
            print(f"epoch {epoch}: {len(loader)} steps, loss {loss.item() / size:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
