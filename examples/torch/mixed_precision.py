"""Trains in mixed precision, saves all that a training consists of, and goes on from there.

    torchrun --nproc-per-node 2 mixed_precision.py --saved FILE [gloo]

Products are half precision, values and updates f32. A factor keeps small gradients from vanishing,
and a step whose gradients overflow is left out on all ranks. Nothing but the word "gyre" is
Gyre's."""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def make_batches(rank, epoch):
    generator = torch.Generator().manual_seed(1000 * epoch + rank)
    for _ in range(10):
        inputs = torch.randn(32, 20, generator=generator)
        yield inputs, (inputs[:, :4].sum(1) > 0).long()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--saved", required=True)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--half", choices=("float16", "bfloat16"), default="bfloat16")
    parser.add_argument("backend", nargs="?", default="gyre")
    words = parser.parse_args()
    dist.init_process_group(words.backend)
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    first = 0
    try:
        saved = torch.load(words.saved)
    except FileNotFoundError:
        saved = None
    dist.barrier()  # before rank 0 writes
    if saved:
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scaler.load_state_dict(saved["scaler"])
        first = saved["epoch"]
    for epoch in range(first, words.epochs):
        for inputs, labels in make_batches(rank, epoch):
            with torch.autocast("cpu", dtype=getattr(torch, words.half)):
                loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        dist.all_reduce(loss := loss.detach().float())
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item() / dist.get_world_size():.4f}, "
                  f"scale {scaler.get_scale():.0f}", flush=True)
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                        "scaler": scaler.state_dict(), "epoch": epoch + 1}, words.saved)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
