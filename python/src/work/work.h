/* A task as torch's Work, which is what a call of torch.distributed gives with async_op=True. */
#pragma once

#include "work/completion.h"
#include "base/versions.h"

namespace gyre_torch
{

class Work final : public AnyWork
{
  public:
    Work(int rank, c10d::OpType type, const char *title, uint64_t sequence,
         std::shared_ptr<Task> task, std::shared_ptr<Completion> completion,
         const std::optional<std::vector<at::Tensor>> &inputs);

    /* A task that is still under way goes on. */
    ~Work() override;

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    int sourceRank() const override;
    std::vector<at::Tensor> result() override;
    bool wait(std::chrono::milliseconds timeout) override;
    void synchronize() override;
    void abort() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    uint64_t getSequencenumber() const override;
    std::chrono::milliseconds getTimeout() const override;
    uint64_t getCompletionKey() const override;

  private:
    const uint64_t sequence_;
    const uint64_t key_ = next_completion_key();
    const std::shared_ptr<Task> task_;
    const std::shared_ptr<Completion> completion_;
};

} // namespace gyre_torch
