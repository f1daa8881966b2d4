/* Tested by tests/program/torch/tensors.py. */
#include "base/tensors.h"

#include "base/device.h"
#include "base/failure.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>

namespace gyre_torch
{

Element element_of(const at::Tensor &tensor)
{
    switch (tensor.scalar_type()) {
    case at::kFloat:
        return {GYRE_F32, 1};
    case at::kDouble:
        return {GYRE_F64, 1};
    case at::kHalf:
        return {GYRE_F16, 1};
    case at::kBFloat16:
        return {GYRE_BF16, 1};
    case at::kInt:
        return {GYRE_I32, 1};
    case at::kLong:
        return {GYRE_I64, 1};
    case at::kShort:
        return {GYRE_I16, 1};
    case at::kChar:
        return {GYRE_I8, 1};
    case at::kUInt16:
        return {GYRE_U16, 1};
    case at::kUInt32:
        return {GYRE_U32, 1};
    case at::kUInt64:
        return {GYRE_U64, 1};
    case at::kFloat8_e4m3fn:
        return {GYRE_F8E4M3, 1};
    case at::kFloat8_e5m2:
        return {GYRE_F8E5M2, 1};
    case at::kComplexHalf:
        return {GYRE_F16, 2};
    case at::kComplexFloat:
        return {GYRE_F32, 2};
    case at::kComplexDouble:
        return {GYRE_F64, 2};
    default:
        return {GYRE_U8, static_cast<uint64_t>(tensor.element_size())};
    }
}

void check_place(const std::string &call, const at::Tensor &tensor)
{
    if (!tensor.defined())
        refuse(call, "a tensor is undefined");
    if (tensor.layout() != at::kStrided)
        lack(call, c10::str("a tensor has layout ", tensor.layout(), "; dense ones are carried"));
    if (!tensor.device().is_cpu() && !tensor.device().is_cuda())
        lack(call,
             c10::str("a tensor is on ", tensor.device(), "; tensors on cpu and cuda are carried"));
    if (tensor.is_quantized())
        lack(call, c10::str("a tensor is quantized (", tensor.scalar_type(), ")"));
}

void check_alike(const std::string &call, const at::Tensor &one, const at::Tensor &other)
{
    if (one.scalar_type() != other.scalar_type())
        refuse(call, c10::str("tensors of one call have one dtype, but here are ",
                              one.scalar_type(), " and ", other.scalar_type()));
    if (one.device() != other.device())
        refuse(call, c10::str("tensors of one call are on one device, but here are ", one.device(),
                              " and ", other.device()));
}

/* -- a buffer ---------------------------------------------------------------------------------- */

static char *address(const at::Tensor &tensor)
{
    return static_cast<char *>(tensor.data_ptr());
}

/* Whether the elements lie one behind the other, and as they are meant. */
static bool is_plain(const at::Tensor &tensor)
{
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

static bool lie_together(const std::vector<at::Tensor> &blocks)
{
    const char *next = blocks.empty() ? nullptr : address(blocks.front());
    for (const at::Tensor &block : blocks) {
        if (!is_plain(block) || (block.numel() && address(block) != next))
            return false;
        next += block.nbytes();
    }
    return true;
}

Buffer::Buffer(const std::string &call, const at::Tensor &tensor)
    : Buffer(call, std::vector<at::Tensor>{tensor})
{
}

Buffer::Buffer(const std::string &call, const std::vector<at::Tensor> &blocks) : blocks_(blocks)
{
    for (const at::Tensor &block : blocks_) {
        check_place(call, block);
        check_alike(call, blocks_.front(), block);
        count_ += static_cast<uint64_t>(block.numel());
    }
    if (blocks_.empty())
        return;
    element_ = element_of(blocks_.front());
    if (const auto place = device())
        stream_ = current_stream(*place);
    if (lie_together(blocks_))
        data_ = address(blocks_.front());
    else
        stage();
    count_ *= element_.each;
}

void Buffer::stage()
{
    at::AutoDispatchBelowADInplaceOrView below;
    staging_ = at::empty({static_cast<int64_t>(count_)}, blocks_.front().options());
    data_ = staging_.data_ptr();
}

std::vector<uint64_t> Buffer::counts() const
{
    std::vector<uint64_t> counts;
    for (const at::Tensor &block : blocks_)
        counts.push_back(static_cast<uint64_t>(block.numel()) * element_.each);
    return counts;
}

bool Buffer::equal_blocks() const
{
    for (const at::Tensor &block : blocks_)
        if (block.numel() != blocks_.front().numel())
            return false;
    return true;
}

/* Calls copy(tensor, its part of the staging buffer) for each block. */
template <typename Copy>
static void for_each_part(const std::vector<at::Tensor> &blocks, const at::Tensor &staging,
                          Copy copy)
{
    at::AutoDispatchBelowADInplaceOrView below;
    int64_t at = 0;
    for (at::Tensor block : blocks) {
        at::Tensor part = staging.narrow(0, at, block.numel()).view(block.sizes());
        copy(block, part);
        at += block.numel();
    }
}

Buffer &Buffer::filled()
{
    if (staged())
        for_each_part(blocks_, staging_,
                      [](at::Tensor &block, at::Tensor &part) { part.copy_(block); });
    return *this;
}

/* A stream of a device, if there is one, has the copies in its order. */
static void deliver_staged(const std::vector<at::Tensor> &blocks, const at::Tensor &staging,
                           const std::optional<c10::Stream> &stream)
{
    const c10::OptionalStreamGuard current(stream);
    for_each_part(blocks, staging, [](at::Tensor &block, at::Tensor &part) { block.copy_(part); });
}

void Buffer::deliver() const
{
    if (staged())
        deliver_staged(blocks_, staging_, stream_);
}

void Buffer::deliver(const c10::Stream &stream) const
{
    if (staged())
        deliver_staged(blocks_, staging_, stream);
}

/* -- on a device ------------------------------------------------------------------------------- */

std::optional<c10::Device> Buffer::device() const
{
    if (blocks_.empty() || blocks_.front().device().is_cpu())
        return std::nullopt;
    return blocks_.front().device();
}

void Buffer::settle() const
{
    if (stream_)
        stream_->synchronize();
}

void Buffer::keep(const c10::Stream &stream) const
{
    gyre_torch::keep(staging_, stream);
    for (const at::Tensor &block : blocks_)
        gyre_torch::keep(block, stream);
}

} // namespace gyre_torch
