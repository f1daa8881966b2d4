"""Arguments that cannot be used are refused at once, and the group goes on."""

import unittest.mock

import torch
import torch.distributed as dist

import rig


def group_of(device="cpu"):
    return dist.distributed_c10d._get_default_group()._get_backend(torch.device(device))


def refuse_each(rank, size):
    ones, mask = torch.ones(4), torch.ones(4, dtype=torch.bool)
    fnuz = torch.ones(4).to(torch.float8_e4m3fnuz)
    group = group_of()
    refused = (
        (NotImplementedError, ["layout"], lambda: group.reduce(ones.to_sparse(), 0)),
        (NotImplementedError, ["meta"], lambda: group.reduce(ones.to("meta"), 0)),
        (ValueError, ["invalid root rank: 9", "2 ranks"], lambda: group.broadcast(ones, 9)),
        (ValueError, ["ReduceOp.AVG", "Bool"], lambda: dist.all_reduce(mask, dist.ReduceOp.AVG)),
        (ValueError, ["BAND", "Float"], lambda: dist.all_reduce(ones, dist.ReduceOp.BAND)),
        (ValueError, ["SUM", "Float8_e4m3fnuz"], lambda: dist.all_reduce(fnuz)),
        (ValueError, ["7 elements is not 2 blocks of 4"],
         lambda: dist.all_gather_into_tensor(torch.empty(7), ones)),
        (ValueError, ["for each of 2 ranks", "has 3"],
         lambda: dist.all_gather([torch.empty(4)] * 3, ones)),
        (ValueError, ["5 rows", "2 equal parts"],
         lambda: dist.all_to_all_single(torch.empty(5), torch.empty(5))),
        (ValueError, ["split sizes [3, 3]", "4 rows"],
         lambda: dist.all_to_all_single(torch.empty(4), ones, [3, 3], [2, 2])),
        (ValueError, ["output has 4 elements", "input list 5"],
         lambda: group.reduce_scatter(ones, [torch.ones(5), torch.ones(5)])),
        (NotImplementedError, ["PREMUL_SUM", "differ in size"],
         lambda: dist.reduce_scatter(torch.empty(3 + rank), [torch.ones(3), torch.ones(4)],
                                     op=dist._make_nccl_premul_sum(0.5))),
        (ValueError, ["tag -3"], lambda: group.send([ones], 1 - rank, -3)),
        (ValueError, ["no rank 5"], lambda: group.send([ones], 5, 0)),
    )
    for kind, words, step in refused:
        rig.raises(kind, words, step)
    dist.all_reduce(ones)
    assert ones.tolist() == [float(size)] * 4


def each():
    rig.run(refuse_each, 2)


def join_with_another_torch(rank, size):
    with unittest.mock.patch.object(torch, "__version__", "1.0.0"):
        rig.raises(RuntimeError, ["was built for torch 2", "this is 1.0.0", "build it again"],
                   dist.new_group)
    dist.new_group()


def an_extension_for_another_torch():
    rig.run(join_with_another_torch, 2)


def use_a_destroyed_group(rank, size):
    group = dist.new_group()
    backend = group._get_backend(torch.device("cpu"))
    work = backend.allreduce([torch.ones(3)])
    assert work.wait()
    dist.barrier()
    dist.destroy_process_group(group)
    rig.raises(dist.DistBackendError, ["has been destroyed"],
               lambda: backend.allreduce([torch.ones(3)]))
    backend.shutdown()


def a_destroyed_group():
    if not hasattr(torch._C._distributed_c10d.Backend, "shutdown"):
        raise rig.Skip("this torch tells a backend of no destruction")
    rig.run(use_a_destroyed_group, 2)


if __name__ == "__main__":
    rig.main(each, an_extension_for_another_torch, a_destroyed_group)
