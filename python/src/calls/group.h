/* A group of ranks as a backend of torch.distributed: what init_process_group("gyre") and
 * new_group() make.
 *
 * The group translates and holds no algorithm. Each collective is one call of Gyre:
 *
 *     asyncOp=False       the blocking call, in the thread of the caller; there is no Work, unless
 *                         torch has hooks that are told of it
 *     asyncOp=True        the starting call; its handle is in a Task, the Task in a Work
 *     between             the starting call, collected with others by a group of Gyre's calls;
 *     start_coalescing    one Work for all
 *     and end_coalescing
 *
 * Tensors of a CUDA device take the call in the order of a stream, where Gyre has one for the
 * collective: that of the caller, or with asyncOp=True the group's own, which follows it. Other
 * calls first wait on the host for the caller's stream. */
#pragma once

#include "base/versions.h"
#include "calls/profile.h"
#include "work/device_work.h"
#include "work/work.h"

#include <atomic>
#include <set>
#include <thread>

namespace gyre_torch
{

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<std::vector<at::Tensor>>;

/* A call that is about to be made. */
struct Operation {
    const char *call;  /* its name in messages */
    const char *title; /* its name in torch's profiler */
    c10d::OpType type;
    bool async;
    std::chrono::milliseconds timeout; /* kUnsetTimeout: the group's */
    bool at_once = false;              /* it cannot go on beside others, so it is waited for */
    std::vector<Buffer> read = {}, written = {};
    Tensors outputs = {};                              /* what its Work gives as result */
    std::shared_ptr<gyre_received> received = nullptr; /* of a message from any rank */
};

class Group final : public AnyBackend
{
  public:
    /* A group that is not `formed` has no ranks until reconfigure() names them. */
    Group(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, const std::string &name,
          std::chrono::milliseconds timeout, const std::vector<int64_t> &global_ranks, bool formed);
    ~Group() override;

    /* -- calls.cpp: one tensor on each side -- */
    WorkRef allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkRef broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    WorkRef reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
    WorkRef _allgather_base(at::Tensor &output, at::Tensor &input,
                            const c10d::AllgatherOptions &options) override;
    WorkRef _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &options) override;
    WorkRef alltoall_base(at::Tensor &output, at::Tensor &input,
                          std::vector<int64_t> &output_splits, std::vector<int64_t> &input_splits,
                          const c10d::AllToAllOptions &options) override;
    WorkRef gather_into_tensor(at::Tensor &output, at::Tensor &input,
                               const c10d::GatherOptions &options) override;
    WorkRef barrier(const c10d::BarrierOptions &options) override;

    /* -- lists.cpp: a tensor for each rank -- */
    WorkRef allgather(TensorLists &outputs, Tensors &inputs,
                      const c10d::AllgatherOptions &options) override;
    WorkRef gather(TensorLists &outputs, Tensors &inputs,
                   const c10d::GatherOptions &options) override;
    WorkRef scatter(Tensors &outputs, TensorLists &inputs,
                    const c10d::ScatterOptions &options) override;
    WorkRef reduce_scatter(Tensors &outputs, TensorLists &inputs,
                           const c10d::ReduceScatterOptions &options) override;
    WorkRef alltoall(Tensors &outputs, Tensors &inputs,
                     const c10d::AllToAllOptions &options) override;

    /* -- coalesced.cpp: several calls as one -- */
    void startCoalescing() override;
    WorkRef endCoalescing() override;
    WorkRef allreduce_coalesced(Tensors &tensors,
                                const c10d::AllreduceCoalescedOptions &options) override;
    WorkRef allgather_coalesced(TensorLists &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &options) override;
    WorkRef allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &options) override;
    WorkRef reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &options) override;

    /* -- messages.cpp -- */
    WorkRef send(Tensors &tensors, int rank, int tag) override;
    WorkRef recv(Tensors &tensors, int rank, int tag) override;
    WorkRef recvAnysource(Tensors &tensors, int tag) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

    /* -- sparse.cpp: tensors of indices and values -- */
    WorkRef allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) override;

    /* -- members.cpp: ranks that change; not beside other calls -- */
    bool supportsShrinking() const override;
    c10::intrusive_ptr<Backend> shrink(const std::vector<int64_t> &excluded, int flags,
                                       const c10::intrusive_ptr<Options> &options) override;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
    bool supportsReconfigure() const override;
    bool isInitialized() override;
    c10d::ReconfigureHandle get_reconfigure_handle() const override;
    WorkRef reconfigure(const c10d::ReconfigureOptions &options) override;
