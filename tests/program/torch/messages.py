"""Messages from rank to rank: tags, from any rank, batches."""

import torch
import torch.distributed as dist

import rig


def pass_around(rank, size):
    for count in (0, 1, 1000, 200000):
        got = torch.zeros(count)
        given = torch.full((count,), 1.0 + rank)
        if rank % 2:
            dist.recv(got, src=(rank - 1) % size)
            dist.send(given, dst=(rank + 1) % size)
        else:
            dist.send(given, dst=(rank + 1) % size)
            dist.recv(got, src=(rank - 1) % size)
        rig.same(got, torch.full((count,), 1.0 + (rank - 1) % size))


def around():
    for size in (2, 3, 4):
        rig.run(pass_around, size)


def take_tags_in_turn(rank, size):
    if rank == 0:
        for tag in (5, 3, 9):
            dist.send(torch.tensor([tag]), dst=1, tag=tag)
    elif rank == 1:
        for tag in (9, 5, 3):
            got = torch.zeros(1, dtype=torch.int64)
            dist.recv(got, src=0, tag=tag)
            assert got.item() == tag


def tags():
    rig.run(take_tags_in_turn, 2)


def take_from_any(rank, size):
    if rank == 0:
        senders = set()
        for _ in range(2 * (size - 1)):
            got = torch.zeros(2, 2).t()
            sender = dist.recv(got, tag=1)
            assert got[0, 0] == sender
            senders.add(sender)
        assert senders == set(range(1, size))
    else:
        for _ in range(2):
            dist.send(torch.full((2, 2), 1.0 * rank), dst=0, tag=1)


def from_any_rank():
    rig.run(take_from_any, 4)


def take_a_short_one(rank, size):
    if rank == 0:
        rig.raises(RuntimeError, ["rank 1 has sent 2 elements", "the tensor has 4"],
                   lambda: dist.recv(torch.zeros(4)))
    else:
        dist.send(torch.zeros(2), dst=0)


def a_short_message_is_told():
    rig.run(take_a_short_one, 2)


def exchange_a_batch(rank, size):
    got = [torch.zeros(3) for _ in range(size)]
    others = [other for other in range(size) if other != rank]
    batch = [dist.P2POp(dist.irecv, got[other], other) for other in others]
    batch += [dist.P2POp(dist.isend, torch.full((3,), 1.0 * rank), other) for other in others]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    for other in others:
        rig.same(got[other], torch.full((3,), 1.0 * other))


def batches():
    for size in (2, 4):
        rig.run(exchange_a_batch, size)


def send_objects(rank, size):
    if rank == 0:
        dist.send_object_list([{"a": 1}, "b"], dst=1)
    else:
        found = [None, None]
        assert dist.recv_object_list(found, src=0) == 0
        assert found == [{"a": 1}, "b"]


def objects():
    rig.run(send_objects, 2)


if __name__ == "__main__":
    rig.main(around, tags, from_any_rank, a_short_message_is_told, batches, objects)
