"""Groups whose ranks change: shrunk, made anew after a loss, and with processes that come new."""

import datetime
import os
import signal
import time

import torch
import torch.distributed as dist

import rig


def sum_of(value, group=None):
    tensor = torch.tensor([float(value)])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


def remove(place):
    """The file of a store, which removes it by itself where it knows how many use it."""
    if os.path.exists(place):
        os.unlink(place)


# -- shrink ----------------------------------------------------------------------------------------


def needs_shrink():
    if not hasattr(dist, "shrink_group"):
        raise rig.Skip("this torch has no shrink_group")


def shrink_after_a_loss(rank, size):
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    rig.raises(dist.DistBackendError, ["GYRE_PEER_LOST", "rank 1"], lambda: sum_of(1))
    begun = time.monotonic()
    group = dist.shrink_group([1])
    assert (group.size(), group.rank()) == (size - 1, rank - (rank > 1))
    assert sum_of(rank) == sum(range(size)) - 1
    gathered = [None] * (size - 1)
    dist.all_gather_object(gathered, rank)
    assert gathered == [0, 2, 3]
    return time.monotonic() - begun


def a_lost_rank_is_left_out():
    needs_shrink()
    rig.run(shrink_after_a_loss, 4, lost=(1,))


def shrink_without_a_loss(rank, size, place):
    part = dist.new_group([0, 1, 2])
    dist.barrier()  # all have joined: shrinking aborts a group that a rank may still join
    store = dist.FileStore(place, size)
    if rank < 2:  # rank 2 lives and does not take part
        smaller = dist.shrink_group([2], group=part, shrink_flags=rank % 2)
        assert smaller.size() == 2 and sum_of(rank, smaller) == 1
        assert smaller._get_backend(torch.device("cpu")).name() == "gyre"
    store.set(f"done{rank}", "")
    store.wait([f"done{other}" for other in range(size)])
    assert sum_of(rank) == 3  # the default group goes on


def a_living_rank_is_left_out():
    needs_shrink()
    place = f"/tmp/gyre-torch-members-{os.getpid()}"
    rig.run(shrink_without_a_loss, 3, place)
    remove(place)


# -- reconfigure -----------------------------------------------------------------------------------


def needs_reconfigure():
    if not hasattr(dist.distributed_c10d, "_reconfigure"):
        raise rig.Skip("this torch has no reconfigure")


def begin(place, rank, timeout=200):
    """A group that has no ranks yet; the file is all that the processes share."""
    store = dist.FileStore(place, -1)
    dist.init_process_group("gyre", store=store, rank=0, world_size=1, enable_reconfigure=True,
                            timeout=datetime.timedelta(seconds=timeout * rig.SLOW))
    return dist.FileStore(place, -1), dist.group.WORLD


def meet(store, turn, me, members):
    """What a coordinator does elsewhere: the handles of all members, in their order."""
    store.set(f"turn{turn}/{me}", dist.distributed_c10d._get_reconfigure_handle())
    handles = [store.get(f"turn{turn}/{member}").decode() for member in members]
    dist.distributed_c10d._reconfigure(uuid=turn, handles=handles).wait()


def step_to_the_end(weights, until, step):
    """Training: each step adds the number of ranks, which all must have alike."""
    while step < until:
        gradient = torch.ones(4)
        dist.all_reduce(gradient)
        weights += gradient
        step += 1
    return step


def live(me, place, dies):
    """A loop as torchft's: on a failure those that live meet again, and go on. A process that comes
    new is given the weights by the first."""
    store, group = begin(place, me)
    rig.raises(dist.DistBackendError, ["reconfigure() makes them"], lambda: sum_of(1))
    weights, step = torch.zeros(4), 0
    turn, members = 0, [0, 1, 2]
    if me == 3:
        turn, members = 2, [0, 2, 3]
    while True:
        meet(store, turn, me, members)
        assert group.size() == len(members) and group.rank() == members.index(me)
        state = [weights, step]
        dist.broadcast_object_list(state, src=0)
        weights, step = state
        try:
            if turn == 0:
                step = step_to_the_end(weights, 5, step)
                if me == dies:
                    os.kill(os.getpid(), signal.SIGKILL)
                step_to_the_end(weights.clone(), 10, step)
            step = step_to_the_end(weights, 10 + 5 * turn, step)
        except dist.DistBackendError as error:
            assert "GYRE_PEER_LOST" in str(error) or "made anew" in str(error), error
            turn, members = 1, [0, 2]
            continue
        if turn == 2:
            break
        turn, members = 2, [0, 2, 3]
    dist.destroy_process_group()
    return weights.tolist()


