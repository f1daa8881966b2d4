/* Tested by tests/program/torch/devices.py. */
#include "base/device.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <pybind11/pybind11.h>

#include <type_traits>

namespace gyre_torch
{

using Guards = c10::impl::VirtualGuardImpl;

/* The name of the default stream: CUDA's cudaStreamLegacy. Gyre does not take it as NULL. */
static void *const LEGACY = reinterpret_cast<void *>(uintptr_t{1});

c10::Stream current_stream(const c10::Device &device)
{
    return Guards(device.type()).getStream(device);
}

c10::Stream another_stream(const c10::Device &device)
{
    return Guards(device.type()).getStreamFromGlobalPool(device, true);
}

/* Older versions tell the handle of the current stream only, and only to Python. */
template <typename Any> static auto raw_handle(const Any &, const c10::Stream &stream, long)
{
    const c10::StreamGuard current(stream);
    const pybind11::gil_scoped_acquire held;
    const auto ask = pybind11::module_::import("torch._C").attr("_cuda_getCurrentRawStream");
    return reinterpret_cast<void *>(ask(stream.device_index()).cast<uintptr_t>());
}

template <typename Any>
static auto raw_handle(const Any &guards, const c10::Stream &stream, int)
    -> decltype(guards.getStreamNativeHandle(stream))
{
    return guards.getStreamNativeHandle(stream);
}

void *handle_of(const c10::Stream &stream)
{
    void *handle = raw_handle(Guards(stream.device_type()), stream, 0);
    return handle ? handle : LEGACY;
}

void follow(const c10::Stream &later, const c10::Stream &stream)
{
    c10::Event event(stream.device_type());
    event.record(stream);
    event.block(later);
}

void keep(const at::Tensor &tensor, const c10::Stream &stream)
{
    at::AutoDispatchBelowADInplaceOrView below;
    if (tensor.defined() && tensor.numel())
        tensor.record_stream(stream);
}

void settle(const c10::Device &device)
{
    if (!device.is_cpu())
        current_stream(device).synchronize();
}

} // namespace gyre_torch