#endif

    /* -- group.cpp: the group itself -- */
    const std::string getBackendName() const override;
    c10::intrusive_ptr<Options> getBackendOptions() override;
    uint64_t getSequenceNumberForGroup() override;
    void setTimeout(std::chrono::milliseconds timeout) override;
    ErrorType getError() override;
    bool supportsAbortHooks() const override;
    void registerAbortHook(int64_t id, AbortHook hook) override;
    void unregisterAbortHook(int64_t id) override;
    bool supportsCompletionHooks() const override;
    void registerCompletionHook(int64_t id, CompletionHook hook) override;
    void unregisterCompletionHook(int64_t id) override;
    void abort() override;
    void shutdown() override;
    bool supportsSplitting() const override;
    c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store> &store,
                                      const std::vector<int> &ranks,
                                      const c10::intrusive_ptr<Options> &options) override;
    c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
                                      const c10::intrusive_ptr<Options> &options, const int &rank,
                                      const int &size) override;
    bool supportsTensorAlloc(c10::DeviceIndex device) override;
    at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  private:
    class Coalescing;

    template <auto Run, auto Start, auto On = nullptr, typename... Arguments>
    WorkRef call(Operation &operation, Arguments... arguments);
    template <auto On, typename... Arguments>
    WorkRef launch(Operation &operation, const c10::Device &device, Arguments... arguments);
    template <auto Run, typename... Arguments>
    void run(Operation &operation, Arguments... arguments);
    template <auto Start, typename... Arguments>
    std::shared_ptr<Task> start(Operation &operation, Arguments... arguments);
    bool wants_work(const Operation &operation) const;
    WorkRef finish_start(const Operation &operation, std::shared_ptr<Task> task);
    WorkRef new_work(const Operation &operation, std::shared_ptr<Task> task);
    std::chrono::milliseconds limit_of(const Operation &operation) const;
    WorkRef reduce_to_each(Tensors &outputs, const Tensors &list,
                           const c10d::ReduceScatterOptions &options);
    WorkRef all_reduce_sparse(Operation &operation, at::Tensor &tensor,
                              const c10d::ReduceOp &reduction);
    at::Tensor sum_of_entries(const char *call, const at::Tensor &entries);
    at::Tensor gather_rows(const char *call, const at::Tensor &rows,
                           const std::vector<int64_t> &counts);
    std::vector<int> await_arrivals(std::chrono::milliseconds timeout, bool all);
    void release_all();
    void arrive(std::chrono::milliseconds timeout);
    bool coalesces() const;
    std::vector<int64_t> global_ranks_of(const std::vector<int> &ranks) const;
    Shown show(const Operation &operation);
    std::optional<c10::Device> device_of(const Operation &operation) const;
    void settle(const Operation &operation) const;
    void keep(const Operation &operation, const c10::Stream &stream) const;
    c10::Stream own_stream(const c10::Device &device);
    WorkRef on_stream(const Operation &operation, const c10::Stream &stream);
    void check_count(const char *call, size_t given) const;
    void check_root(const char *call, int64_t root) const;

    const c10::intrusive_ptr<c10d::Store> store_; /* where the ranks meet */
    std::shared_ptr<Communicator> communicator_;
    std::shared_ptr<Completion> completion_;
    const c10::intrusive_ptr<Options> options_;
    const std::string name_;
    std::vector<int64_t> global_ranks_;
    std::atomic<std::chrono::milliseconds> timeout_;
    std::atomic<uint64_t> sequence_{0};
    std::atomic<std::thread::id> coalescer_{}; /* the thread whose calls are collected */
    std::shared_ptr<Task> coalesced_;          /* what it has collected: used by it alone */
    int shrinks_ = 0;
    std::set<int64_t> uuids_; /* of the calls of reconfigure() so far */
    mutable std::mutex handle_lock_;
    mutable std::string handle_; /* under handle_lock_; empty: nobody has asked for it */
    std::mutex streams_;         /* of those below */
    std::optional<c10::Stream> own_stream_;
    std::deque<std::shared_ptr<DeviceWork::Mark>> marks_; /* of calls on streams */
};

} // namespace gyre_torch
