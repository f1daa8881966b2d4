/* Functions of torch's that a group calls when it has failed, and when a Work has ended well: the
 * flight recorder is filled and written by them. Versions of torch without them add none. */
#pragma once

#include "base/versions.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>

namespace gyre_torch
{

using AbortHook = std::function<void()>;
using CompletionHook = std::function<void(const c10d::CompletionHookArgs &)>;

/* Whether a failure is to be followed by a file of the flight recorder's. torch takes seconds to
 * name the stacks in it, and the exception comes after that: so the user asks for it, by one of
 * torch's own variables. */
inline bool wants_dump()
{
    for (const char *name : {"TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT"}) {
        const char *const value = std::getenv(name);
        if (value && *value)
            return std::strchr("1tTyY", *value);
    }
    return false;
}

/* One kind of hooks. They are called without the lock, because they may remove themselves. */
template <typename Hook> class Hooks
{
  public:
    void add(int64_t id, Hook hook)
    {
        const std::lock_guard<std::mutex> hold(lock_);
        hooks_[id] = std::move(hook);
        any_ = true;
    }

    void remove(int64_t id)
    {
        const std::lock_guard<std::mutex> hold(lock_);
        hooks_.erase(id);
        any_ = !hooks_.empty();
    }

    bool any() const
    {
        return any_.load(std::memory_order_relaxed);
    }

    template <typename... Arguments> void call(const Arguments &...arguments) const
    {
        for (const auto &hook : copied())
            hook.second(arguments...);
    }

  private:
    std::map<int64_t, Hook> copied() const
    {
        const std::lock_guard<std::mutex> hold(lock_);
        return hooks_;
    }

    mutable std::mutex lock_;
    std::map<int64_t, Hook> hooks_;
    std::atomic<bool> any_{false};
};

} // namespace gyre_torch
