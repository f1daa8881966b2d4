/* Tested by tests/program/torch/works.py. */
#include "work/task.h"

#include "base/failure.h"

#include <utility>

namespace gyre_torch
{

using Clock = std::chrono::steady_clock;

/* -- its end ----------------------------------------------------------------------------------- */

/* What an ended operation leaves to do, and how it went. */
std::exception_ptr Task::outcome(int status)
{
    try {
        if (status)
            communicator_->fail(call_, status);
        if (received && received->count != written.front().count())
            give_up(call_, c10::str("rank ", received->source, " has sent ", received->count,
                                    " elements, and the tensor has ", written.front().count()));
        for (const Buffer &buffer : written)
            buffer.deliver();
        return nullptr;
    } catch (...) {
        return std::current_exception();
    }
}

/* Gives the lock up, and tells those who asked: what they do may ask in turn. */
void Task::tell(std::unique_lock<std::mutex> &hold)
{
    const c10::intrusive_ptr<c10::ivalue::Future> future = future_;
    const std::function<void(Task &)> step = std::exchange(told, nullptr);
    hold.unlock();
    if (step)
        step(*this);
    if (future && failure_)
        future->setError(failure_);
    else if (future)
        future->markCompleted(c10::IValue(outputs));
}

/* Gives the lock up. The last reference to a tensor may need Python's lock, which a thread may have
 * that waits for this one, so tensors are let go after it. */
void Task::finish(std::exception_ptr failure, std::unique_lock<std::mutex> &hold)
{
    const std::vector<Buffer> used = std::move(read), made = std::move(written);
    failure_ = std::move(failure);
    handles.clear();
    taken_ = false;
    ended_ = true;
    changed_.notify_all();
    tell(hold);
}

/* -- waiting ----------------------------------------------------------------------------------- */

static int left_until(Clock::time_point end)
{
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    return static_cast<int>(std::min<int64_t>(std::max<int64_t>(left.count(), 0), INT32_MAX));
}

/* Waits for one handle after the other. GYRE_AGAIN: those that are not NULL are still under way.
 * After a failure the communicator is spent, so the others end at once. */
int Task::wait_in_gyre(Clock::time_point end, bool limited)
{
    const Communicator::Use use(*communicator_, call_);
    int first = 0;
    for (gyre_work *&handle : handles) {
        const int status = handle ? gyre_work_wait(handle, limited ? left_until(end) : -1) : 0;
        if (status == GYRE_AGAIN)
            return first ? first : status;
        handle = nullptr;
        first = first ? first : status;
    }
    return first;
}

/* Waits for the thread that has taken the task. False: the time has passed. */
bool Task::wait_for_taker(Clock::time_point end, bool limited, std::unique_lock<std::mutex> &hold)
{
    while (!ended_ && taken_) {
        if (!limited)
            changed_.wait(hold);
        else if (changed_.wait_until(hold, end) == std::cv_status::timeout)
            return ended_;
    }
    return true;
}

bool Task::wait(std::chrono::milliseconds time, const std::function<void()> &before_telling)
{
    time = time.count() < 0 ? limit_ : time;
    const bool limited = time.count() >= 0;
    const Clock::time_point end = limited ? Clock::now() + time : Clock::time_point();
    std::unique_lock<std::mutex> hold(lock_);
    if (!wait_for_taker(end, limited, hold) || ended_)
        return ended_;
    taken_ = true;
    hold.unlock();
    int status = 0;
    std::exception_ptr failure;
    try {
        status = wait_in_gyre(end, limited);
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure && status != GYRE_AGAIN)
        failure = outcome(status); /* copies, without the lock */
    const bool ended = failure || status != GYRE_AGAIN;
    if (ended && before_telling)
        before_telling();
    hold.lock();
    if (ended) {
        finish(std::move(failure), hold);
        return true;
    }
    taken_ = false;
    changed_.notify_one();
    return false;
}

bool Task::poll()
{
    return wait(std::chrono::milliseconds(0));
}

/* -- who is told ------------------------------------------------------------------------------- */

std::exception_ptr Task::failure()
{
    const std::lock_guard<std::mutex> hold(lock_);
    return failure_;
}

c10::intrusive_ptr<c10::ivalue::Future> Task::future()
{
    std::unique_lock<std::mutex> hold(lock_);
    if (!future_) {
        future_ =
            c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
        if (ended_)
            tell(hold);
    }
    return future_;
}

} // namespace gyre_torch
