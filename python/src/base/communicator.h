/* A communicator of Gyre, for as long as anything of torch's uses it.
 *
 *     Group ─┐
 *     Task  ─┼─ shared_ptr ─► Communicator ─► gyre_comm
 *     memory ┘
 *
 * close() ends it for its users. It says goodbye to the other ranks then, or, where tensors still
 * lie in its memory, when the last of these is freed. */
#pragma once

#include "base/hooks.h"

#include <ATen/ATen.h>
#include <gyre/gyre.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

namespace gyre_torch
{

class Communicator : public std::enable_shared_from_this<Communicator>
{
  public:
    /* Meets the other ranks in the store, and waits for them at most for `patience`. Throws what
     * gyre_init() tells, and what the store has thrown. `timeout` limits each operation. */
    static std::shared_ptr<Communicator> join(const c10::intrusive_ptr<c10d::Store> &store,
                                              int rank, int size, const std::string &name,
                                              std::chrono::milliseconds patience,
                                              std::chrono::milliseconds timeout);

    /* One without ranks, which nobody can use. */
    static std::shared_ptr<Communicator> unformed(const std::string &name,
                                                  std::chrono::milliseconds timeout);

    ~Communicator();
    Communicator(const Communicator &) = delete;
    Communicator &operator=(const Communicator &) = delete;

    /* The right to call Gyre, which close() waits to get back. Throws where the communicator was
     * closed. */
    class Use
    {
      public:
        Use(Communicator &communicator, const char *call);

        operator gyre_comm *() const
        {
            return comm_;
        }

      private:
        std::shared_lock<std::shared_mutex> held_;
        gyre_comm *comm_;
    };

    bool formed() const
    {
        return comm_ != nullptr;
    }

    const std::string &name() const
    {
        return name_;
    }

    /* The limit of one operation, which Gyre keeps. */
    std::chrono::milliseconds timeout() const
    {
        return timeout_;
    }

    /* Throws a failed status with its story. */
    [[noreturn]] void fail(const char *call, int status) const;

    /* This rank's CUDA device; negative: none. */
    int device() const
    {
        return device_;
    }

    /* Throws unless this rank's CUDA device is that one. */
    void check_device(const char *call, const c10::Device &device) const;

    /* What torch wants to be told. */
    Hooks<AbortHook> abort_hooks;
    Hooks<CompletionHook> completion_hooks;

    /* Throws the communicator's failure, if it has one and was not closed. */
    void check(const char *call);

    /* The communicator's failure so far; 0: none. */
    int status();

    /* Ends all operations on all ranks. */
    void abort(const std::string &reason);

    /* Has close() abort first, because an operation that nobody waits for any more would keep it
     * from ending. */
    void give_up(const std::string &reason);

    /* Aborts now if close() would. */
    void abort_if_given_up();

    void close();

    /* Frees a reduction's handle, unless the communicator was closed, which frees all. */
    void free_op(gyre_op op);

    /* A tensor in memory that the ranks of this machine share, of the host or of this rank's
     * device. */
    at::Tensor allocate(int64_t count, const at::TensorOptions &options);

    /* Closes all communicators of the process, and frees their memory even where tensors use it:
     * for its end. With a reason they are aborted. */
    static void close_all(const std::string &reason);

    /* True in a process that has the communicator from its parent by fork(). */
    bool forked() const;

  private:
    Communicator(gyre_comm *comm, std::string name, std::chrono::milliseconds timeout);
    void finalize();
    void release(void *memory, const c10::Device &device);

    gyre_comm *const comm_; /* null: unformed, and so closed from the beginning */
    const std::string name_;
    const std::chrono::milliseconds timeout_;
    const int device_;
    const int generation_; /* of the process, counted by forks */
    std::shared_mutex use_;
    bool closed_ = false, ended_ = false; /* under use_ */
    std::mutex memory_;
    int64_t tensors_ = 0; /* under memory_: how many lie in its memory */
    std::string reason_;  /* under memory_: why close() aborts; empty: it does not */
};

} // namespace gyre_torch