def _process(main, me, place, apart, results):
    torch.set_num_threads(1)
    if apart:
        os.environ["GYRE_SIMULATED_NODE"] = str(me)
    try:
        results.put((me, main(me, place)))
    except BaseException as error:
        results.put((me, f"{type(error).__name__}: {error}"))


def run_processes(main, numbers, apart=False):
    """Runs main(number, place) for each number, and gives what they return, by number."""
    context = torch.multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    place = f"/tmp/gyre-torch-members-{os.getpid()}"
    processes = [context.Process(target=_process, args=(main, me, place, apart, results))
                 for me in numbers]
    for process in processes:
        process.start()
    end = time.monotonic() + rig.LIMIT
    for process in processes:
        process.join(max(0, end - time.monotonic()))
    found = {me: "has not ended" for me, process in zip(numbers, processes) if process.is_alive()}
    for process in processes:
        process.kill()
        process.join()
    while not results.empty():
        me, value = results.get()
        found[me] = value
    remove(place)
    return found


def lose_one_and_take_one_in(apart):
    found = run_processes(lambda me, place: live(me, place, 1), range(4), apart)
    expected = [5 * 3 + 10 * 2 + 5 * 3.0] * 4  # steps 1 to 5, 6 to 15, 16 to 20
    assert found == {me: expected for me in (0, 2, 3)}, found


def a_loop_goes_on_after_a_death_and_takes_a_process_in():
    needs_reconfigure()
    for apart in (False, True):  # on one machine, and each on a node of its own
        lose_one_and_take_one_in(apart)


def change_members(me, place):
    """A process that is left out comes back, the ranks are numbered anew, and what was aborted is
    made anew."""
    store, group = begin(place, me)
    for turn, members in enumerate(([0, 1, 2], [2, 0], [1, 2, 0], [0, 1, 2])):
        if me in members:
            meet(store, turn, me, members)
            assert (group.rank(), group.size()) == (members.index(me), len(members))
            assert sum_of(me, group) == sum(members)
        store.set(f"done{turn}/{me}", "")
        store.wait([f"done{turn}/{other}" for other in range(3)])
        if turn == 2:
            group.abort()
    dist.destroy_process_group()


def members_come_back():
    needs_reconfigure()
    found = run_processes(change_members, range(3))
    assert found == {me: None for me in range(3)}, found


def wrong_handles(rank, size):
    own = dist.distributed_c10d._get_reconfigure_handle()
    again = dist.distributed_c10d._reconfigure
    assert own == dist.distributed_c10d._get_reconfigure_handle() and "gyre/" in own
    rig.raises(ValueError, ["is not among"], lambda: again(1, ["gyre/other/1/1"]))
    rig.raises(ValueError, ["more than once"], lambda: again(2, [own, own]))
    assert sum_of(rank) == 1  # nothing has changed
    again(3, {own})  # a set: alone
    assert sum_of(5) == 5 and dist.get_world_size() == 1
    rig.raises(ValueError, ["was used before"], lambda: again(3, [own]))
    rig.raises(dist.DistBackendError, ["GYRE_TIMED_OUT"],
               lambda: again(4, [own, "gyre/other/1/1"], timeout=datetime.timedelta(seconds=1)))


def handles_are_checked():
    needs_reconfigure()
    rig.run(wrong_handles, 2)


if __name__ == "__main__":
    rig.main(a_lost_rank_is_left_out, a_living_rank_is_left_out,
             a_loop_goes_on_after_a_death_and_takes_a_process_in, members_come_back,
             handles_are_checked)
