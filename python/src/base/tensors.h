/* Tensors as Gyre takes them: an address, a number of elements and their type.
 *
 * Gyre reads and writes elements that lie one behind the other in the memory of the host or of a
 * device. A tensor that is laid out otherwise is staged: it is copied into one that is, before the
 * operation, and back into place after it; on a device in the order of a stream. */
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Stream.h>
#include <gyre/gyre.h>

#include <optional>
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

/* Throws unless the memory of the host or of a CUDA device holds the tensor, and densely. */
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

    /* Copies what the operation has written to where the tensors are; nothing where it is there.
     * On a device: on the stream that was current when the buffer was made, or another one. */
    void deliver() const;
    void deliver(const c10::Stream &stream) const;

    /* The CUDA device where the tensors are; none: they are the host's. */
    std::optional<c10::Device> device() const;

    /* The host waits for what is on the stream that was current when the buffer was made. */
    void settle() const;

    /* Keeps the memory until a stream has come past now. */
    void keep(const c10::Stream &stream) const;

  private:
    void stage();

    std::vector<at::Tensor> blocks_;
    std::optional<c10::Stream> stream_; /* none: the host's memory */
    at::Tensor staging_; /* one dimension; undefined: the tensors' own memory serves */
    void *data_ = nullptr;
    Element element_ = {GYRE_U8, 1};
    uint64_t count_ = 0;
};

/* The dtype, the number of elements and the place of two tensors of one operation must agree. */
void check_alike(const std::string &call, const at::Tensor &one, const at::Tensor &other);

} // namespace gyre_torch
