/* What torch's profiler is shown of a call beside its name: the event "record_param_comms", as the
 * backends that torch has show it, with the group, the dtype and the elements in and out. */
#pragma once

#include "base/tensors.h"

#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <optional>

namespace gyre_torch
{

/* The ranks of a group as numbers of the whole job: first, first + stride, …; a stride of -1: not
 * so. */
struct Ranks {
    int first, stride;
};

Ranks ranks_of(const std::vector<int64_t> &global_ranks);

/* The group as events name it. */
struct Shower {
    std::tuple<std::string, std::string> name; /* and its description */
    int rank, size;
    Ranks ranks;
};

/* An event for as long as it lives; made without arguments: none. */
class Shown
{
  public:
    Shown() = default;
    Shown(const Shower &group, c10d::OpType type, bool async, uint64_t sequence,
          const std::vector<Buffer> &read, const std::vector<Buffer> &written);

  private:
    std::vector<c10::IValue> values_; /* which the event refers to */
    std::optional<c10::DebugInfoGuard> info_;
    std::optional<at::RecordFunction> event_;
};

} // namespace gyre_torch
