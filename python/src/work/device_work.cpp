/* Tested by tests/program/torch/devices.py. */
#include "work/device_work.h"

#include "base/device.h"
#include "base/failure.h"

#include <c10/core/StreamGuard.h>

#include <thread>

namespace gyre_torch
{

DeviceWork::Mark::Mark(const c10::Stream &stream) : stream(stream), event(stream.device_type())
{
    event.record(stream);
}

DeviceWork::DeviceWork(int rank, c10d::OpType type, const char *call, uint64_t sequence,
                       std::shared_ptr<Mark> mark, std::shared_ptr<Communicator> communicator,
                       std::vector<at::Tensor> outputs)
    : AnyWork(rank, type), call_(call), sequence_(sequence), mark_(std::move(mark)),
      communicator_(std::move(communicator)), outputs_(std::move(outputs))
{
}

bool DeviceWork::isCompleted()
{
    return mark_->event.query();
}

bool DeviceWork::isSuccess() const
{
    return mark_->event.query() && !exception();
}

/* A failed operation lets its stream go on, and is the communicator's failure from then on. */
std::exception_ptr DeviceWork::exception() const
{
    try {
        communicator_->check(call_);
        return nullptr;
    } catch (...) {
        return std::current_exception();
    }
}

std::vector<at::Tensor> DeviceWork::result()
{
    return outputs_;
}

/* Without a limit the host does not wait. */
bool DeviceWork::wait(std::chrono::milliseconds timeout)
{
    synchronize();
    if (timeout != kNoTimeout)
        wait_on_host(timeout);
    if (const std::exception_ptr failure = exception())
        std::rethrow_exception(failure);
    return true;
}

void DeviceWork::wait_on_host(std::chrono::milliseconds timeout)
{
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (!mark_->event.query()) {
        if (std::chrono::steady_clock::now() >= end)
            give_up(call_, c10::str("has not ended after ", timeout.count(),
                                    " ms; it goes on, and its tensors are in use until it ends"));
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

void DeviceWork::synchronize()
{
    mark_->event.block(current_stream(mark_->stream.device()));
}

void DeviceWork::abort()
{
    communicator_->abort(c10::str("the work of ", call_, " was aborted"));
}

/* The future has its value at once. What uses it runs after the stream has come here. */
c10::intrusive_ptr<c10::ivalue::Future> DeviceWork::getFuture()
{
    const auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                 std::vector<c10::Device>{mark_->stream.device()});
    const c10::StreamGuard recorded(mark_->stream);
    future->markCompleted(c10::IValue(outputs_));
    return future;
}

uint64_t DeviceWork::getSequencenumber() const
{
    return sequence_;
}

std::chrono::milliseconds DeviceWork::getTimeout() const
{
    return communicator_->timeout();
}

uint64_t DeviceWork::getCompletionKey() const
{
    return mark_->key;
}

} // namespace gyre_torch
