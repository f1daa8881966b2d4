/* Tested by tests/program/torch/tensors.py. */
#include "calls/reduction.h"

#include "base/failure.h"

namespace gyre_torch
{

using Kind = c10d::ReduceOp::RedOpType;

static const char *name_of(Kind kind)
{
    static const char *const names[] = {"SUM",  "AVG", "PRODUCT", "MIN",       "MAX",
                                        "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
    return kind < sizeof names / sizeof *names ? names[kind] : "UNUSED";
}

[[noreturn]] static void refuse_for(const char *call, Kind kind, const at::Tensor &tensor)
{
    refuse(call, c10::str("ReduceOp.", name_of(kind), " is not for elements of type ",
                          tensor.scalar_type()));
}

/* A bool is a byte of 0 or 1, which these reductions keep. A sum of bools is whether any is true,
 * as with NCCL. */
static gyre_op op_of_bools(const char *call, Kind kind, const at::Tensor &tensor)
{
    switch (kind) {
    case Kind::SUM:
    case Kind::MAX:
    case Kind::BOR:
        return GYRE_MAX;
    case Kind::PRODUCT:
    case Kind::MIN:
    case Kind::BAND:
        return GYRE_MIN;
    case Kind::BXOR:
        return GYRE_XOR;
    default:
        refuse_for(call, kind, tensor);
    }
}

static gyre_op op_of_numbers(const char *call, Kind kind, const at::Tensor &tensor)
{
    switch (kind) {
    case Kind::SUM:
        return GYRE_SUM;
    case Kind::AVG:
        return GYRE_AVG;
    case Kind::PRODUCT:
        return GYRE_PROD;
    case Kind::MIN:
        return GYRE_MIN;
    case Kind::MAX:
        return GYRE_MAX;
    case Kind::BAND:
        return GYRE_AND;
    case Kind::BOR:
        return GYRE_OR;
    case Kind::BXOR:
        return GYRE_XOR;
    default:
        refuse_for(call, kind, tensor);
    }
}

static bool is_bitwise(Kind kind)
{
    return kind == Kind::BAND || kind == Kind::BOR || kind == Kind::BXOR;
}

/* What Gyre has no arithmetic for is carried as bytes, which must not be reduced. The parts of
 * complex numbers can be summed. */
static void check_kind(const char *call, Kind kind, const at::Tensor &tensor)
{
    const bool complex = tensor.is_complex();
    const bool sums = kind == Kind::SUM || kind == Kind::AVG;
    const bool bytes = element_of(tensor).type == GYRE_U8 && tensor.scalar_type() != at::kByte;
    if (bytes || (complex && !sums) || (tensor.is_floating_point() && is_bitwise(kind)))
        refuse_for(call, kind, tensor);
}

Reduction::Reduction(const char *call, Communicator &communicator, const c10d::ReduceOp &op,
                     const at::Tensor &tensor)
    : communicator_(communicator)
{
    if (tensor.scalar_type() == at::kBool) {
        op_ = op_of_bools(call, op.op_, tensor);
        return;
    }
    if (op.op_ == Kind::PREMUL_SUM) {
        hold(call, op, tensor);
        return;
    }
    check_kind(call, op.op_, tensor);
    op_ = op_of_numbers(call, op.op_, tensor);
}

void Reduction::hold(const char *call, const c10d::ReduceOp &op, const at::Tensor &tensor)
{
    const auto *factor = dynamic_cast<c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
    if (!factor || !tensor.is_floating_point())
        refuse_for(call, op.op_, tensor);
    const at::Tensor scalar =
        factor->tensor_factor.defined()
            ? factor->tensor_factor.to(at::kCPU, tensor.scalar_type()).contiguous()
            : at::full({1}, factor->double_factor, tensor.options().device(at::kCPU));
    const Communicator::Use comm(communicator_, call);
    const int status = gyre_op_scaled(comm, scalar.data_ptr(), element_of(tensor).type, &op_);
    if (status)
        communicator_.fail(call, status);
}

Reduction::~Reduction()
{
    if (holds())
        communicator_.free_op(op_);
}

} // namespace gyre_torch
