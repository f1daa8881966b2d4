/* An operation that was started, and what belongs to it until it has ended: Gyre's handles, the
 * tensors that are read and written, what is left to do afterwards, and who wants to be told.
 *
 * One thread at a time waits in Gyre; others that wait for the same task wait for that thread. The
 * one that sees the operation end finishes the task. */
#pragma once

#include "base/communicator.h"
#include "base/tensors.h"

#include <ATen/core/ivalue.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace gyre_torch
{

class Task
{
  public:
    Task(std::shared_ptr<Communicator> communicator, const char *call,
         std::chrono::milliseconds limit)
        : communicator_(std::move(communicator)), call_(call), limit_(limit)
    {
    }
    Task(const Task &) = delete;
    Task &operator=(const Task &) = delete;

    /* -- while it is made, by one thread -- */

    std::vector<gyre_work *> handles;
    std::vector<Buffer> read, written;
    std::vector<at::Tensor> outputs;         /* what result() and the future give */
    std::function<void(Task &)> told;        /* when it has ended, either way */
    std::shared_ptr<gyre_received> received; /* of a message from any rank; null: it is another */

    /* -- by any thread -- */

    /* Whether it has ended. */
    bool poll();

    /* Waits until it has ended, for a time; negative: for the task's limit. False: the time has
     * passed, and the task goes on. If this thread sees it end, it calls `before_telling` before
     * it tells those who asked. */
    bool wait(std::chrono::milliseconds time,
              const std::function<void()> &before_telling = nullptr);

    /* Why it has failed; null: it has not, or not yet. */
    std::exception_ptr failure();

    /* Completed when the task ends: by whoever sees it. */
    c10::intrusive_ptr<c10::ivalue::Future> future();

    const char *call() const
    {
        return call_;
    }

    std::chrono::milliseconds limit() const
    {
        return limit_;
    }

    Communicator &communicator()
    {
        return *communicator_;
    }

  private:
    int wait_in_gyre(std::chrono::steady_clock::time_point end, bool limited);
    bool wait_for_taker(std::chrono::steady_clock::time_point end, bool limited,
                        std::unique_lock<std::mutex> &hold);
    void finish(std::exception_ptr failure, std::unique_lock<std::mutex> &hold);
    std::exception_ptr outcome(int status);
    void tell(std::unique_lock<std::mutex> &hold);

    const std::shared_ptr<Communicator> communicator_;
    const char *const call_;
    const std::chrono::milliseconds limit_; /* negative: the communicator's */
    std::mutex lock_;
    std::condition_variable changed_;
    bool taken_ = false; /* a thread is in Gyre with the handles */
    bool ended_ = false;
    std::exception_ptr failure_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace gyre_torch
