"""Sparse tensors: their sum is that of gloo, bit for bit, and so is what DDP makes of it."""

import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import rig

warnings.simplefilter("ignore")  # torch's, of sparse tensors in general
SHAPES = (((5,), 1), ((5, 4), 2), ((5, 3, 2), 1), ((6, 5, 2), 3))


def draw(rank, shape, sparse_dims, entries, dtype=torch.float32):
    """Entries at places of which some are equal, within a rank and between ranks."""
    generator = torch.Generator().manual_seed(100 * rank + len(shape))
    places = torch.stack([torch.randint(size, (entries,), generator=generator)
                          for size in shape[:sparse_dims]])
    values = torch.randn(entries, *shape[sparse_dims:], generator=generator).to(dtype)
    return torch.sparse_coo_tensor(places, values, shape)


def sums(rank, size):
    found = []
    for shape, sparse_dims in SHAPES:
        for entries in (0, 1, 4 + rank):
            tensor = draw(rank, shape, sparse_dims, entries)
            expected = sum(draw(other, shape, sparse_dims, 4 + other if entries > 1 else entries)
                           .to_dense() for other in range(size))
            dist.all_reduce(tensor)
            assert tensor.is_sparse and torch.allclose(tensor.to_dense(), expected), tensor
            found.append(tensor.coalesce())
    return [(tensor.indices().tolist(), tensor.values().tolist()) for tensor in found]


def as_over_gloo():
    for size in (1, 2, 3):
        ours = rig.run(sums, size)
        assert ours == rig.run(sums, size, backend="gloo")
        assert all(ours[rank] == ours[0] for rank in ours)


def others(rank, size):
    for dtype in (torch.float64, torch.bfloat16, torch.int64):
        tensor = torch.sparse_coo_tensor([[rank, 2]], [1, 2], (3,), dtype=dtype)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        assert work.is_completed()
        rig.same(tensor.to_dense(), torch.tensor([1, 1, 4], dtype=dtype))
        assert tensor is not None and work.get_future().wait()[0].is_sparse
    tensor = torch.sparse_coo_tensor([[rank, 2]], [1.0, 2.0], (3,))
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    rig.same(tensor.to_dense(), [0.5, 0.5, 2.0])


def other_dtypes_and_means():
    rig.run(others, 2)


def differ(rank, size):
    dist.barrier()
    tensor = torch.sparse_coo_tensor([[0]], [1.0], (3 + rank,))
    rig.raises(ValueError, ["rank 1 differs from rank 0's"], lambda: dist.all_reduce(tensor))
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        rig.raises(ValueError, ["SUM and AVG"], lambda: dist.all_reduce(tensor, op))
    rows = torch.eye(2).to_sparse_csr()
    rig.raises((RuntimeError, NotImplementedError), ["SparseCsr"], lambda: dist.all_reduce(rows))
    whole = torch.ones(1)
    dist.all_reduce(whole)  # the group goes on
    rig.same(whole, [2.0])


def refused():
    rig.run(differ, 2)


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(20, 8, sparse=True)
        self.out = torch.nn.Linear(8, 3)

    def forward(self, words):
        return self.out(self.table(words).mean(1))


def train(rank, size):
    torch.manual_seed(3)
    model = DistributedDataParallel(Words())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    words = torch.randint(20, (40, 5))[rank::size]
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(words), words[:, 0] % 3)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def ddp_with_an_embedding():
    ours, theirs = rig.run(train, 2), rig.run(train, 2, backend="gloo")
    assert ours == theirs, (ours, theirs)
    assert ours[0][-1] < ours[0][0]


if __name__ == "__main__":
    rig.main(as_over_gloo, other_dtypes_and_means, refused, ddp_with_an_embedding)
