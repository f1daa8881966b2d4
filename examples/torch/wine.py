"""Trains a perceptron on Wine's kind of table, data-parallel: 13 numbers, 3 classes.

    torchrun --nproc-per-node 2 wine.py [gloo]

Nothing but the word "gyre" is Gyre's. The table is drawn from a seed, so that nothing has to be
loaded: 178 rows around a centre for each class."""

import sys

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_table():
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(178) % 3
    centres = torch.randn(3, 13, generator=generator)
    return TensorDataset(centres[labels] + 0.7 * torch.randn(178, 13, generator=generator), labels)


def main():
    dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "gyre")
    torch.manual_seed(7)
    table = make_table()
    sampler = DistributedSampler(table, seed=7)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(13, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(20):
        sampler.set_epoch(epoch)
        for inputs, labels in DataLoader(table, batch_size=16, sampler=sampler):
            optimizer.zero_grad()
            loss = cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        dist.all_reduce(loss := loss.detach(), dist.ReduceOp.SUM)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item() / dist.get_world_size():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
