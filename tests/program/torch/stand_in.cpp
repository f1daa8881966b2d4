/* CUDA tensors without a GPU, for devices.py: torch's guard for CUDA, over the stand-in's streams
 * and events, and a few operations on tensors in the stand-in's memory. torch's own kernels do not
 * run on such tensors. */
#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cuda.h>
#include <torch/library.h>

namespace
{

void check(CUresult error)
{
    TORCH_CHECK(!error, "the stand-in for CUDA answers ", static_cast<int>(error));
}

/* The streams of this process: made after its fork, in the context that each thread enters. */
struct Streams {
    CUcontext context = nullptr;
    CUstream used = nullptr, other = nullptr;

    Streams()
    {
        check(cuInit(0));
        check(cuDevicePrimaryCtxRetain(&context, 0));
        check(cuCtxPushCurrent(context));
        check(cuStreamCreate(&used, CU_STREAM_NON_BLOCKING));
        check(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    }
};

Streams &streams()
{
    static Streams *const streams = new Streams;
    static thread_local bool entered = !cuCtxPushCurrent(streams->context);
    TORCH_CHECK(entered);
    return *streams;
}

thread_local CUstream current = nullptr;

CUstream handle(const c10::Stream &stream)
{
    streams();
    return reinterpret_cast<CUstream>(static_cast<intptr_t>(stream.id()));
}

const c10::Device DEVICE(c10::kCUDA, 0);

c10::Stream stream_of(CUstream handle)
{
    return c10::Stream(c10::Stream::UNSAFE, DEVICE,
                       static_cast<c10::StreamId>(reinterpret_cast<intptr_t>(handle)));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override
    {
        return c10::kCUDA;
    }
    c10::Device exchangeDevice(c10::Device) const override
    {
        return DEVICE;
    }
    c10::Device getDevice() const override
    {
        return DEVICE;
    }
    void setDevice(c10::Device) const override
    {
    }
    void uncheckedSetDevice(c10::Device) const noexcept override
    {
    }
    c10::Stream getStream(c10::Device) const override
    {
        return stream_of(current ? current : streams().used);
    }
    c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override
    {
        return stream_of(streams().other);
    }
    c10::Stream exchangeStream(c10::Stream stream) const override
    {
        const c10::Stream before = getStream(DEVICE);
        current = handle(stream);
        return before;
    }
    void *getStreamNativeHandle(const c10::Stream stream) const override
    {
        return handle(stream);
    }
    bool isStreamCapturing(const c10::Stream &) const override
    {
        return false;
    }
    c10::DeviceIndex deviceCount() const noexcept override
    {
        return 1;
    }
    void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override
    {
        cuEventDestroy(static_cast<CUevent>(event));
    }
    void record(void **event, const c10::Stream &stream, const c10::DeviceIndex,
                const c10::EventFlag) const override
    {
        if (!*event)
            check(cuEventCreate(reinterpret_cast<CUevent *>(event), CU_EVENT_DISABLE_TIMING));
        check(cuEventRecord(static_cast<CUevent>(*event), handle(stream)));
    }
    void block(void *event, const c10::Stream &stream) const override
    {
        check(cuStreamWaitEvent(handle(stream), static_cast<CUevent>(event), 0));
    }
    bool queryEvent(void *event) const override
    {
        return !event || cuEventQuery(static_cast<CUevent>(event)) == CUDA_SUCCESS;
    }
    void synchronizeStream(const c10::Stream &stream) const override
    {
        check(cuStreamSynchronize(handle(stream)));
    }
    void recordDataPtrOnStream(const c10::DataPtr &, const c10::Stream &) const override
    {
    }
};

const Guard guard;

CUdeviceptr word(const at::Tensor &tensor)
{
    return reinterpret_cast<CUdeviceptr>(tensor.data_ptr());
}

constexpr size_t PAGES = 65536; /* the stand-in maps what it allocates */

/* A CUDA tensor like one of the host, with its values. It is never freed. */
at::Tensor to_device(const at::Tensor &host)
{
    streams();
    CUdeviceptr memory = 0;
    check(cuMemAlloc(&memory, (host.nbytes() / PAGES + 1) * PAGES));
    check(cuMemcpyAsync(memory, word(host), host.nbytes(), streams().used));
    check(cuStreamSynchronize(streams().used));
    return at::from_blob(
        reinterpret_cast<void *>(memory), host.sizes(), [](void *) {},
        host.options().device(DEVICE), DEVICE);
}

/* After what is on the current stream. */
at::Tensor to_host(const at::Tensor &device)
{
    const c10::Stream stream = guard.getStream(DEVICE);
    at::Tensor host = at::empty(device.sizes(), device.options().device(c10::kCPU));
    check(cuMemcpyAsync(word(host), word(device), host.nbytes(), handle(stream)));
    guard.synchronizeStream(stream);
    return host;
}

/* A copy on the current stream, between tensors of the device. */
void copy(const at::Tensor &to, const at::Tensor &from)
{
    check(cuMemcpyAsync(word(to), word(from), from.nbytes(), handle(guard.getStream(DEVICE))));
}

} // namespace

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

TORCH_LIBRARY(gyre_stand_in, library)
{
    library.def("to_device", &to_device);
    library.def("to_host", &to_host);
    library.def("copy", &copy);
}
