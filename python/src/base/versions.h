/* What torch's versions, from 2.4 on, differ in. The other files are written for the newest torch.
 * What an older one lacks is found out here, by asking for it by its name.
 *
 * A virtual function that only newer versions have is declared here once more. In a version that
 * has it, the declaration overrides torch's; in another one nobody calls it. */
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <functional>
#include <type_traits>
#include <utility>

namespace c10d
{
struct CompletionHookArgs; /* of newer versions */
}

namespace gyre_torch
{

using WorkRef = c10::intrusive_ptr<c10d::Work>;

/* -- options ----------------------------------------------------------------------------------- */

template <typename Options, typename = void> struct has_async_op : std::false_type {
};
template <typename Options>
struct has_async_op<Options, std::void_t<decltype(std::declval<Options &>().asyncOp)>>
    : std::true_type {
};

/* False where the caller wants the blocking call and no Work. Versions whose all-reduce cannot say
 * so expect a Work of each call. */
template <typename Options> bool is_async(const Options &options)
{
    if constexpr (has_async_op<c10d::AllreduceOptions>::value && has_async_op<Options>::value)
        return options.asyncOp;
    return true;
}

/* -- the names in options of a group -- */

template <typename Options, typename = void> struct has_group_name : std::false_type {
};
template <typename Options>
struct has_group_name<Options, std::void_t<decltype(std::declval<Options &>().group_name)>>
    : std::true_type {
};

template <typename Options>
void name_group(Options &options, const std::string &name, const std::vector<int64_t> &ranks)
{
    if constexpr (has_group_name<Options>::value) {
        options.group_name = name;
        options.global_ranks_in_group.assign(ranks.begin(), ranks.end());
    }
}

/* "" where the version tells none. */
template <typename Options> std::string group_name_of(const Options &options)
{
    if constexpr (has_group_name<Options>::value)
        return options.group_name;
    return "";
}

/* -- types ------------------------------------------------------------------------------------- */

template <typename Backend, typename = void> struct error_of {
    enum class type { SUCCESS, TIMEOUT, COMM_ERROR, REMOTE_ERROR };
};
template <typename Backend>
struct error_of<Backend, std::void_t<decltype(std::declval<Backend &>().getError())>> {
    using type = decltype(std::declval<Backend &>().getError());
};

/* What Backend::getError() returns. */
using ErrorType = error_of<c10d::Backend>::type;

/* -- hooks ------------------------------------------------------------------------------------- */

/* A number that no other Work of this process has. */
inline uint64_t next_completion_key()
{
    static std::atomic<uint64_t> last{0};
    return ++last;
}

/* Calls hooks of Works that have ended, which only newer versions add. */
template <typename Hooks> void tell_completion(const Hooks &hooks, uint64_t key)
{
#ifdef C10D_BACKEND_HAS_HOOKS
    hooks.call(c10d::CompletionHookArgs{key, std::nullopt});
#endif
}

/* -- virtual functions ------------------------------------------------------------------------- */

class AnyBackend : public c10d::Backend
{
  public:
    using Backend::Backend;

    /* -- the newer names of collectives -- */

    virtual WorkRef all_gather_single(at::Tensor &output, at::Tensor &input,
                                      const c10d::AllgatherOptions &options)
    {
        return _allgather_base(output, input, options);
    }
    virtual WorkRef all_gather_single_coalesced(std::vector<at::Tensor> &outputs,
                                                std::vector<at::Tensor> &inputs,
                                                const c10d::AllgatherOptions &options)
    {
        return allgather_into_tensor_coalesced(outputs, inputs, options);
    }
    virtual WorkRef gather_single(at::Tensor &output, at::Tensor &input,
                                  const c10d::GatherOptions &options)
    {
        return gather_into_tensor(output, input, options);
    }
    virtual WorkRef reduce_scatter_single(at::Tensor &output, at::Tensor &input,
                                          const c10d::ReduceScatterOptions &options)
    {
        return _reduce_scatter_base(output, input, options);
    }
    virtual WorkRef reduce_scatter_single_coalesced(std::vector<at::Tensor> &outputs,
                                                    std::vector<at::Tensor> &inputs,
                                                    const c10d::ReduceScatterOptions &options)
    {
        return reduce_scatter_tensor_coalesced(outputs, inputs, options);
    }
    virtual WorkRef all_to_all_single(at::Tensor &output, at::Tensor &input,
                                      std::vector<int64_t> &output_splits,
                                      std::vector<int64_t> &input_splits,
                                      const c10d::AllToAllOptions &options)
    {
        return alltoall_base(output, input, output_splits, input_splits, options);
    }

    /* -- the group itself -- */

    virtual WorkRef gather_into_tensor(at::Tensor &output, at::Tensor &input,
                                       const c10d::GatherOptions &options) = 0;
    virtual c10::intrusive_ptr<Options> getBackendOptions() = 0;
    virtual void setTimeout(std::chrono::milliseconds timeout) = 0;
    virtual ErrorType getError() = 0;
    virtual bool supportsAbortHooks() const = 0;
    virtual void registerAbortHook(int64_t id, std::function<void()> hook) = 0;
    virtual void unregisterAbortHook(int64_t id) = 0;
    virtual bool supportsCompletionHooks() const = 0;
    virtual void registerCompletionHook(
        int64_t id, std::function<void(const c10d::CompletionHookArgs &)> hook) = 0;
    virtual void unregisterCompletionHook(int64_t id) = 0;
    virtual void abort() = 0;
    virtual void shutdown() = 0;
    virtual c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store> &store,
                                              const std::vector<int> &ranks,
                                              const c10::intrusive_ptr<Options> &options) = 0;
    virtual c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
                                              const c10::intrusive_ptr<Options> &options,
                                              const int &rank, const int &size) = 0;
    virtual bool supportsShrinking() const = 0;
    virtual c10::intrusive_ptr<Backend> shrink(const std::vector<int64_t> &excluded, int flags,
                                               const c10::intrusive_ptr<Options> &options) = 0;
    virtual bool supportsTensorAlloc(c10::DeviceIndex device) = 0;
    virtual at::Tensor allocateTensor(long size, at::TensorOptions options) = 0;
};

class AnyWork : public c10d::Work
{
  public:
    using Work::Work;

    virtual std::chrono::milliseconds getTimeout() const = 0;
    virtual uint64_t getCompletionKey() const = 0;
};

} // namespace gyre_torch
