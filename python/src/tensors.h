/* Tensors as Gyre takes them: an address, a number of elements and their type.
 *
 * Gyre reads and writes elements that lie one behind the other in the host's memory. A tensor that
 * is laid out otherwise is staged: it is copied into one that is, before the operation, and back
 * into place after it. */
#pragma once

#include <ATen/ATen.h>
#include <gyre/gyre.h>

#include <string>
#include <vector>

namespace gyre_torch
{

/* How Gyre counts the elements of a dtype: `type`, and how many of those make one. */
struct Element {
    gyre_type type;
    uint64_t each;
};

/* For operations that only move elements: every dtype has one. */
Element element_of(const at::Tensor &tensor);

/* Throws unless the host's memory holds the tensor, and densely. */
void check_place(const std::string &call, const at::Tensor &tensor);

/* The memory of one tensor, or of several that together are one buffer, block behind block. */
class Buffer
{
  public:
    Buffer() = default;

    /* Of one tensor. */
    Buffer(const std::string &call, const at::Tensor &tensor);

    /* Of several tensors of one dtype. They are not copied where they lie behind each other. */
    Buffer(const std::string &call, const std::vector<at::Tensor> &blocks);

    void *data() const
    {
        return data_;
    }

    gyre_type type() const
    {
        return element_.type;
    }

    /* How many of Gyre's elements make one of the tensors'. */
    uint64_t each() const
    {
        return element_.each;
    }

    /* Gyre's elements of all blocks together. */
    uint64_t count() const
    {
        return count_;
    }

    const std::vector<at::Tensor> &tensors() const
    {
        return blocks_;
    }

    /* Gyre's elements of each block. */
    std::vector<uint64_t> counts() const;

    bool equal_blocks() const;

    /* Copies what the tensors hold to where the operation reads it; nothing where it is there. */
    Buffer &filled();

    bool staged() const
    {
        return staging_.defined();
    }

    /* Copies what the operation has written to where the tensors are; nothing where it is there. */
    void deliver() const;

  private:
    void stage();

    std::vector<at::Tensor> blocks_;
    at::Tensor staging_; /* one dimension; undefined: the tensors' own memory serves */
    void *data_ = nullptr;
    Element element_ = {GYRE_U8, 1};
    uint64_t count_ = 0;
};

/* The dtype, the number of elements and the place of two tensors of one operation must agree. */
void check_alike(const std::string &call, const at::Tensor &one, const at::Tensor &other);

} // namespace gyre_torch
