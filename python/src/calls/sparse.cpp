/* The sum of sparse tensors, such as gradients of an embedding. Each rank gathers the entries of
 * all ranks and adds them up itself, in the order of the ranks, so all ranks have the same bits.
 *
 *     entries    indices [n, sparse dimensions] and values [n, …], n of each rank's own
 *     gathered   what ranks must agree on and n; then the indices; then the values
 *
 * Tested by tests/program/torch/sparse.py. */
#include "calls/call.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <numeric>

namespace gyre_torch
{

/* Of what all ranks must have the same, but for the first number, which is how many entries this
 * rank has. */
static at::Tensor describe(const at::Tensor &entries)
{
    std::vector<int64_t> numbers = {entries._nnz(), static_cast<int64_t>(entries.scalar_type()),
                                    entries.sparse_dim(), entries.dense_dim()};
    numbers.insert(numbers.end(), entries.sizes().begin(), entries.sizes().end());
    return at::tensor(numbers, at::kLong);
}

/* How many entries each rank has. Throws on all ranks where the tensors of any two differ. */
static std::vector<int64_t> read_counts(const char *call, const at::Tensor &descriptions)
{
    std::vector<int64_t> counts;
    for (int64_t rank = 0; rank < descriptions.size(0); rank++) {
        const at::Tensor own = descriptions[rank].narrow(0, 1, descriptions.size(1) - 1);
        if (!own.equal(descriptions[0].narrow(0, 1, own.size(0))))
            refuse(call, c10::str("the sparse tensor of rank ", rank,
                                  " differs from rank 0's in dtype, dimensions or size"));
        counts.push_back(descriptions[rank][0].item<int64_t>());
    }
    return counts;
}

/* The rows of all ranks, behind each other: counts[rank] of each. */
at::Tensor Group::gather_rows(const char *call, const at::Tensor &rows,
                              const std::vector<int64_t> &counts)
{
    std::vector<int64_t> sizes = rows.sizes().vec();
    sizes[0] = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const at::Tensor all = at::empty(sizes, rows.options());
    const Buffer from = Buffer(call, rows.contiguous()).filled(), to(call, all);
    const uint64_t row = sizes[0] ? to.count() / static_cast<uint64_t>(sizes[0]) : 0;
    std::vector<uint64_t> parts;
    for (const int64_t count : counts)
        parts.push_back(static_cast<uint64_t>(count) * row);
    const Communicator::Use comm(*communicator_, call);
    const int status =
        gyre_all_gather_v(comm, from.data(), to.data(), parts.data(), nullptr, from.type());
    if (status)
        communicator_->fail(call, status);
    return all;
}

/* The sum of what all ranks have; it has no two entries of one place. */
at::Tensor Group::sum_of_entries(const char *call, const at::Tensor &entries)
{
    const at::Tensor own = describe(entries);
    const at::Tensor described =
        gather_rows(call, own, std::vector<int64_t>(static_cast<size_t>(size_), own.size(0)));
    const std::vector<int64_t> counts = read_counts(call, described.view({size_, own.size(0)}));
    const at::Tensor indices = gather_rows(call, entries._indices().t(), counts);
    const at::Tensor values = gather_rows(call, entries._values(), counts);
    return at::sparse_coo_tensor(indices.t(), values, entries.sizes(),
                                 values.options().layout(at::kSparse), false)
        .coalesce();
}

WorkRef Group::all_reduce_sparse(Operation &operation, at::Tensor &tensor,
                                 const c10d::ReduceOp &reduction)
{
    const bool mean = reduction.op_ == c10d::ReduceOp::AVG;
    if (!tensor.device().is_cpu())
        lack(operation.call, c10::str("a sparse tensor is on ", tensor.device()));
    if (!mean && reduction.op_ != c10d::ReduceOp::SUM)
        refuse(operation.call, "sparse tensors can be reduced by SUM and AVG only");
    if (coalesces())
        lack(operation.call, "sparse tensors cannot be coalesced with other calls");
    sequence_++;
    const at::AutoDispatchBelowADInplaceOrView below;
    RECORD_FUNCTION(operation.title, std::vector<c10::IValue>({tensor}));
    at::Tensor sum = sum_of_entries(operation.call, tensor.coalesce());
    if (mean)
        sum._values().div_(size_);
    tensor.copy_(sum);
    operation.outputs = {tensor};
    return operation.async ? new_work(operation, nullptr) : nullptr;
}

WorkRef Group::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    return allreduce(tensors, options);
}

} // namespace gyre_torch
