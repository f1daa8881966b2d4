/* Several calls as one: Gyre starts them together, and sends small ones of one kind as one.
 *
 * Tested by tests/program/torch/coalesced.py. */
#include "calls/call.h"
#include "calls/reduction.h"

namespace gyre_torch
{

bool Group::coalesces() const
{
    return coalescer_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

void Group::startCoalescing()
{
    const Communicator::Use comm(*communicator_, "start_coalescing");
    const int status = gyre_group_start(comm);
    if (status)
        communicator_->fail("start_coalescing", status);
    coalesced_ = std::make_shared<Task>(
        communicator_, "coalesced calls",
        limit_of({"", "", c10d::OpType::COALESCED, true, c10d::kUnsetTimeout}));
    coalescer_ = std::this_thread::get_id();
}

WorkRef Group::endCoalescing()
{
    const Operation operation = {"end_coalescing", "gyre:coalesced", c10d::OpType::COALESCED, true,
                                 c10d::kUnsetTimeout};
    const Communicator::Use comm(*communicator_, operation.call);
    std::shared_ptr<Task> task = std::move(coalesced_);
    coalescer_ = std::thread::id();
    const int status = gyre_group_end(comm);
    if (status)
        completion_->add(task); /* whose calls end with the failure */
    if (status)
        communicator_->fail(operation.call, status);
    return new_work(operation, std::move(task));
}

/* Collects the calls of a scope, as part of what is collected already where that is so. Calls that
 * were collected before an exception are made. */
class Group::Coalescing
{
  public:
    explicit Coalescing(Group &group) : group_(group), open_(!group.coalesces())
    {
        if (open_)
            group_.startCoalescing();
    }
    ~Coalescing()
    {
        try {
            end(true);
        } catch (const std::exception &) { /* the one that ends the scope is told */
        }
    }
    Coalescing(const Coalescing &) = delete;
    Coalescing &operator=(const Coalescing &) = delete;

    WorkRef end(bool async)
    {
        if (!open_)
            return nullptr;
        open_ = false;
        WorkRef work = group_.endCoalescing();
        if (!async)
            work->wait();
        return async ? work : nullptr;
    }

  private:
    Group &group_;
    bool open_;
};

/* Both lists have one entry for each call. */
static void check_pairs(const char *call, size_t outputs, size_t inputs)
{
    if (outputs != inputs)
        refuse(call, c10::str(outputs, " outputs and ", inputs, " inputs"));
}

WorkRef Group::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options)
{
    Coalescing calls(*this);
    for (const at::Tensor &tensor : tensors) {
        Tensors one = {tensor};
        allreduce(one, options);
    }
    return calls.end(is_async(options));
}

WorkRef Group::allgather_coalesced(TensorLists &outputs, Tensors &inputs,
                                   const c10d::AllgatherOptions &options)
{
    /* outputs[rank][i] is for inputs[i] of that rank */
    check_count("all_gather_coalesced", outputs.size());
    for (const Tensors &list : outputs)
        check_pairs("all_gather_coalesced", list.size(), inputs.size());
    Coalescing calls(*this);
    for (size_t i = 0; i < inputs.size(); i++) {
        TensorLists to(1);
        Tensors from = {inputs[i]};
        for (const Tensors &list : outputs)
            to.front().push_back(list[i]);
        allgather(to, from, options);
    }
    return calls.end(is_async(options));
}

WorkRef Group::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                               const c10d::AllgatherOptions &options)
{
    check_pairs("all_gather_into_tensor_coalesced", outputs.size(), inputs.size());
    Coalescing calls(*this);
    for (size_t i = 0; i < inputs.size(); i++)
        _allgather_base(outputs[i], inputs[i], options);
    return calls.end(is_async(options));
}

WorkRef Group::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                               const c10d::ReduceScatterOptions &options)
{
    check_pairs("reduce_scatter_tensor_coalesced", outputs.size(), inputs.size());
    Coalescing calls(*this);
    for (size_t i = 0; i < inputs.size(); i++)
        _reduce_scatter_base(outputs[i], inputs[i], options);
    return calls.end(is_async(options));
}

/* -- a list whose tensors differ in size ------------------------------------------------------- */

/* A reduce_scatter of such a list: a reduction to each rank, together. */
WorkRef Group::reduce_to_each(Tensors &outputs, const Tensors &list,
                              const c10d::ReduceScatterOptions &options)
{
    const char *const name = "reduce_scatter";
    const Reduction reduction(name, *communicator_, options.reduceOp, list.front());
    if (reduction.holds())
        lack(name, "PREMUL_SUM of a list whose tensors differ in size");
    Coalescing calls(*this);
    for (int rank = 0; rank < size_; rank++) {
        Operation operation = {name, "gyre:reduce_scatter", c10d::OpType::REDUCE_SCATTER, true,
                               options.timeout};
        const Buffer from = Buffer(name, list[static_cast<size_t>(rank)]).filled();
        Buffer to;
        operation.read = {from};
        if (rank == rank_) {
            to = Buffer(name, outputs.front());
            operation.written = {to};
            operation.outputs = outputs;
        }
        call<gyre_reduce, gyre_reduce_start>(operation, from.data(), to.data(), from.count(),
                                             from.type(), reduction.op(), rank);
    }
    return calls.end(is_async(options));
}

} // namespace gyre_torch
