/* Groups whose ranks change: shrink() leaves ranks out, reconfigure() makes a group of those that a
 * list names, among them processes that come new.
 *
 *     handle      "gyre/host/pid/random": one for each process of a group
 *     meeting     in the group's store, under its name and what is new: so ranks that are left out,
 *                 dead or alive, need not take part
 *
 * Tested by tests/program/torch/members.py. */
#include "base/gil.h"
#include "calls/call.h"

#include <algorithm>
#include <random>
#include <unistd.h>

namespace gyre_torch
{

static constexpr int ABORTS = 1; /* torch's SHRINK_ABORT */

/* -- a part of the ranks ----------------------------------------------------------------------- */

static bool has(const std::vector<int64_t> &list, int64_t value)
{
    return std::find(list.begin(), list.end(), value) != list.end();
}

/* Throws unless this rank stays. */
static void check_excluded(const std::vector<int64_t> &excluded, int rank, int size)
{
    for (const int64_t other : excluded)
        if (other < 0 || other >= size)
            refuse("shrink", c10::str("there is no rank ", other, " in a group of ", size));
    if (has(excluded, rank))
        refuse("shrink", c10::str("rank ", rank, " is excluded, so it may not call this"));
}

bool Group::supportsShrinking() const
{
    return true;
}

c10::intrusive_ptr<c10d::Backend> Group::shrink(const std::vector<int64_t> &excluded, int flags,
                                                const c10::intrusive_ptr<Options> &options)
{
    const WithoutGil released;
    check_excluded(excluded, rank_, size_);
    if (flags & ABORTS)
        communicator_->abort("its group shrinks");
    std::vector<int> left;
    int rank = 0;
    for (int other = 0; other < size_; other++)
        if (!has(excluded, other)) {
            rank += other < rank_;
            left.push_back(other);
        }
    const std::string name =
        c10::str(name_, ":", ++shrinks_, ":without:", c10::Join(",", excluded));
    return c10::make_intrusive<Group>(store_, rank, static_cast<int>(left.size()), name,
                                      options ? options->timeout : timeout_.load(),
                                      global_ranks_of(left), true);
}

/* -- a list of processes ----------------------------------------------------------------------- */

#ifdef C10D_BACKEND_HAS_RECONFIGURE

/* Rank by rank. Where the caller gives no order, that of the handles' text serves. */
static std::vector<std::string> in_order(const c10d::ReconfigureOptions &options)
{
    if (const auto *list = std::get_if<std::vector<std::string>>(&options.handles))
        return *list;
    const auto &set = std::get<std::unordered_set<std::string>>(options.handles);
    std::vector<std::string> sorted(set.begin(), set.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted;
}

/* The place of a handle in a list that has each of its handles once. */
static int place_of(const std::string &handle, const std::vector<std::string> &handles)
{
    for (const std::string &one : handles)
        if (std::count(handles.begin(), handles.end(), one) != 1)
            refuse("reconfigure", c10::str("the handle ", one, " is there more than once"));
    const auto place = std::find(handles.begin(), handles.end(), handle);
    if (place == handles.end())
        refuse("reconfigure", c10::str("the handle of this process, ", handle,
                                       ", is not among the ", handles.size(), " that were given"));
    return static_cast<int>(place - handles.begin());
}

static std::string new_handle()
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    std::random_device random;
    const uint64_t number = static_cast<uint64_t>(random()) << 32 | random();
    return c10::str("gyre/", host, "/", getpid(), "/", number);
}

bool Group::supportsReconfigure() const
{
    return true;
}

bool Group::isInitialized()
{
    return communicator_->formed();
}

c10d::ReconfigureHandle Group::get_reconfigure_handle() const
{
    const std::lock_guard<std::mutex> hold(handle_lock_);
    if (handle_.empty())
        handle_ = new_handle();
    return handle_;
}

/* The old communicator ends by an abort, because some of its ranks may be gone. */
WorkRef Group::reconfigure(const c10d::ReconfigureOptions &options)
{
    const WithoutGil released;
    const std::vector<std::string> handles = in_order(options);
    const int place = place_of(get_reconfigure_handle(), handles);
    if (!uuids_.insert(options.uuid).second)
        refuse("reconfigure", c10::str("the uuid ", options.uuid, " was used before"));
    communicator_->abort("its group is made anew");
    shutdown();
    completion_ = std::make_shared<Completion>();
    const std::string name = c10::str(name_, ":", options.uuid);
    communicator_ = Communicator::join(store_, place, static_cast<int>(handles.size()), name,
                                       options.timeout.value_or(timeout_.load()), timeout_);
    rank_ = place;
    size_ = static_cast<int>(handles.size());
    global_ranks_.clear(); /* a handle does not tell them */
    sequence_ = 0;
    const Operation operation = {"reconfigure", "gyre:reconfigure", c10d::OpType::UNKNOWN, true,
                                 c10d::kUnsetTimeout};
    return new_work(operation, nullptr);
}

#endif

} // namespace gyre_torch
