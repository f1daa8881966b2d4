/* Collectives with a list of tensors, one for each rank. Gyre has one buffer of blocks for them:
 * the tensors' own memory where they lie behind each other, otherwise a staging buffer.
 *
 * Tested by tests/program/torch/calls.py. */
#include "calls/call.h"
#include "calls/reduction.h"

#include <algorithm>

namespace gyre_torch
{

using c10d::OpType;

[[noreturn]] static void refuse_unequal(const char *call)
{
    refuse(call, "the tensors of the list have different sizes");
}

static bool have_one_size(const Tensors &list)
{
    return std::all_of(list.begin(), list.end(), [&](const at::Tensor &tensor) {
        return tensor.numel() == list.front().numel();
    });
}

WorkRef Group::allgather(TensorLists &outputs, Tensors &inputs,
                         const c10d::AllgatherOptions &options)
{
    Operation operation = {"all_gather", "gyre:all_gather", OpType::ALLGATHER, is_async(options),
                           options.timeout};
    const Tensors &list = only(operation.call, outputs);
    const at::Tensor &input = only(operation.call, inputs);
    check_count(operation.call, list.size());
    check_alike(operation.call, list.front(), input);
    const Buffer from = Buffer(operation.call, input).filled(), to(operation.call, list);
    const std::vector<uint64_t> counts = to.counts();
    if (counts[static_cast<size_t>(rank_)] != from.count())
        refuse(operation.call, c10::str("the input has ", input.numel(),
                                        " elements, and its place "
                                        "in the output list ",
                                        list[static_cast<size_t>(rank_)].numel()));
    operation.read = {from};
    operation.written = {to};
    operation.outputs = list;
    if (to.equal_blocks())
        return call<gyre_all_gather, gyre_all_gather_start, gyre_all_gather_on>(
            operation, from.data(), to.data(), from.count(), from.type());
    return call<gyre_all_gather_v, gyre_all_gather_v_start>(operation, from.data(), to.data(),
                                                            counts.data(), nullptr, from.type());
}

WorkRef Group::gather(TensorLists &outputs, Tensors &inputs, const c10d::GatherOptions &options)
{
    Operation operation = {"gather", "gyre:gather", OpType::GATHER, is_async(options),
                           options.timeout};
    check_root(operation.call, options.rootRank);
    const at::Tensor &input = only(operation.call, inputs);
    const Buffer from = Buffer(operation.call, input).filled();
    Buffer to;
    operation.read = {from};
    if (options.rootRank == rank_) {
        const Tensors &list = only(operation.call, outputs);
        check_count(operation.call, list.size());
        check_alike(operation.call, list.front(), input);
        to = Buffer(operation.call, list);
        if (!to.equal_blocks() || list.front().numel() != input.numel())
            refuse_unequal(operation.call);
        operation.written = {to};
        operation.outputs = list;
    } else if (!outputs.empty()) {
        refuse(operation.call, "a rank that is not the root gives no output list");
    }
    return call<gyre_gather, gyre_gather_start, gyre_gather_on>(operation, from.data(), to.data(),
                                                                from.count(), from.type(),
                                                                static_cast<int>(options.rootRank));
}

WorkRef Group::scatter(Tensors &outputs, TensorLists &inputs, const c10d::ScatterOptions &options)
{
    Operation operation = {"scatter", "gyre:scatter", OpType::SCATTER, is_async(options),
                           options.timeout};
    check_root(operation.call, options.rootRank);
    const at::Tensor &output = only(operation.call, outputs);
    const Buffer to(operation.call, output);
    Buffer from;
    if (options.rootRank == rank_) {
        const Tensors &list = only(operation.call, inputs);
        check_count(operation.call, list.size());
        check_alike(operation.call, list.front(), output);
        from = Buffer(operation.call, list).filled();
        if (!from.equal_blocks() || list.front().numel() != output.numel())
            refuse_unequal(operation.call);
        operation.read = {from};
    } else if (!inputs.empty()) {
        refuse(operation.call, "a rank that is not the root gives no input list");
    }
    operation.written = {to};
    operation.outputs = outputs;
    return call<gyre_scatter, gyre_scatter_start, gyre_scatter_on>(
        operation, from.data(), to.data(), to.count(), to.type(),
        static_cast<int>(options.rootRank));
}

WorkRef Group::reduce_scatter(Tensors &outputs, TensorLists &inputs,
                              const c10d::ReduceScatterOptions &options)
{
    Operation operation = {"reduce_scatter", "gyre:reduce_scatter", OpType::REDUCE_SCATTER,
                           is_async(options), options.timeout};
    const at::Tensor &output = only(operation.call, outputs);
    const Tensors &list = only(operation.call, inputs);
    check_count(operation.call, list.size());
    check_alike(operation.call, list.front(), output);
    const at::Tensor &own = list[static_cast<size_t>(rank_)];
    if (own.numel() != output.numel())
        refuse(operation.call,
               c10::str("the output has ", output.numel(),
                        " elements, and its place in the input list ", own.numel()));
    if (!have_one_size(list))
        return reduce_to_each(outputs, list, options);
    const Buffer from = Buffer(operation.call, list).filled(), to(operation.call, output);
    const Reduction reduction(operation.call, *communicator_, options.reduceOp, output);
    operation.at_once = reduction.holds();
    operation.read = {from};
    operation.written = {to};
    operation.outputs = outputs;
    return call<gyre_reduce_scatter, gyre_reduce_scatter_start, gyre_reduce_scatter_on>(
        operation, from.data(), to.data(), to.count(), to.type(), reduction.op());
}

WorkRef Group::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options)
{
    Operation operation = {"all_to_all", "gyre:all_to_all", OpType::ALLTOALL, is_async(options),
                           options.timeout};
    check_count(operation.call, inputs.size());
    check_count(operation.call, outputs.size());
    check_alike(operation.call, outputs.front(), inputs.front());
    const Buffer from = Buffer(operation.call, inputs).filled(), to(operation.call, outputs);
    const std::vector<uint64_t> sent = from.counts(), received = to.counts();
    operation.read = {from};
    operation.written = {to};
    operation.outputs = outputs;
    return call<gyre_all_to_all_v, gyre_all_to_all_v_start>(operation, from.data(), sent.data(),
                                                            nullptr, to.data(), received.data(),
                                                            nullptr, from.type());
}

} // namespace gyre_torch
