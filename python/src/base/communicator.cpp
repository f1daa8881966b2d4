/* Tested by tests/program/torch/groups.py. */
#include "base/communicator.h"

#include "base/device.h"
#include "base/failure.h"
#include "base/store.h"

#include <pthread.h>

#include <set>

namespace gyre_torch
{

/* -- forks ------------------------------------------------------------------------------------- */

static std::atomic<int> generation{0};

static void count_forks()
{
    static const int once = pthread_atfork(
        nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
    (void)once;
}

bool Communicator::forked() const
{
    return generation_ != generation.load(std::memory_order_relaxed);
}

/* -- all of the process ------------------------------------------------------------------------ */

namespace
{

/* It is never destroyed, because communicators may outlive the destructors of a library. */
struct Living {
    std::mutex lock;
    std::set<Communicator *> all;
};

Living &living()
{
    static Living *const living = new Living;
    return *living;
}

} // namespace

/* -- its beginning ----------------------------------------------------------------------------- */

static int milliseconds(std::chrono::milliseconds time)
{
    return static_cast<int>(std::min<int64_t>(std::max<int64_t>(time.count(), 1), INT32_MAX));
}

std::shared_ptr<Communicator> Communicator::join(const c10::intrusive_ptr<c10d::Store> &store,
                                                 int rank, int size, const std::string &name,
                                                 std::chrono::milliseconds patience,
                                                 std::chrono::milliseconds timeout)
{
    MeetingPlace place(store);
    gyre_options options = GYRE_OPTIONS_INIT;
    gyre_comm *comm = nullptr;
    options.rank = rank;
    options.world = size;
    options.job = name.c_str();
    options.store = place.table();
    options.join_timeout_ms = milliseconds(patience);
    options.timeout_ms = milliseconds(timeout);
    count_forks();
    const int status = gyre_init(&comm, &options);
    if (status)
        gyre_torch::fail("init_process_group", status,
                         gyre_error(nullptr) +
                             (place.trouble().empty() ? "" : ": " + place.trouble()));
    return std::shared_ptr<Communicator>(new Communicator(comm, name, timeout));
}

std::shared_ptr<Communicator> Communicator::unformed(const std::string &name,
                                                     std::chrono::milliseconds timeout)
{
    return std::shared_ptr<Communicator>(new Communicator(nullptr, name, timeout));
}

Communicator::Communicator(gyre_comm *comm, std::string name, std::chrono::milliseconds timeout)
    : comm_(comm), name_(std::move(name)), timeout_(timeout),
      device_(comm ? gyre_device(comm) : -1),
      generation_(generation.load(std::memory_order_relaxed)), closed_(!comm), ended_(!comm)
{
    const std::lock_guard<std::mutex> hold(living().lock);
    living().all.insert(this);
}

/* -- its use ----------------------------------------------------------------------------------- */

Communicator::Use::Use(Communicator &communicator, const char *call)
    : held_(communicator.use_), comm_(communicator.comm_)
{
    if (!comm_)
        gyre_torch::give_up(call, "group \"" + communicator.name_ +
                                      "\" has no ranks yet: reconfigure() makes them");
    if (communicator.closed_)
        gyre_torch::give_up(call, "group \"" + communicator.name_ + "\" has been destroyed");
}

void Communicator::fail(const char *call, int status) const
{
    const std::string story = gyre_error(comm_);
    if (status != GYRE_INVALID && status != GYRE_UNSUPPORTED)
        abort_hooks.call();
    gyre_torch::fail(call, status, story.empty() ? gyre_error(nullptr) : story);
}

void Communicator::check_device(const char *call, const c10::Device &device) const
{
    if (device_ < 0)
        lack(call, c10::str("a tensor is on ", device, ", and this rank has no CUDA device: the ",
                            "library was built without CUDA, or finds none"));
    if (device_ != device.index())
        refuse(call, c10::str("a tensor is on ", device, ", and this rank's device is cuda:",
                              device_, ", which was current when the group was made"));
}

void Communicator::check(const char *call)
{
    const std::shared_lock<std::shared_mutex> hold(use_);
    const int status = closed_ ? 0 : gyre_failure(comm_, nullptr, 0, nullptr);
    if (status)
        fail(call, status);
}

int Communicator::status()
{
    const std::shared_lock<std::shared_mutex> hold(use_);
    return closed_ ? 0 : gyre_failure(comm_, nullptr, 0, nullptr);
}

void Communicator::abort(const std::string &reason)
{
    const std::shared_lock<std::shared_mutex> hold(use_);
    if (!closed_)
        gyre_abort(comm_, reason.c_str());
}

void Communicator::give_up(const std::string &reason)
{
    abort_hooks.call();
    const std::lock_guard<std::mutex> hold(memory_);
    reason_ = reason;
}

void Communicator::abort_if_given_up()
{
    std::unique_lock<std::mutex> hold(memory_);
    const std::string reason = reason_;
    hold.unlock();
    if (!reason.empty())
        abort(reason);
}

void Communicator::free_op(gyre_op op)
{
    const std::shared_lock<std::shared_mutex> hold(use_);
    if (!closed_)
        gyre_op_free(comm_, op);
}

/* -- memory ------------------------------------------------------------------------------------ */

at::Tensor Communicator::allocate(int64_t count, const at::TensorOptions &options)
{
    const Use comm(*this, "allocate_tensor");
    void *memory = nullptr;
    const size_t bytes = static_cast<size_t>(count) * options.dtype().itemsize();
    const auto allocate = options.device().is_cpu() ? gyre_alloc : gyre_alloc_device;
    const int status = bytes ? allocate(comm, bytes, &memory) : 0;
    if (status)
        fail("allocate_tensor", status);
    if (!memory)
        return at::empty({count}, options);
    const std::lock_guard<std::mutex> hold(memory_);
    tensors_++;
    return at::from_blob(
        memory, {count},
        [self = shared_from_this(), device = options.device()](void *freed) {
            self->release(freed, device);
        },
        options, options.device());
}

void Communicator::release(void *memory, const c10::Device &device)
{
    if (forked())
        return;
    settle(device);
    std::shared_lock<std::shared_mutex> beside(use_);
    if (!ended_)
        gyre_free(comm_, memory);
    std::unique_lock<std::mutex> hold(memory_);
    const bool last = --tensors_ == 0;
    hold.unlock();
    const bool ends = last && closed_;
    beside.unlock();
    if (!ends)
        return;
    const std::unique_lock<std::shared_mutex> alone(use_); /* closed, so no call is under way */
    finalize();
}

/* -- its end ----------------------------------------------------------------------------------- */

/* Says goodbye, once. What fails here has been told by the operation that failed. */
void Communicator::finalize()
{
    if (ended_)
        return;
    ended_ = true;
    if (!reason_.empty())
        gyre_abort(comm_, reason_.c_str());
    gyre_finalize(comm_);
}

void Communicator::close()
{
    if (forked())
        return;
    const std::unique_lock<std::shared_mutex> alone(use_);
    closed_ = true;
    std::unique_lock<std::mutex> hold(memory_);
    const bool unused = tensors_ == 0;
    hold.unlock();
    if (unused)
        finalize();
}

Communicator::~Communicator()
{
    close();
    const std::lock_guard<std::mutex> hold(living().lock);
    living().all.erase(this);
}

void Communicator::close_all(const std::string &reason)
{
    const std::lock_guard<std::mutex> hold(living().lock);
    for (Communicator *communicator : living().all) {
        if (communicator->forked())
            continue;
        std::unique_lock<std::shared_mutex> alone(communicator->use_, std::try_to_lock);
        if (alone && communicator->ended_)
            continue;
        if (!reason.empty() || !alone) /* a thread that is in an operation is not waited for */
            gyre_abort(communicator->comm_, reason.empty() ? "its process ends" : reason.c_str());
        if (!alone)
            alone.lock();
        communicator->closed_ = true;
        communicator->finalize();
    }
}

} // namespace gyre_torch
