/* How a group makes a call of Gyre: at once, or started. For the files that hold the calls. */
#pragma once

#include "base/device.h"
#include "base/failure.h"
#include "calls/group.h"

#include <ATen/record_function.h>

namespace gyre_torch
{

/* What torch's profiler is shown. */
inline std::vector<c10::IValue> profiled(const Operation &operation)
{
    std::vector<c10::IValue> values;
    for (const std::vector<Buffer> *buffers : {&operation.read, &operation.written})
        for (const Buffer &buffer : *buffers)
            values.insert(values.end(), buffer.tensors().begin(), buffer.tensors().end());
    return values;
}

/* The one tensor of a call that takes a list of one. */
template <typename T> T &only(const char *call, std::vector<T> &list)
{
    if (list.size() != 1)
        refuse(call, c10::str("takes one tensor, or one list of tensors, and has ", list.size()));
    return list.front();
}

/* Makes the blocking call, in this thread. */
template <auto Run, typename... Arguments>
void Group::run(Operation &operation, Arguments... arguments)
{
    RECORD_FUNCTION(operation.title, profiled(operation));
    const Shown shown = show(operation);
    settle(operation);
    const Communicator::Use comm(*communicator_, operation.call);
    const int status = Run(comm, arguments...);
    if (status)
        communicator_->fail(operation.call, status);
    for (const Buffer &buffer : operation.written)
        buffer.deliver();
}

/* Makes the starting call. The task is the operation's own, or that of all which are collected. */
template <auto Start, typename... Arguments>
std::shared_ptr<Task> Group::start(Operation &operation, Arguments... arguments)
{
    const Shown shown = show(operation);
    settle(operation);
    const Communicator::Use comm(*communicator_, operation.call);
    std::shared_ptr<Task> task =
        coalesces() ? coalesced_
                    : std::make_shared<Task>(communicator_, operation.call, limit_of(operation));
    task->handles.push_back(nullptr);
    task->received = operation.received;
    task->read.insert(task->read.end(), operation.read.begin(), operation.read.end());
    task->written.insert(task->written.end(), operation.written.begin(), operation.written.end());
    task->outputs.insert(task->outputs.end(), operation.outputs.begin(), operation.outputs.end());
    const int status = Start(comm, arguments..., &task->handles.back());
    if (status)
        communicator_->fail(operation.call, status);
    return task;
}

/* Puts the call on a stream. The handle is asked for without the right to call Gyre, because it may
 * take Python's lock. */
template <auto On, typename... Arguments>
WorkRef Group::launch(Operation &operation, const c10::Device &device, Arguments... arguments)
{
    const Shown shown = show(operation);
    const c10::Stream here = current_stream(device);
    const c10::Stream stream = operation.async ? own_stream(device) : here;
    void *const handle = handle_of(stream);
    if (operation.async)
        follow(stream, here);
    const Communicator::Use comm(*communicator_, operation.call);
    const int status = On(comm, arguments..., handle);
    if (status)
        communicator_->fail(operation.call, status);
    for (const Buffer &buffer : operation.written)
        buffer.deliver(stream);
    if (operation.async)
        keep(operation, stream);
    return wants_work(operation) ? on_stream(operation, stream) : nullptr;
}

/* Makes a collective call in the way that the caller wants. Null: it has been waited for, or is on
 * the caller's stream, or is collected. */
template <auto Run, auto Start, auto On, typename... Arguments>
WorkRef Group::call(Operation &operation, Arguments... arguments)
{
    sequence_++;
    if (operation.at_once && coalesces())
        lack(operation.call, "this reduction cannot be coalesced with other calls");
    if constexpr (!std::is_null_pointer_v<decltype(On)>)
        if (const auto device = device_of(operation); device && !operation.at_once && !coalesces())
            return launch<On>(operation, *device, arguments...);
    if (operation.at_once ||
        (!operation.async && limit_of(operation).count() < 0 && !coalesces())) {
        run<Run>(operation, arguments...);
        return wants_work(operation) ? new_work(operation, nullptr) : nullptr;
    }
    WorkRef work = finish_start(operation, start<Start>(operation, arguments...));
    if (work && !operation.async)
        work->wait();
    return wants_work(operation) ? work : nullptr;
}

} // namespace gyre_torch
