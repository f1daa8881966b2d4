/* Messages from rank to rank, and the barrier that is made of them.
 *
 * Tested by tests/program/torch/messages.py and failures.py. */
#include "calls/call.h"

#include <climits>

namespace gyre_torch
{

using c10d::OpType;

/* The monitored barrier's own tags. */
static constexpr int ARRIVED = INT_MAX - 1, RELEASED = INT_MAX;

static void check_peer(const char *call, int rank, int size, int tag)
{
    if (rank < 0 || rank >= size)
        refuse(call, c10::str("there is no rank ", rank, " in a group of ", size));
    if (tag < 0 || tag >= ARRIVED)
        refuse(call, c10::str("tag ", tag, " is not from 0 to ", ARRIVED - 1));
}

WorkRef Group::send(Tensors &tensors, int rank, int tag)
{
    Operation operation = {"send", "gyre:send", OpType::SEND, true, c10d::kUnsetTimeout};
    check_peer(operation.call, rank, size_, tag);
    const Buffer buffer = Buffer(operation.call, only(operation.call, tensors)).filled();
    operation.read = {buffer};
    operation.outputs = tensors;
    return finish_start(operation,
                        start<gyre_send_tag_start>(operation, buffer.data(), buffer.count(),
                                                   buffer.type(), rank, tag));
}

WorkRef Group::recv(Tensors &tensors, int rank, int tag)
{
    Operation operation = {"recv", "gyre:recv", OpType::RECV, true, c10d::kUnsetTimeout};
    check_peer(operation.call, rank, size_, tag);
    const Buffer buffer(operation.call, only(operation.call, tensors));
    operation.written = {buffer};
    operation.outputs = tensors;
    return finish_start(operation,
                        start<gyre_recv_tag_start>(operation, buffer.data(), buffer.count(),
                                                   buffer.type(), rank, tag));
}

/* The task has the place where Gyre tells who has sent, so it is made before the call. */
static int recv_any_start(gyre_comm *comm, void *data, uint64_t count, gyre_type type, int tag,
                          gyre_received *received, gyre_work **work)
{
    return gyre_recv_any_start(comm, data, count, type, GYRE_ANY_SOURCE, tag, received, work);
}

WorkRef Group::recvAnysource(Tensors &tensors, int tag)
{
    Operation operation = {"recv", "gyre:recv_any_source", OpType::RECVANYSOURCE, true,
                           c10d::kUnsetTimeout};
    check_peer(operation.call, 0, size_, tag);
    if (coalesces())
        lack(operation.call, "a receive from any rank cannot be coalesced with other calls");
    const Buffer buffer(operation.call, only(operation.call, tensors));
    operation.written = {buffer};
    operation.outputs = tensors;
    operation.received = std::make_shared<gyre_received>(gyre_received{-1, 0, 0});
    return finish_start(operation,
                        start<recv_any_start>(operation, buffer.data(), buffer.count(),
                                              buffer.type(), tag, operation.received.get()));
}

/* -- the monitored barrier --------------------------------------------------------------------- */

/* What is left of a time. */
class Deadline
{
  public:
    explicit Deadline(std::chrono::milliseconds time)
        : end_(std::chrono::steady_clock::now() + time)
    {
    }
    std::chrono::milliseconds left() const
    {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
        return std::max(left, std::chrono::milliseconds(0));
    }

  private:
    const std::chrono::steady_clock::time_point end_;
};

static Operation monitored()
{
    return {"monitored_barrier", "gyre:monitored_barrier", OpType::BARRIER, true,
            c10d::kUnsetTimeout};
}

/* Rank 0 waits for the word of each rank: the ranks from which none has come. */
std::vector<int> Group::await_arrivals(std::chrono::milliseconds timeout, bool all)
{
    const Deadline deadline(timeout);
    std::vector<std::shared_ptr<Task>> words;
    std::vector<int> missing;
    for (int rank = 1; rank < size_; rank++) {
        Operation operation = monitored();
        words.push_back(
            start<gyre_recv_tag_start>(operation, nullptr, uint64_t{0}, GYRE_U8, rank, ARRIVED));
    }
    for (int rank = 1; rank < size_; rank++) {
        const std::shared_ptr<Task> &word = words[static_cast<size_t>(rank - 1)];
        const bool enough = !missing.empty() && !all;
        if (enough || !word->wait(deadline.left()))
            completion_->add(word);
        if (!enough && (!word->poll() || word->failure()))
            missing.push_back(rank);
    }
    return missing;
}

void Group::release_all()
{
    for (int rank = 1; rank < size_; rank++) {
        Operation operation = monitored();
        const std::shared_ptr<Task> word =
            start<gyre_send_tag_start>(operation, nullptr, uint64_t{0}, GYRE_U8, rank, RELEASED);
        completion_->add(word);
    }
}

/* Another rank tells rank 0 that it is there, and waits to be released. */
void Group::arrive(std::chrono::milliseconds timeout)
{
    Operation operation = monitored();
    completion_->add(
        start<gyre_send_tag_start>(operation, nullptr, uint64_t{0}, GYRE_U8, 0, ARRIVED));
    const std::shared_ptr<Task> word =
        start<gyre_recv_tag_start>(operation, nullptr, uint64_t{0}, GYRE_U8, 0, RELEASED);
    const bool ended = word->wait(timeout);
    if (ended && !word->failure())
        return;
    const std::string call = c10::str("Rank ", rank_,
                                      " successfully reached monitoredBarrier, but "
                                      "received errors while waiting for send/recv from rank 0");
    if (ended)
        std::rethrow_exception(word->failure());
    completion_->add(word);
    communicator_->give_up(call);
    give_up(operation.call, c10::str(call, ": no word within ", timeout.count(), " ms"));
}

void Group::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks)
{
    const auto timeout = options.timeout == c10d::kUnsetTimeout ? timeout_.load() : options.timeout;
    if (rank_)
        return arrive(timeout);
    const std::vector<int> missing = await_arrivals(timeout, wait_all_ranks);
    if (missing.empty())
        return release_all();
    const std::string why =
        c10::str(timeout.count() > 0 ? "" : "Rank 0 timed out in monitoredBarrier after 0 ms; ",
                 "[Rank 0]: ", missing.size() == 1 ? "Rank " : "Ranks ", c10::Join(", ", missing),
                 " failed to pass monitoredBarrier in ", timeout.count(), " ms");
    communicator_->give_up(why);
    give_up("monitored_barrier", why);
}

} // namespace gyre_torch
