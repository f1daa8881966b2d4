/* Tested by tests/program/torch/calls.py. */
#include "calls/call.h"
#include "calls/reduction.h"

#include <numeric>

namespace gyre_torch
{

using c10d::OpType;

WorkRef Group::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    Operation operation = {"all_reduce", "gyre:all_reduce", OpType::ALLREDUCE, is_async(options),
                           options.timeout};
    at::Tensor &tensor = only(operation.call, tensors);
    if (tensor.layout() == at::kSparse)
        return all_reduce_sparse(operation, tensor, options.reduceOp);
    const Buffer buffer = Buffer(operation.call, tensor).filled();
    const Reduction reduction(operation.call, *communicator_, options.reduceOp, tensor);
    operation.at_once = reduction.holds();
    operation.written = {buffer};
    operation.outputs = tensors;
    return call<gyre_all_reduce, gyre_all_reduce_start, gyre_all_reduce_on>(
        operation, buffer.data(), buffer.data(), buffer.count(), buffer.type(), reduction.op());
}

WorkRef Group::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
    Operation operation = {"broadcast", "gyre:broadcast", OpType::BROADCAST, is_async(options),
                           options.timeout};
    check_root(operation.call, options.rootRank);
    const Buffer buffer = Buffer(operation.call, only(operation.call, tensors)).filled();
    (options.rootRank == rank_ ? operation.read : operation.written) = {buffer};
    operation.outputs = tensors;
    return call<gyre_broadcast, gyre_broadcast_start, gyre_broadcast_on>(
        operation, buffer.data(), buffer.data(), buffer.count(), buffer.type(),
        static_cast<int>(options.rootRank));
}

WorkRef Group::reduce(Tensors &tensors, const c10d::ReduceOptions &options)
{
    Operation operation = {"reduce", "gyre:reduce", OpType::REDUCE, is_async(options),
                           options.timeout};
    check_root(operation.call, options.rootRank);
    const at::Tensor &tensor = only(operation.call, tensors);
    const Buffer buffer = Buffer(operation.call, tensor).filled();
    const Reduction reduction(operation.call, *communicator_, options.reduceOp, tensor);
    const bool root = options.rootRank == rank_;
    operation.at_once = reduction.holds();
    (root ? operation.written : operation.read) = {buffer};
    operation.outputs = tensors;
    return call<gyre_reduce, gyre_reduce_start, gyre_reduce_on>(
        operation, buffer.data(), root ? buffer.data() : nullptr, buffer.count(), buffer.type(),
        reduction.op(), static_cast<int>(options.rootRank));
}

/* -- one tensor that has a block for each rank ------------------------------------------------- */

/* Throws unless `whole` has a block of the size of `block` for each rank. */
static void check_blocks(const char *call, const at::Tensor &whole, const at::Tensor &block,
                         int size)
{
    check_alike(call, whole, block);
    if (whole.numel() != block.numel() * size)
        refuse(call, c10::str("a tensor of ", whole.numel(), " elements is not ", size,
                              " blocks of ", block.numel()));
}

WorkRef Group::_allgather_base(at::Tensor &output, at::Tensor &input,
                               const c10d::AllgatherOptions &options)
{
    Operation operation = {"all_gather_into_tensor", "gyre:all_gather_into_tensor",
                           OpType::_ALLGATHER_BASE, is_async(options), options.timeout};
    check_blocks(operation.call, output, input, size_);
    const Buffer from = Buffer(operation.call, input).filled(), to(operation.call, output);
    operation.read = {from};
    operation.written = {to};
    operation.outputs = {output};
    return call<gyre_all_gather, gyre_all_gather_start, gyre_all_gather_on>(
        operation, from.data(), to.data(), from.count(), from.type());
}

WorkRef Group::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                    const c10d::ReduceScatterOptions &options)
{
    Operation operation = {"reduce_scatter_tensor", "gyre:reduce_scatter_tensor",
                           OpType::_REDUCE_SCATTER_BASE, is_async(options), options.timeout};
    check_blocks(operation.call, input, output, size_);
    const Buffer from = Buffer(operation.call, input).filled(), to(operation.call, output);
    const Reduction reduction(operation.call, *communicator_, options.reduceOp, input);
    operation.at_once = reduction.holds();
    operation.read = {from};
    operation.written = {to};
    operation.outputs = {output};
    return call<gyre_reduce_scatter, gyre_reduce_scatter_start, gyre_reduce_scatter_on>(
        operation, from.data(), to.data(), to.count(), to.type(), reduction.op());
}

