/* Tested by tests/program/torch/seen.py. */
#include "calls/profile.h"

#include <algorithm>
#include <cctype>

namespace gyre_torch
{

using Info = torch::ParamCommsDebugInfo;

Ranks ranks_of(const std::vector<int64_t> &global_ranks)
{
    if (global_ranks.size() < 2)
        return {global_ranks.empty() ? 0 : static_cast<int>(global_ranks[0]), 1};
    const int64_t stride = global_ranks[1] - global_ranks[0];
    for (size_t i = 1; i < global_ranks.size(); i++)
        if (global_ranks[i] - global_ranks[i - 1] != stride)
            return {static_cast<int>(global_ranks[0]), -1};
    return {static_cast<int>(global_ranks[0]), static_cast<int>(stride)};
}

/* "allreduce", "_allgather_base": the words that tools for traces look for. */
static std::string word_of(c10d::OpType type)
{
    std::string word = c10d::opTypeToString(type);
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    return word;
}

static std::vector<at::Tensor> tensors_of(const std::vector<Buffer> &buffers)
{
    std::vector<at::Tensor> tensors;
    for (const Buffer &buffer : buffers)
        tensors.insert(tensors.end(), buffer.tensors().begin(), buffer.tensors().end());
    return tensors;
}

static int64_t elements_of(const std::vector<at::Tensor> &tensors)
{
    int64_t elements = 0;
    for (const at::Tensor &tensor : tensors)
        elements += tensor.numel();
    return elements;
}

/* Whether the caller waits is told by versions that can. */
template <typename... Arguments>
static std::shared_ptr<Info> make_info(bool async, Arguments... arguments)
{
    if constexpr (std::is_constructible_v<Info, Arguments..., bool>)
        return std::make_shared<Info>(std::move(arguments)..., async);
    else
        return std::make_shared<Info>(std::move(arguments)...);
}

template <typename T>
static auto set_sequence(T &info, int64_t sequence, int) -> decltype(info.setSequenceInfo(0, false))
{
    info.setSequenceInfo(sequence, false);
}

template <typename T> static void set_sequence(T &, int64_t, long)
{
}

template <typename... Values>
static void fill_values(std::vector<c10::IValue> &into, const Values &...values)
{
    (into.emplace_back(values), ...);
}

Shown::Shown(const Shower &group, c10d::OpType type, bool async, uint64_t sequence,
             const std::vector<Buffer> &read, const std::vector<Buffer> &written)
{
    const auto inputs = tensors_of(read.empty() ? written : read);
    const auto outputs = tensors_of(written.empty() ? read : written);
    const std::vector<int64_t> none;
    const auto number = static_cast<int64_t>(sequence);
    const auto dtype = inputs.empty() ? at::kByte : inputs.front().scalar_type();
    const std::shared_ptr<Info> info = make_info(
        async, group.name, group.rank, word_of(type), elements_of(inputs), elements_of(outputs),
        dtype, none, none, group.ranks.first, group.ranks.stride, group.size);
    set_sequence(*info, number, 0);
    info_.emplace(c10::DebugInfoKind::PARAM_COMMS_INFO, info);
    event_.emplace(at::RecordScope::FUNCTION);
    if (!event_->isActive())
        return;
    fill_values(values_, inputs, std::make_tuple(number, false), group.name, group.rank,
                word_of(type), none, none, group.ranks.first, group.ranks.stride, group.size,
                async);
    event_->before(at::kParamCommsCallName,
                   c10::ArrayRef<const c10::IValue>(values_.data(), values_.size()));
    if (event_->needsOutputs())
        event_->setOutputs(std::vector<c10::IValue>(1, c10::IValue(outputs)));
}

} // namespace gyre_torch
