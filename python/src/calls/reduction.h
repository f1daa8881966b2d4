/* torch's ReduceOp as Gyre's, for the elements of one tensor. */
#pragma once

#include "base/communicator.h"
#include "base/tensors.h"

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace gyre_torch
{

class Reduction
{
  public:
    /* Throws where the dtype cannot be reduced so. A sum whose inputs are multiplied first holds a
     * handle of the communicator, which must live as long as this. */
    Reduction(const char *call, Communicator &communicator, const c10d::ReduceOp &op,
              const at::Tensor &tensor);
    ~Reduction();
    Reduction(const Reduction &) = delete;
    Reduction &operator=(const Reduction &) = delete;

    gyre_op op() const
    {
        return op_;
    }

    /* Whether it holds a handle. Ranks must make and free handles in one order, so an operation
     * with one is waited for. */
    bool holds() const
    {
        return op_ >= GYRE_OP_FIRST_HANDLE;
    }

  private:
    void hold(const char *call, const c10d::ReduceOp &op, const at::Tensor &tensor);

    Communicator &communicator_;
    gyre_op op_ = GYRE_SUM;
};

} // namespace gyre_torch