WorkRef Group::gather_into_tensor(at::Tensor &output, at::Tensor &input,
                                  const c10d::GatherOptions &options)
{
    Operation operation = {"gather_into_tensor", "gyre:gather_into_tensor", OpType::GATHER,
                           is_async(options), options.timeout};
    check_root(operation.call, options.rootRank);
    const Buffer from = Buffer(operation.call, input).filled();
    Buffer to;
    operation.read = {from};
    if (options.rootRank == rank_) {
        check_blocks(operation.call, output, input, size_);
        to = Buffer(operation.call, output);
        operation.written = {to};
        operation.outputs = {output};
    }
    return call<gyre_gather, gyre_gather_start, gyre_gather_on>(operation, from.data(), to.data(),
                                                                from.count(), from.type(),
                                                                static_cast<int>(options.rootRank));
}

/* -- all to all -------------------------------------------------------------------------------- */

/* Elements for each rank: `splits` are rows of the tensor, and where there are none all ranks have
 * equally many. */
static std::vector<uint64_t> counts_of(const char *call, const at::Tensor &tensor, uint64_t each,
                                       const std::vector<int64_t> &splits, int size)
{
    const int64_t rows = tensor.dim() ? tensor.size(0) : 0;
    const uint64_t row = rows ? static_cast<uint64_t>(tensor.numel() / rows) * each : 0;
    std::vector<uint64_t> counts;
    if (splits.empty() && rows % size)
        refuse(call,
               c10::str("a tensor of ", rows, " rows cannot be split into ", size, " equal parts"));
    if (!splits.empty() && (splits.size() != static_cast<size_t>(size) ||
                            std::accumulate(splits.begin(), splits.end(), int64_t{0}) != rows))
        refuse(call, c10::str("the split sizes [", c10::Join(", ", splits), "] are not ", size,
                              " parts of ", rows, " rows"));
    for (int rank = 0; rank < size; rank++) {
        const int64_t part = splits.empty() ? rows / size : splits[static_cast<size_t>(rank)];
        if (part < 0)
            refuse(call, c10::str("a split size is ", part));
        counts.push_back(static_cast<uint64_t>(part) * row);
    }
    return counts;
}

WorkRef Group::alltoall_base(at::Tensor &output, at::Tensor &input,
                             std::vector<int64_t> &output_splits,
                             std::vector<int64_t> &input_splits,
                             const c10d::AllToAllOptions &options)
{
    Operation operation = {"all_to_all_single", "gyre:all_to_all_single", OpType::ALLTOALL_BASE,
                           is_async(options), options.timeout};
    check_alike(operation.call, output, input);
    const Buffer from = Buffer(operation.call, input).filled(), to(operation.call, output);
    const auto sent = counts_of(operation.call, input, from.each(), input_splits, size_);
    const auto received = counts_of(operation.call, output, to.each(), output_splits, size_);
    operation.read = {from};
    operation.written = {to};
    operation.outputs = {output};
    if (input_splits.empty() && output_splits.empty() && sent == received)
        return call<gyre_all_to_all, gyre_all_to_all_start, gyre_all_to_all_on>(
            operation, from.data(), to.data(), sent.front(), from.type());
    return call<gyre_all_to_all_v, gyre_all_to_all_v_start>(operation, from.data(), sent.data(),
                                                            nullptr, to.data(), received.data(),
                                                            nullptr, from.type());
}

WorkRef Group::barrier(const c10d::BarrierOptions &options)
{
    Operation operation = {"barrier", "gyre:barrier", OpType::BARRIER, is_async(options),
                           options.timeout};
    if (options.device && options.device->is_cuda())
        current_stream(*options.device).synchronize();
    return call<gyre_barrier, gyre_barrier_start>(operation);
}

} // namespace gyre_torch
