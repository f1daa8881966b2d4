"""Each collective of torch.distributed, at 2 to 4 ranks of a machine and at 3 nodes, against values
computed plainly."""

import torch
import torch.distributed as dist

import rig

SIZES = (2, 3, 4)


def values(rank, count, dtype=torch.float32):
    """What a rank gives: different for each rank and place, and exact in any order of sums."""
    return (torch.arange(count) % 7 + 10 * rank).to(dtype)


def everyones(size, count, dtype=torch.float32):
    return torch.stack([values(rank, count, dtype) for rank in range(size)])


def each_way(call, *arguments, **options):
    """Makes a call that waits, and the same call that is waited for."""
    assert call(*arguments, **options) is None
    yield
    work = call(*arguments, async_op=True, **options)
    assert work.wait() and work.is_completed()
    yield


def all_at_all_sizes(main, *arguments):
    for size in SIZES:
        rig.run(main, size, *arguments)
    rig.run(main, 3, *arguments, apart=True)


# -- reductions ------------------------------------------------------------------------------------


def reduce_all(rank, size):
    for count in (0, 1, size - 1, size + 1, 1000):
        tensor = values(rank, count)
        expected = everyones(size, count).sum(0)
        for _ in each_way(dist.all_reduce, tensor):
            rig.same(tensor, expected)
            tensor.copy_(values(rank, count))


def all_reduce():
    all_at_all_sizes(reduce_all)


def reduce_by_each_op(rank, size):
    count = 12
    ints, floats = everyones(size, count, torch.int32), everyones(size, count)
    bits = ints.clone()
    folds = {
        dist.ReduceOp.BAND: lambda a, b: a & b,
        dist.ReduceOp.BOR: lambda a, b: a | b,
        dist.ReduceOp.BXOR: lambda a, b: a ^ b,
    }
    expected = {
        dist.ReduceOp.SUM: floats.sum(0),
        dist.ReduceOp.AVG: floats.sum(0) / size,
        dist.ReduceOp.PRODUCT: floats.prod(0),
        dist.ReduceOp.MIN: floats.amin(0),
        dist.ReduceOp.MAX: floats.amax(0),
    }
    for op, result in expected.items():
        tensor = values(rank, count)
        dist.all_reduce(tensor, op)
        rig.close(tensor, result)
    for op, fold in folds.items():
        tensor, result = bits[rank].clone(), bits[0]
        for other in bits[1:]:
            result = fold(result, other)
        dist.all_reduce(tensor, op)
        rig.same(tensor, result)


def each_op():
    all_at_all_sizes(reduce_by_each_op)


def scale_and_sum(rank, size):
    tensor = values(rank, 9)
    expected = (everyones(size, 9) * 0.5).sum(0)
    op = dist._make_nccl_premul_sum(0.5)
    for _ in each_way(dist.all_reduce, tensor, op=op):
        rig.close(tensor, expected)
        tensor.copy_(values(rank, 9))
    out = torch.empty(3)
    dist.reduce_scatter_tensor(out, values(rank, 3 * size), op=op)
    whole = (everyones(size, 3 * size) * 0.5).sum(0)
    rig.close(out, whole[3 * rank : 3 * rank + 3])


def premul_sum():
    all_at_all_sizes(scale_and_sum)


def reduce_to_each(rank, size):
    for root in range(size):
        tensor = values(rank, 11)
        expected = everyones(size, 11).sum(0) if rank == root else tensor.clone()
        for _ in each_way(dist.reduce, tensor, dst=root):
            rig.same(tensor, expected)
            tensor.copy_(values(rank, 11))


def reduce():
    all_at_all_sizes(reduce_to_each)


def reduce_and_scatter(rank, size):
    whole = everyones(size, 5 * size).sum(0)
    mine = whole[5 * rank : 5 * rank + 5]
    given = values(rank, 5 * size)
    out = torch.empty(5)
    for _ in each_way(dist.reduce_scatter_tensor, out, given):
        rig.same(out, mine)
        out.zero_()
    apart = [part.clone() for part in given.chunk(size)]
    for blocks in (list(given.chunk(size)), apart):
        for _ in each_way(dist.reduce_scatter, out, blocks):
            rig.same(out, mine)
            out.zero_()


def reduce_and_scatter_unequal(rank, size):
    """Block i has i elements, so that rank 0 gets none."""
    lengths = list(range(size))
    whole = sum(lengths)
    given = values(rank, whole).split(lengths)
    for op, expected in ((dist.ReduceOp.SUM, everyones(size, whole).sum(0)),
                         (dist.ReduceOp.MAX, everyones(size, whole).amax(0))):
        out = torch.empty(rank)
        for _ in each_way(dist.reduce_scatter, out, [part.clone() for part in given], op=op):
            rig.same(out, expected.split(lengths)[rank])
            out.zero_()
    rows = [torch.ones(part.numel(), 2).t() for part in given]  # not contiguous, a column each
    out = torch.empty(2, rank)
    dist.reduce_scatter(out, rows)
    rig.same(out, torch.full((2, rank), float(size)))


def reduce_scatter():
    all_at_all_sizes(reduce_and_scatter)
    all_at_all_sizes(reduce_and_scatter_unequal)


# -- movements -------------------------------------------------------------------------------------


