"""Trains a ConvNet on MNIST with a process for each device, which this program starts itself.

    python mnist_convnet.py --data FOLDER [--processes 2] [--nodes 1 --node-rank 0] [gloo]

The folder has MNIST's files of images and labels, unpacked by gunzip; docs/training.md says where
they are. Nothing but the word "gyre" is Gyre's."""

import argparse
import os
import pathlib

import numpy
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class ConvNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 5, padding=2), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
            torch.nn.MaxPool2d(2))
        self.layer2 = torch.nn.Sequential(
            torch.nn.Conv2d(16, 32, 5, padding=2), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
            torch.nn.MaxPool2d(2))
        self.fc = torch.nn.Linear(7 * 7 * 32, 10)

    def forward(self, x):
        return self.fc(self.layer2(self.layer1(x)).flatten(1))


def read(folder, name, header):
    """The bytes of one of MNIST's files, behind its header."""
    return numpy.frombuffer((pathlib.Path(folder) / name).read_bytes(), numpy.uint8, offset=header)


def load(folder):
    images = read(folder, "train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    labels = read(folder, "train-labels-idx1-ubyte", 8)
    return TensorDataset(torch.from_numpy(images / numpy.float32(255)),
                         torch.from_numpy(labels.astype(numpy.int64)))


def train(local_rank, words):
    rank = words.node_rank * words.processes + local_rank
    torch.set_num_threads(1)
    dist.init_process_group(words.backend, init_method="env://", rank=rank,
                            world_size=words.nodes * words.processes)
    torch.manual_seed(0)
    model = DistributedDataParallel(ConvNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=words.rate)
    data = load(words.data)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=words.batch, sampler=sampler)
    for epoch in range(words.epochs):
        sampler.set_epoch(epoch)
        for step, (images, labels) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                print(f"epoch {epoch + 1}, step {step + 1} of {len(loader)}: {loss.item():.4f}",
                      flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("backend", nargs="?", default="gyre")
    words = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "8888")
    torch.multiprocessing.spawn(train, nprocs=words.processes, args=(words,))


if __name__ == "__main__":
    main()
