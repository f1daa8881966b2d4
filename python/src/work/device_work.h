/* A call that was put on a stream, as torch's Work: it has ended when the stream has come past it.
 * wait() has the caller's stream wait, and not the host. */
#pragma once

#include "base/communicator.h"
#include "base/versions.h"

#include <c10/core/Event.h>

namespace gyre_torch
{

class DeviceWork final : public AnyWork
{
  public:
    /* What is on a stream when it is made. */
    struct Mark {
        explicit Mark(const c10::Stream &stream);

        const uint64_t key = next_completion_key();
        const c10::Stream stream;
        c10::Event event;
    };

    DeviceWork(int rank, c10d::OpType type, const char *call, uint64_t sequence,
               std::shared_ptr<Mark> mark, std::shared_ptr<Communicator> communicator,
               std::vector<at::Tensor> outputs);

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    std::vector<at::Tensor> result() override;
    bool wait(std::chrono::milliseconds timeout) override;
    void synchronize() override;
    void abort() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    uint64_t getSequencenumber() const override;
    std::chrono::milliseconds getTimeout() const override;
    uint64_t getCompletionKey() const override;

  private:
    void wait_on_host(std::chrono::milliseconds timeout);

    const char *const call_;
    const uint64_t sequence_;
    const std::shared_ptr<Mark> mark_;
    const std::shared_ptr<Communicator> communicator_;
    const std::vector<at::Tensor> outputs_;
};

} // namespace gyre_torch
