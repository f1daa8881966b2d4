/* Tested by tests/program/torch/groups.py. */
#include "group.h"

#include "call.h"
#include "gil.h"

#include <algorithm>

namespace gyre_torch
{

static constexpr const char *NAME = "gyre";

Group::Group(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
             const std::string &name, std::chrono::milliseconds timeout, bool formed)
    : Backend(rank, size), store_(store),
      communicator_(formed ? Communicator::join(store, rank, size, name, timeout, timeout)
                           : Communicator::unformed(name, timeout)),
      completion_(std::make_shared<Completion>()),
      options_(c10::make_intrusive<Options>(NAME, timeout)), timeout_(timeout)
{
    options_->group_name = name;
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

/* Null: the call is collected, and the Work of all tells its end. */
WorkRef Group::finish_start(const Operation &operation, std::shared_ptr<Task> task)
{
    return coalesces() ? nullptr : new_work(operation, std::move(task));
}

/* A task that is null has ended already. */
WorkRef Group::new_work(const Operation &operation, std::shared_ptr<Task> task)
{
    std::vector<at::Tensor> inputs;
    if (!task) {
        task = std::make_shared<Task>(communicator_, operation.call, c10d::kUnsetTimeout);
        task->outputs = operation.outputs;
    } else {
        for (const c10::IValue &value :
             at::hasCallbacks() ? profiled(operation) : std::vector<c10::IValue>())
            inputs.push_back(value.toTensor());
    }
    return c10::make_intrusive<Work>(rank_, operation.type, operation.title, sequence_,
                                     std::move(task), completion_, inputs);
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

c10d::ErrorType Group::getError()
{
    switch (communicator_->status()) {
    case GYRE_OK:
        return c10d::ErrorType::SUCCESS;
    case GYRE_TIMED_OUT:
        return c10d::ErrorType::TIMEOUT;
    case GYRE_PEER_LOST:
    case GYRE_ABORTED:
        return c10d::ErrorType::REMOTE_ERROR;
    default:
        return c10d::ErrorType::COMM_ERROR;
    }
}

void Group::abort()
{
    communicator_->abort("its process group was aborted");
}

void Group::shutdown()
{
    const WithoutGil released;
    communicator_->abort_if_given_up();
    completion_->stop();
    communicator_->close();
}

/* -- parts ------------------------------------------------------------------------------------- */

bool Group::supportsSplitting() const
{
    return true;
}

c10::intrusive_ptr<c10d::Backend> Group::split(const c10::intrusive_ptr<c10d::Store> &store,
                                               const std::vector<int> &ranks,
                                               const c10::intrusive_ptr<Options> &options)
{
    const auto place = std::find(ranks.begin(), ranks.end(), rank_);
    if (place == ranks.end())
        return nullptr;
    return c10::make_intrusive<Group>(store, static_cast<int>(place - ranks.begin()),
                                      static_cast<int>(ranks.size()), options->group_name,
                                      options->timeout, true);
}

/* -- memory ------------------------------------------------------------------------------------ */

bool Group::supportsTensorAlloc(c10::DeviceIndex device)
{
    return device < 0; /* the host */
}

at::Tensor Group::allocateTensor(long size, at::TensorOptions options)
{
    if (!options.device().is_cpu())
        lack("allocate_tensor", c10::str("memory is the host's, not ", options.device(), "'s"));
    return communicator_->allocate(size, options);
}

} // namespace gyre_torch
