/* Tested by tests/program/torch/works.py. */
#include "work/work.h"

#include "base/failure.h"

namespace gyre_torch
{

Work::Work(int rank, c10d::OpType type, const char *title, uint64_t sequence,
           std::shared_ptr<Task> task, std::shared_ptr<Completion> completion,
           const std::optional<std::vector<at::Tensor>> &inputs)
    : AnyWork(rank, type, title, inputs), sequence_(sequence), task_(std::move(task)),
      completion_(std::move(completion))
{
    task_->told = [end = std::move(recordFunctionEndCallback_), key = key_](Task &task) {
        if (end)
            end();
        if (!task.failure())
            tell_completion(task.communicator().completion_hooks, key);
    };
}

Work::~Work()
{
    if (!task_->communicator().forked() && !task_->poll())
        completion_->add(task_);
}

bool Work::isCompleted()
{
    return task_->poll();
}

bool Work::isSuccess() const
{
    return task_->poll() && !task_->failure();
}

std::exception_ptr Work::exception() const
{
    return task_->failure();
}

int Work::sourceRank() const
{
    return task_->received ? task_->received->source : -1;
}

std::vector<at::Tensor> Work::result()
{
    return task_->outputs;
}

bool Work::wait(std::chrono::milliseconds timeout)
{
    const auto time = timeout == kNoTimeout ? task_->limit() : timeout;
    if (!task_->wait(time)) {
        const std::string why = c10::str("has not ended after ", time.count(), " ms");
        task_->communicator().give_up(c10::str(task_->call(), " ", why));
        give_up(task_->call(), why + "; it goes on, and its tensors are in use until it ends");
    }
    if (const std::exception_ptr failure = task_->failure())
        std::rethrow_exception(failure);
    return true;
}

/* Host memory is complete when the task has ended: there is no stream to wait for. */
void Work::synchronize()
{
}

void Work::abort()
{
    task_->communicator().abort(c10::str("the work of ", task_->call(), " was aborted"));
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
    const c10::intrusive_ptr<c10::ivalue::Future> future = task_->future();
    if (!task_->poll())
        completion_->add(task_);
    return future;
}

uint64_t Work::getSequencenumber() const
{
    return sequence_;
}

uint64_t Work::getCompletionKey() const
{
    return key_;
}

std::chrono::milliseconds Work::getTimeout() const
{
    return task_->limit().count() < 0 ? task_->communicator().timeout() : task_->limit();
}

} // namespace gyre_torch
