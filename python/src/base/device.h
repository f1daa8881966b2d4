/* CUDA devices, by way of torch's guards, which know streams and events of any device: no header of
 * CUDA is needed, and a torch without CUDA compiles this, too. */
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace gyre_torch
{

/* The stream that the calling thread uses. */
c10::Stream current_stream(const c10::Device &device);

/* One of the streams that torch keeps for whoever asks. */
c10::Stream another_stream(const c10::Device &device);

/* What Gyre takes: a cudaStream_t. */
void *handle_of(const c10::Stream &stream);

/* What is put on `later` from now on runs after what is on `stream` now. */
void follow(const c10::Stream &later, const c10::Stream &stream);

/* Keeps the memory of a tensor from being used anew before the stream has come past now. */
void keep(const at::Tensor &tensor, const c10::Stream &stream);

/* Waits until the memory of a device is at rest: for the memory's end. */
void settle(const c10::Device &device);

} // namespace gyre_torch