def broadcast_from_each(rank, size):
    for root in range(size):
        tensor = values(rank, 13)
        for _ in each_way(dist.broadcast, tensor, src=root):
            rig.same(tensor, values(root, 13))
            tensor.copy_(values(rank, 13))


def broadcast():
    all_at_all_sizes(broadcast_from_each)


def gather_all(rank, size):
    expected = everyones(size, 6)
    flat = torch.empty(size * 6)
    for _ in each_way(dist.all_gather_into_tensor, flat, values(rank, 6)):
        rig.same(flat, expected.flatten())
        flat.zero_()
    apart = [torch.empty(6) for _ in range(size)]
    for blocks in (apart, list(flat.chunk(size))):
        for _ in each_way(dist.all_gather, blocks, values(rank, 6)):
            rig.same(torch.stack(blocks), expected)
            flat.zero_()
    flat[6 * rank : 6 * rank + 6] = values(rank, 6)
    dist.all_gather_into_tensor(flat, flat[6 * rank : 6 * rank + 6])
    rig.same(flat, expected.flatten())


def all_gather():
    all_at_all_sizes(gather_all)


def gather_unequal(rank, size):
    blocks = [torch.empty(other + 1) for other in range(size)]
    for _ in each_way(dist.all_gather, blocks, values(rank, rank + 1)):
        for other, block in enumerate(blocks):
            rig.same(block, values(other, other + 1))
            block.zero_()


def all_gather_of_different_sizes():
    all_at_all_sizes(gather_unequal)


def gather_to_each(rank, size):
    for root in range(size):
        blocks = [torch.empty(4) for _ in range(size)] if rank == root else None
        for _ in each_way(dist.gather, values(rank, 4), blocks, dst=root):
            if blocks:
                rig.same(torch.stack(blocks), everyones(size, 4))
                blocks[0].zero_()


def gather():
    all_at_all_sizes(gather_to_each)


def scatter_from_each(rank, size):
    whole = everyones(size, 4)
    for root in range(size):
        out = torch.empty(4)
        blocks = [row.clone() for row in whole] if rank == root else None
        for _ in each_way(dist.scatter, out, blocks, src=root):
            rig.same(out, whole[rank])
            out.zero_()


def scatter():
    all_at_all_sizes(scatter_from_each)


def change_all(rank, size):
    """Row r of a rank's input goes to rank r: 100 × from + to."""
    given = torch.tensor([100.0 * rank + other for other in range(size)]).repeat_interleave(3)
    expected = torch.tensor([100.0 * other + rank for other in range(size)]).repeat_interleave(3)
    out = torch.empty(3 * size)
    for _ in each_way(dist.all_to_all_single, out, given):
        rig.same(out, expected)
        out.zero_()
    blocks = [torch.empty(3) for _ in range(size)]
    for _ in each_way(dist.all_to_all, blocks, list(given.chunk(size))):
        rig.same(torch.cat(blocks), expected)
        blocks[0].zero_()


def all_to_all():
    all_at_all_sizes(change_all)


def change_unequal(rank, size):
    """Rank i sends i + j rows of 2 to rank j."""
    sent = received = [rank + other for other in range(size)]
    given = torch.cat([torch.full((rows, 2), 100.0 * rank + to) for to, rows in enumerate(sent)])
    expected = [torch.full((rows, 2), 100.0 * src + rank) for src, rows in enumerate(received)]
    out = torch.empty(sum(received), 2)
    for _ in each_way(dist.all_to_all_single, out, given, received, sent):
        rig.same(out, torch.cat(expected))
        out.zero_()
    blocks = [torch.empty(rows, 2) for rows in received]
    for _ in each_way(dist.all_to_all, blocks, list(given.split(sent))):
        rig.same(torch.cat(blocks), torch.cat(expected))
        blocks[-1].zero_()


def all_to_all_of_different_sizes():
    all_at_all_sizes(change_unequal)


# -- what has no tensor ----------------------------------------------------------------------------


def meet(rank, size):
    for _ in each_way(dist.barrier):
        pass


def barrier():
    all_at_all_sizes(meet)


def carry_objects(rank, size):
    mine = {"rank": rank, "words": ["a"] * rank}
    found = [None] * size
    dist.all_gather_object(found, mine)
    assert [one["rank"] for one in found] == list(range(size)) and found[-1]["words"]
    given = [mine if rank == 0 else None]
    dist.broadcast_object_list(given, src=0)
    assert given[0]["rank"] == 0
    out = [None]
    dist.scatter_object_list(out, [f"for {other}" for other in range(size)] if rank == 0 else None)
    assert out[0] == f"for {rank}"
    dist.gather_object(mine, found if rank == 1 else None, dst=1)


def objects():
    all_at_all_sizes(carry_objects)


def be_alone(rank, size):
    tensor = values(0, 5)
    dist.all_reduce(tensor)
    rig.same(tensor, values(0, 5))
    dist.barrier()


def one_rank():
    rig.run(be_alone, 1)


if __name__ == "__main__":
    rig.main(all_reduce, each_op, premul_sum, reduce, reduce_scatter, broadcast, all_gather,
             all_gather_of_different_sizes, gather, scatter, all_to_all,
             all_to_all_of_different_sizes, barrier, objects, one_rank)
