/* Tested by tests/program/torch/groups.py. */
#include "calls/group.h"

#include "base/gil.h"
#include "calls/call.h"

#include <algorithm>

namespace gyre_torch
{

static constexpr const char *NAME = "gyre";

Group::Group(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
             const std::string &name, std::chrono::milliseconds timeout,
             const std::vector<int64_t> &global_ranks, bool formed)
    : AnyBackend(rank, size), store_(store),
      communicator_(formed ? Communicator::join(store, rank, size, name, timeout, timeout)
                           : Communicator::unformed(name, timeout)),
      completion_(std::make_shared<Completion>()),
      options_(c10::make_intrusive<Options>(NAME, timeout)), name_(name),
      global_ranks_(global_ranks), timeout_(timeout)
{
    name_group(*options_, name, global_ranks);
}

Group::~Group()
{
    if (!communicator_->forked())
        shutdown();
}

const std::string Group::getBackendName() const
{
    return NAME;
}

c10::intrusive_ptr<c10d::Backend::Options> Group::getBackendOptions()
{
    return options_;
}

uint64_t Group::getSequenceNumberForGroup()
{
    return sequence_;
}

void Group::setTimeout(std::chrono::milliseconds timeout)
{
    timeout_ = timeout;
    options_->timeout = timeout;
}

/* The limit that Gyre does not keep by itself; negative: none. */
std::chrono::milliseconds Group::limit_of(const Operation &operation) const
{
    const auto limit =
        operation.timeout == c10d::kUnsetTimeout ? timeout_.load() : operation.timeout;
    return limit == communicator_->timeout() ? c10d::kUnsetTimeout : limit;
}

bool Group::wants_work(const Operation &operation) const
{
    return operation.async || communicator_->completion_hooks.any();
}

/* Null: the call is collected, and the Work of all tells its end. */
WorkRef Group::finish_start(const Operation &operation, std::shared_ptr<Task> task)
{
    return coalesces() ? nullptr : new_work(operation, std::move(task));
}

/* A task that is null has ended already. */
WorkRef Group::new_work(const Operation &operation, std::shared_ptr<Task> task)
{
    std::vector<at::Tensor> inputs;
    const char *const title = task ? operation.title : nullptr; /* else it has been shown */
    if (!task) {
        task = std::make_shared<Task>(communicator_, operation.call, c10d::kUnsetTimeout);
        task->outputs = operation.outputs;
    } else {
        for (const c10::IValue &value :
             at::hasCallbacks() ? profiled(operation) : std::vector<c10::IValue>())
            inputs.push_back(value.toTensor());
    }
    return c10::make_intrusive<Work>(rank_, operation.type, title, sequence_, std::move(task),
                                     completion_, inputs);
}

void Group::check_root(const char *call, int64_t root) const
{
    if (root < 0 || root >= size_)
        refuse(call, c10::str("invalid root rank: ", root, "; the group has ", size_, " ranks"));
}

void Group::check_count(const char *call, size_t given) const
{
    if (given != static_cast<size_t>(size_))
        refuse(call, c10::str("takes a tensor for each of ", size_, " ranks, and has ", given));
}

/* -- its end ----------------------------------------------------------------------------------- */

ErrorType Group::getError()
{
    switch (communicator_->status()) {
    case GYRE_OK:
        return ErrorType::SUCCESS;
    case GYRE_TIMED_OUT:
        return ErrorType::TIMEOUT;
    case GYRE_PEER_LOST:
    case GYRE_ABORTED:
        return ErrorType::REMOTE_ERROR;
    default:
        return ErrorType::COMM_ERROR;
    }
}

void Group::abort()
{
    communicator_->abort_hooks.call();
    communicator_->abort("its process group was aborted");
}

void Group::shutdown()
{
    const WithoutGil released;
    communicator_->abort_if_given_up();
    completion_->stop();
    communicator_->close();
}

bool Group::supportsAbortHooks() const
{
    return wants_dump();
}

void Group::registerAbortHook(int64_t id, AbortHook hook)
{
    communicator_->abort_hooks.add(id, std::move(hook));
}

void Group::unregisterAbortHook(int64_t id)
{
    communicator_->abort_hooks.remove(id);
}

bool Group::supportsCompletionHooks() const
{
    return true;
}

void Group::registerCompletionHook(int64_t id, CompletionHook hook)
{
    communicator_->completion_hooks.add(id, std::move(hook));
}

void Group::unregisterCompletionHook(int64_t id)
{
    communicator_->completion_hooks.remove(id);
}

/* -- parts ------------------------------------------------------------------------------------- */

bool Group::supportsSplitting() const
{
    return true;
}

/* Those of ranks of this group. */
std::vector<int64_t> Group::global_ranks_of(const std::vector<int> &ranks) const
{
    std::vector<int64_t> global;
    for (const int rank : ranks)
        global.push_back(global_ranks_.empty() ? rank
                                               : global_ranks_.at(static_cast<size_t>(rank)));
    return global;
}

c10::intrusive_ptr<c10d::Backend> Group::split(const c10::intrusive_ptr<c10d::Store> &store,
                                               const std::vector<int> &ranks,
                                               const c10::intrusive_ptr<Options> &options)
{
    const auto place = std::find(ranks.begin(), ranks.end(), rank_);
    if (place == ranks.end())
        return nullptr;
    return c10::make_intrusive<Group>(store, static_cast<int>(place - ranks.begin()),
                                      static_cast<int>(ranks.size()), group_name_of(*options),
                                      options->timeout, global_ranks_of(ranks), true);
}

/* A group of this one's ranks and of others, which meet in a store of the caller's. */
c10::intrusive_ptr<c10d::Backend> Group::merge(const c10::intrusive_ptr<c10d::Store> &store,
                                               const c10::intrusive_ptr<Options> &options,
                                               const int &rank, const int &size)
{
    return c10::make_intrusive<Group>(store, rank, size, group_name_of(*options), options->timeout,
                                      std::vector<int64_t>(), true);
}

/* -- devices ----------------------------------------------------------------------------------- */

/* The device of all tensors of a call; none: the host. Throws where it is not this rank's. */
std::optional<c10::Device> Group::device_of(const Operation &operation) const
{
    std::optional<c10::Device> found;
    for (const std::vector<Buffer> *buffers : {&operation.read, &operation.written})
        for (const Buffer &buffer : *buffers)
            found = found ? found : buffer.device();
    if (found)
        communicator_->check_device(operation.call, *found);
    return found;
}

/* Waits for what streams have yet to do to the tensors of a call that knows no streams. */
void Group::settle(const Operation &operation) const
{
    if (!device_of(operation))
        return;
    for (const std::vector<Buffer> *buffers : {&operation.read, &operation.written})
        for (const Buffer &buffer : *buffers)
            buffer.settle();
}

/* Keeps the memory of a call's tensors until a stream that is not the caller's has come past
 * now. */
void Group::keep(const Operation &operation, const c10::Stream &stream) const
{
    for (const std::vector<Buffer> *buffers : {&operation.read, &operation.written})
        for (const Buffer &buffer : *buffers)
            buffer.keep(stream);
}

/* That of calls with asyncOp=True: what the caller computes meanwhile is on another one. */
c10::Stream Group::own_stream(const c10::Device &device)
{
    const std::lock_guard<std::mutex> hold(streams_);
    if (!own_stream_)
        own_stream_ = another_stream(device);
    return *own_stream_;
}

/* The Work of a call that is the last on a stream. Tells of those before that have ended. */
WorkRef Group::on_stream(const Operation &operation, const c10::Stream &stream)
{
    const auto mark = std::make_shared<DeviceWork::Mark>(stream);
    std::unique_lock<std::mutex> hold(streams_);
    std::vector<uint64_t> ended;
    for (; !marks_.empty() && marks_.front()->event.query(); marks_.pop_front())
        ended.push_back(marks_.front()->key);
    marks_.push_back(mark);
    hold.unlock();
    for (const uint64_t key : ended)
        tell_completion(communicator_->completion_hooks, key);
    return c10::make_intrusive<DeviceWork>(rank_, operation.type, operation.call, sequence_, mark,
                                           communicator_, operation.outputs);
}

Shown Group::show(const Operation &operation)
{
    if (!at::hasCallbacks())
        return Shown();
    return Shown({{communicator_->name(), getGroupDesc()}, rank_, size_, ranks_of(global_ranks_)},
                 operation.type, operation.async, sequence_, operation.read, operation.written);
}

/* -- memory ------------------------------------------------------------------------------------ */

bool Group::supportsTensorAlloc(c10::DeviceIndex device)
{
    return device < 0 || device == communicator_->device(); /* negative: the host */
}

at::Tensor Group::allocateTensor(long size, at::TensorOptions options)
{
    if (!options.device().is_cpu())
        communicator_->check_device("allocate_tensor", options.device());
    return communicator_->allocate(size, options);
}

} // namespace gyre_torch
