"""Tensors of each dtype and layout, and memory that comes from the group."""

import torch
import torch.distributed as dist

import rig

NUMBERS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
           torch.int16, torch.int32, torch.int64)
OTHERS = (torch.bool, torch.complex32, torch.complex64, torch.complex128, torch.uint16,
          torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2,
          torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


def carry_each(rank, size):
    for dtype in NUMBERS + OTHERS:
        element = torch.empty(0, dtype=dtype).element_size()
        mine = torch.arange(8 * element, dtype=torch.uint8).add(64 * rank).remainder(2 if
                            dtype == torch.bool else 120).view(dtype)
        flat = torch.empty(8 * size, dtype=dtype)
        dist.all_gather_into_tensor(flat, mine)
        rig.same(flat.view(torch.uint8)[8 * element * rank :][: 8 * element],
                 mine.view(torch.uint8))
        tensor = mine.clone()
        dist.broadcast(tensor, src=1)
        rig.same(tensor.view(torch.uint8), flat.view(torch.uint8)[8 * element :][: 8 * element])


def each_dtype_is_carried():
    rig.run(carry_each, 2)


def sum_each(rank, size):
    for dtype in NUMBERS:
        tensor = (torch.arange(20) % 5 + rank).to(dtype)
        dist.all_reduce(tensor)
        rig.same(tensor, ((torch.arange(20) % 5) * size + sum(range(size))).to(dtype))
    for dtype in (torch.complex64, torch.complex128):
        for call in (dist.all_reduce, lambda tensor: dist.reduce(tensor, dst=rank)):
            tensor = torch.tensor([1 + 2j, 3 - 1j], dtype=dtype) * (rank + 1)
            if call is dist.all_reduce:
                call(tensor)
                rig.same(tensor, torch.tensor([1 + 2j, 3 - 1j], dtype=dtype) * 6)
    halves = torch.full((4,), 1.0 + rank).to(torch.float8_e5m2)
    dist.all_reduce(halves)
    assert halves.float().tolist() == [6.0] * 4


def each_number_is_summed():
    rig.run(sum_each, 3)


def fold_bools(rank, size):
    for op, expected in ((dist.ReduceOp.SUM, [True, True]), (dist.ReduceOp.MAX, [True, True]),
                         (dist.ReduceOp.PRODUCT, [False, True]), (dist.ReduceOp.MIN, [False, True]),
                         (dist.ReduceOp.BOR, [True, True]), (dist.ReduceOp.BXOR, [True, True])):
        tensor = torch.tensor([rank == 1, True])
        dist.all_reduce(tensor, op)
        assert tensor.tolist() == expected, (op, tensor)
        assert tensor.view(torch.uint8).max() <= 1


def bools():
    rig.run(fold_bools, 3)


def use_each_layout(rank, size):
    base = torch.arange(24.0).reshape(4, 6) + rank
    total = (torch.arange(24.0).reshape(4, 6) * size) + sum(range(size))
    for pick in (lambda t: t.t(), lambda t: t[:, 1::2], lambda t: t[1:, ::3], lambda t: t[2]):
        whole = base.clone()
        dist.all_reduce(pick(whole))
        expected = base.clone()
        pick(expected).copy_(pick(total))
        rig.same(whole, expected)
    images = (torch.ones(2, 3, 4, 5) * (rank + 1)).to(memory_format=torch.channels_last)
    dist.all_reduce(images)
    rig.same(images, torch.full((2, 3, 4, 5), 1.0 * sum(range(1, size + 1))))
    columns = [torch.zeros(4, 6).t() for _ in range(size)]
    dist.all_gather(columns, base.t())
    for other, column in enumerate(columns):
        rig.same(column, torch.arange(24.0).reshape(4, 6).t() + other)


def each_layout():
    rig.run(use_each_layout, 3)


def reduce_with_grad(rank, size):
    parameter = torch.nn.Parameter(torch.ones(3, 4).t())
    with torch.no_grad():
        dist.all_reduce(parameter)
    assert parameter.requires_grad and parameter.sum() == 12 * size


def a_parameter():
    rig.run(reduce_with_grad, 2)


def use_own_memory(rank, size):
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu"))
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    tensor = backend.allocate_tensor(1000, dtype=torch.float32, device=torch.device("cpu"))
    assert tensor.numel() == 1000 and tensor.count_nonzero() == 0
    tensor += rank + 1
    dist.all_reduce(tensor)
    rig.same(tensor, torch.full((1000,), 1.0 * sum(range(1, size + 1))))
    part = tensor[10:20]
    del tensor
    dist.all_reduce(part)
    dist.destroy_process_group()
    assert part.sum() == 10 * size * sum(range(1, size + 1))  # the memory outlives the group


def memory_of_the_group():
    if not hasattr(torch._C._distributed_c10d.Backend, "allocate_tensor"):
        raise rig.Skip("this torch asks no backend for memory")
    rig.run(use_own_memory, 2)


if __name__ == "__main__":
    rig.main(each_dtype_is_carried, each_number_is_summed, bools, each_layout, a_parameter,
             memory_of_the_group)
