/* Folds of CUDA memory: one pass over n sources into m destinations, every type and operation.
 *
 * A kernel moves 16 bytes at a time, a pack, wherever all of a task's addresses lie equally far
 * from a multiple of 16, counted in elements. The elements in front of the first pack and behind
 * the last pack are the edges. Where addresses differ, all elements are edges:
 *
 *     source[0]       e e|p p p p|p p p p|p p p p|e          e edge   p element of a pack
 *     source[1]       e e|p p p p|p p p p|p p p p|e
 *     destination[0]  e e|p p p p|p p p p|p p p p|e
 *
 * Each thread takes several packs at once, one block apart. The loads of a whole batch are then
 * under way before the first is needed. A grid that fills the device strides over the rest:
 *
 *     thread     0   1   2 … 255   0   1   2 … 255   0 …        0   1 …
 *     pack       0   1   2 … 255 256 257 258 … 511 512 …     1024 1025 …
 *               └────────── a batch of block 0, UNROLL = 4 ──┘└─ block 1
 *
 * The edges, at most 30, are left to the last threads, which rarely have a pack.
 *
 * A thread reads an element of all sources before writing the element, and no other thread touches
 * the element. A destination may therefore be a source. A kernel gets all it needs in its arguments
 * (1 KiB of addresses, and for multiples the numbers): nothing is copied to the device, and nothing
 * outlives the launch.
 *
 * A late fold has its addresses in a table, which the host fills while the kernel waits on its
 * stream for its turn. Each block copies the table first.
 *
 * A cast reads elements of one type and writes those of another: a unit is then a pack of the
 * narrower type and two packs of the wider.
 *
 * The bits are those of the scalar reference (reduce_cpu.c, scale.c, cast.c): the same order of
 * sources, the same accumulators, one rounding. No product is fused with the sum behind it: the
 * compiler is told -fmad=false. tests/kernel/reduce --device cuda compares. */
#include "collectives/kernels/reduce_cuda.h"

#include "collectives/kernels/cuda_numbers.h"

#include <atomic>
#include <cstddef>

#define THREADS 256
/* 1,024 threads of 64 registers, which every device of compute capability 7.5 or more holds. */
#define BLOCKS_PER_SM 4
/* A late fold needs a few registers more: with 64 some spill. */
#define LATE_BLOCKS_PER_SM 3
#define PACK_BYTES         16
#define LANES_BYTES        192 /* of accumulators and loaded elements that a thread holds at once */
#define UNROLL_MOST        4
#define DEVICES            64

#ifdef __CUDACC__
#define UNROLLED     _Pragma("unroll")
#define NOT_UNROLLED _Pragma("unroll 1")
#else
#define UNROLLED
#define NOT_UNROLLED
#endif

struct fold_arguments {
    const char *source[GYRE_FOLD_SOURCES];
    char *destination[GYRE_FOLD_DESTINATIONS];
    uint64_t source_head, destination_head; /* bytes in front of the first pack */
    uint64_t units;                         /* packs */
    uint64_t head, packed;                  /* elements in front of the packs, and in them */
    uint64_t edges;                         /* elements outside all packs */
    uint32_t sources, destinations, divisor;
    bool whole; /* every address is a multiple of its element's size */
};

struct multiple_arguments : fold_arguments {
    uint64_t number[GYRE_FOLD_SOURCES]; /* the factor of each source, in its element's bytes */
};

/* -- operations -------------------------------------------------------------------------------- */

/* A fold starts from the operation's neutral element. Of a sum that is -0: -0 + x is x for each x,
 * and +0 + x is not. */
#define OPERATION(OP, op, family, neutral, result, ...)                                            \
    template <class Number> struct op##_of : Number {                                              \
        typedef typename Number::lane lane;                                                        \
        typedef typename Number::element stored;                                                   \
        typedef fold_arguments arguments;                                                          \
        static __device__ __forceinline__ lane start()                                             \
        {                                                                                          \
            return Number::neutral();                                                              \
        }                                                                                          \
        static __device__ __forceinline__ lane take(typename Number::element x,                    \
                                                    const fold_arguments &, uint32_t)              \
        {                                                                                          \
            return Number::widen(x);                                                               \
        }                                                                                          \
        static __device__ __forceinline__ lane combine(lane a, lane b)                             \
        {                                                                                          \
            return result;                                                                         \
        }                                                                                          \
        static __device__ __forceinline__ lane finish(lane x, const fold_arguments &)              \
        {                                                                                          \
            return x;                                                                              \
        }                                                                                          \
        static void complete(fold_arguments *, const gyre_fold_task *)                             \
        {                                                                                          \
        }                                                                                          \
    };

GYRE_REDUCTIONS(OPERATION)

/* A sum, divided by the divisor unless that is 0. */
template <class Number> struct mean_of : sum_of<Number> {
    typedef typename Number::lane lane;
    static __device__ __forceinline__ lane finish(lane x, const fold_arguments &arguments)
    {
        return arguments.divisor ? Number::divide(x, arguments.divisor) : x;
    }
};

/* Each source times its own number, in the accumulator's type. */
template <class Number> struct multiple_of : sum_of<Number> {
    typedef typename Number::lane lane;
    typedef typename Number::element element;
    typedef multiple_arguments arguments;
    static __device__ __forceinline__ lane take(element x, const multiple_arguments &given,
                                                uint32_t source)
    {
        element number;
        memcpy(&number, &given.number[source], sizeof number);
        return Number::widen(x) * Number::widen(number);
    }
    static void complete(multiple_arguments *given, const gyre_fold_task *task)
    {
        for (uint32_t s = 0; s < task->sources; s++)
            memcpy(&given->number[s], (const char *)task->context + s * sizeof(element),
                   sizeof(element));
    }
};

/* A sum, or an average, of elements of one type that is stored in another; one lane serves both. */
template <class From, class To> struct cast_of : mean_of<From> {
    typedef typename To::element stored;
    static __device__ __forceinline__ stored narrow(typename To::lane x)
    {
        return To::narrow(x);
    }
};

/* -- memory ------------------------------------------------------------------------------------ */

template <int PACKS> static __device__ __forceinline__ void load_packs(void *to, const char *from)
{
    UNROLLED
    for (int i = 0; i < PACKS; i++) {
        uint4 pack = ((const uint4 *)from)[i];
        memcpy((char *)to + i * PACK_BYTES, &pack, sizeof pack);
    }
}

template <int PACKS> static __device__ __forceinline__ void store_packs(char *to, const void *from)
{
    UNROLLED
    for (int i = 0; i < PACKS; i++) {
        uint4 pack;
        memcpy(&pack, (const char *)from + i * PACK_BYTES, sizeof pack);
        ((uint4 *)to)[i] = pack;
    }
}

/* The two views of a task's elements. Unit `i` is a pack in in_packs and an element at an edge in
 * the view below. */
template <class Fold> struct in_packs {
    typedef typename Fold::element element;
    typedef typename Fold::stored stored;
    static constexpr int lanes =
        PACK_BYTES / (sizeof(element) < sizeof(stored) ? sizeof(element) : sizeof(stored));
    static constexpr int bytes_in = lanes * (int)sizeof(element),
                         bytes_out = lanes * (int)sizeof(stored);

    static __device__ __forceinline__ uint64_t units(const fold_arguments &arguments)
    {
        return arguments.units;
    }
    static __device__ __forceinline__ void load(element *unit, const fold_arguments &arguments,
                                                const char *source, uint64_t i)
    {
        load_packs<bytes_in / PACK_BYTES>(unit, source + arguments.source_head + i * bytes_in);
    }
    static __device__ __forceinline__ void store(char *destination, const fold_arguments &arguments,
                                                 const stored *unit, uint64_t i)
    {
        store_packs<bytes_out / PACK_BYTES>(
            destination + arguments.destination_head + i * bytes_out, unit);
    }
};

template <class Fold> struct at_edges {
    typedef typename Fold::element element;
    typedef typename Fold::stored stored;
    static constexpr int lanes = 1;

    static __device__ __forceinline__ uint64_t units(const fold_arguments &arguments)
    {
        return arguments.edges;
    }
    static __device__ __forceinline__ uint64_t place(const fold_arguments &arguments, uint64_t i)
    {
        return i < arguments.head ? i : i + arguments.packed;
    }
    template <int BYTES>
    static __device__ __forceinline__ void copy_bytes(char *to, const char *from)
    {
        UNROLLED
        for (int i = 0; i < BYTES; i++)
            to[i] = from[i];
    }
    static __device__ __forceinline__ void load(element *unit, const fold_arguments &arguments,
                                                const char *source, uint64_t i)
    {
        source += place(arguments, i) * sizeof(element);
        if (arguments.whole)
            *unit = *(const element *)source;
        else
            copy_bytes<sizeof(element)>((char *)unit, source);
    }
    static __device__ __forceinline__ void store(char *destination, const fold_arguments &arguments,
                                                 const stored *unit, uint64_t i)
    {
        destination += place(arguments, i) * sizeof(stored);
        if (arguments.whole)
            *(stored *)destination = *unit;
        else
            copy_bytes<sizeof(stored)>(destination, (const char *)unit);
    }
};

/* -- the kernel -------------------------------------------------------------------------------- */

/* Folds a batch: UNROLL units of one thread, THREADS apart, but for those behind the last. */
template <class Fold, class View, int UNROLL>
static __device__ __forceinline__ void fold_batch(const typename Fold::arguments &arguments,
                                                  uint64_t first)
{
    const uint64_t after = View::units(arguments) - first;
    const uint32_t left = after < UNROLL * THREADS ? (uint32_t)after : UNROLL * THREADS;
    typename Fold::lane result[UNROLL][View::lanes];
    typename Fold::element unit[UNROLL][View::lanes] = {};
    typename Fold::stored ready[UNROLL][View::lanes];
    UNROLLED
    for (uint32_t u = 0; u < UNROLL; u++) {
        UNROLLED
        for (int i = 0; i < View::lanes; i++)
            result[u][i] = Fold::start();
    }
    NOT_UNROLLED
    for (uint32_t s = 0; s < arguments.sources; s++) {
        UNROLLED
        for (uint32_t u = 0; u < UNROLL; u++)
            if (u * THREADS < left)
                View::load(unit[u], arguments, arguments.source[s], first + u * THREADS);
        UNROLLED
        for (uint32_t u = 0; u < UNROLL; u++) {
            UNROLLED
            for (int i = 0; i < View::lanes; i++)
                result[u][i] = Fold::combine(result[u][i], Fold::take(unit[u][i], arguments, s));
        }
    }
    UNROLLED
    for (uint32_t u = 0; u < UNROLL; u++) {
        UNROLLED
        for (int i = 0; i < View::lanes; i++)
            ready[u][i] = Fold::narrow(Fold::finish(result[u][i], arguments));
    }
    NOT_UNROLLED
    for (uint32_t d = 0; d < arguments.destinations; d++) {
        UNROLLED
        for (uint32_t u = 0; u < UNROLL; u++)
            if (u * THREADS < left)
                View::store(arguments.destination[d], arguments, ready[u], first + u * THREADS);
    }
}

/* Units of a batch: as many as a thread has room to accumulate. */
template <class Fold, class View> struct batch {
    static constexpr int each = (int)(sizeof(typename Fold::lane) + sizeof(typename Fold::element));
    static constexpr int room = LANES_BYTES / (View::lanes * each);
    static constexpr int units = room < UNROLL_MOST ? room : UNROLL_MOST;
};

/* Folds all units of a view that belong to the thread. Blocks and threads are counted from either
 * end. */
template <class Fold, class View>
static __device__ __forceinline__ void fold_view(const typename Fold::arguments &arguments,
                                                 uint32_t block, uint32_t thread)
{
    constexpr int unroll = batch<Fold, View>::units;
    const uint64_t units = View::units(arguments), step = unroll * THREADS;
    for (uint64_t first = block * step + thread; first < units; first += gridDim.x * step)
        fold_batch<Fold, View, unroll>(arguments, first);
}

/* `Wide` is the fold of a pack's elements: `Fold` itself, but for bits. */
template <class Fold, class Wide>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    fold_kernel(const __grid_constant__ typename Fold::arguments arguments)
{
    fold_view<Wide, in_packs<Wide>>(arguments, blockIdx.x, threadIdx.x);
    fold_view<Fold, at_edges<Fold>>(arguments, gridDim.x - 1 - blockIdx.x,
                                    THREADS - 1 - threadIdx.x);
}

/* Words of the table that a launch with so many addresses uses. */
template <class Arguments>
static __device__ __forceinline__ bool uses_word(uint32_t i, uint32_t sources,
                                                 uint32_t destinations)
{
    constexpr uint32_t first = offsetof(fold_arguments, destination) / sizeof(uint64_t),
                       after = first + GYRE_FOLD_DESTINATIONS,
                       numbers = sizeof(fold_arguments) / sizeof(uint64_t);
    if (i < first)
        return i < sources;
    return i < after ? i - first < destinations : i < numbers || i - numbers < sources;
}

/* The same fold by a table. The host's memory is far: it is read once by each block. */
template <class Fold, class Wide>
static __global__ void __launch_bounds__(THREADS, LATE_BLOCKS_PER_SM)
    late_kernel(const typename Fold::arguments *table, uint32_t sources, uint32_t destinations)
{
    __shared__ typename Fold::arguments own;
    constexpr uint32_t words = sizeof(own) / sizeof(uint64_t);
    for (uint32_t i = threadIdx.x; i < words; i += THREADS)
        if (uses_word<typename Fold::arguments>(i, sources, destinations))
            ((uint64_t *)&own)[i] = ((const volatile uint64_t *)table)[i];
    __syncthreads();
    fold_view<Wide, in_packs<Wide>>(own, blockIdx.x, threadIdx.x);
    fold_view<Fold, at_edges<Fold>>(own, gridDim.x - 1 - blockIdx.x, THREADS - 1 - threadIdx.x);
}

/* -- its launch -------------------------------------------------------------------------------- */

/* Multiprocessors of the current device, asked for once. */
static int processors_here()
{
    static std::atomic<int> known[DEVICES];
    int device = 0, processors = 1;
    if (cudaGetDevice(&device) != cudaSuccess || device < 0 || device >= DEVICES)
        return processors;
    if (int found = known[device].load(std::memory_order_relaxed))
        return found;
    if (cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess)
        known[device].store(processors, std::memory_order_relaxed);
    return processors;
}

/* The number of blocks for `units`, no more than the device can hold at once. */
static uint32_t grid_of(uint64_t units, uint64_t units_per_block)
{
    uint64_t wanted = (units + units_per_block - 1) / units_per_block;
    uint64_t most = (uint64_t)processors_here() * BLOCKS_PER_SM;
    return (uint32_t)(wanted < most ? wanted : most);
}

/* Bits in which any two addresses of one side differ. */
static uintptr_t set_addresses(fold_arguments *arguments, const gyre_fold_task *task,
                               uintptr_t *differ_out)
{
    uintptr_t differ_in = 0;
    *differ_out = 0;
    for (uint32_t s = 0; s < task->sources; s++) {
        arguments->source[s] = (const char *)task->source[s];
        differ_in |= (uintptr_t)task->source[0] ^ (uintptr_t)task->source[s];
    }
    for (uint32_t d = 0; d < task->destinations; d++) {
        arguments->destination[d] = (char *)task->destination[d];
        *differ_out |= (uintptr_t)task->destination[0] ^ (uintptr_t)task->destination[d];
    }
    return differ_in;
}

/* Packs begin at the first element that is a multiple of 16 in the memory of the narrower type, if
 * it is one everywhere: then addresses of a side agree in their last four bits. */
static void lay_out(fold_arguments *arguments, const gyre_fold_task *task, uint64_t in,
                    uint64_t out)
{
    uintptr_t first_in = (uintptr_t)task->source[0], first_out = (uintptr_t)task->destination[0];
    uintptr_t differ_out, differ_in = set_addresses(arguments, task, &differ_out);
    uint64_t narrow = in < out ? in : out;
    uint64_t head = -(in < out ? first_in : first_out) % PACK_BYTES / narrow;
    arguments->whole = (first_in | differ_in) % in == 0 && (first_out | differ_out) % out == 0;
    bool packs = arguments->whole && (differ_in | differ_out) % PACK_BYTES == 0 &&
                 (first_in + head * in) % PACK_BYTES == 0 &&
                 (first_out + head * out) % PACK_BYTES == 0;
    if (packs && head < task->count) {
        arguments->head = head;
        arguments->source_head = head * in;
        arguments->destination_head = head * out;
        arguments->units = (task->count - head) * narrow / PACK_BYTES;
        arguments->packed = arguments->units * (PACK_BYTES / narrow);
    }
    arguments->edges = task->count - arguments->packed;
}

template <class Fold>
static void describe_fold(typename Fold::arguments *arguments, const struct gyre_fold_task *task)
{
    *arguments = {};
    lay_out(arguments, task, sizeof(typename Fold::element), sizeof(typename Fold::stored));
    arguments->sources = task->sources;
    arguments->destinations = task->destinations;
    arguments->divisor = task->divisor;
    Fold::complete(arguments, task);
}

/* Launches the fold of a table. As many blocks as packs would need: where there are none, each has
 * more to do. */
template <class Fold, class Wide>
static void launch_late(const struct gyre_fold_task *task, void *stream)
{
    static_assert(sizeof(typename Fold::arguments) <= GYRE_FOLD_TABLE, "the table holds them");
    const uint64_t unroll = batch<Wide, in_packs<Wide>>::units;
    const typename Fold::arguments *table = (const typename Fold::arguments *)task->table;
    uint32_t sources = task->sources, destinations = task->destinations;
    void *list[] = {&table, &sources, &destinations};
    uint64_t units = (task->count + in_packs<Wide>::lanes - 1) / in_packs<Wide>::lanes;
    cudaLaunchKernel(late_kernel<Fold, Wide>, dim3(grid_of(units + 1, THREADS * unroll)),
                     dim3(THREADS), list, 0, (cudaStream_t)stream);
}

template <class Fold, class Wide>
static void launch_now(const struct gyre_fold_task *task, void *stream)
{
    const uint64_t unroll = batch<Wide, in_packs<Wide>>::units;
    typename Fold::arguments arguments;
    describe_fold<Fold>(&arguments, task);
    void *list[] = {&arguments};
    uint32_t blocks = grid_of(arguments.units + arguments.edges, THREADS * unroll);
    if (blocks)
        cudaLaunchKernel(fold_kernel<Fold, Wide>, dim3(blocks), dim3(THREADS), list, 0,
                         (cudaStream_t)stream);
}

/* Posts the fold of `task`; a task of NULL only loads the kernels. */
template <class Fold, class Wide> static void fold(const struct gyre_fold_task *task, void *stream)
{
    cudaFuncAttributes unused;
    if (!task) {
        cudaFuncGetAttributes(&unused, fold_kernel<Fold, Wide>);
        cudaFuncGetAttributes(&unused, late_kernel<Fold, Wide>);
    } else if (!task->table) {
        launch_now<Fold, Wide>(task, stream);
    } else if (task->fills) {
        describe_fold<Fold>((typename Fold::arguments *)task->table, task);
    } else {
        launch_late<Fold, Wide>(task, stream);
    }
}

/* Bit operations have no width: those of any integer are folded as bytes, in packs of words. */
template <template <class> class Operation, class Element>
static void fold_bits(const struct gyre_fold_task *task, void *stream)
{
    struct gyre_fold_task bytes = {};
    if (task)
        bytes = *task;
    bytes.count *= sizeof(Element);
    fold<Operation<whole<uint8_t, uint32_t>>, Operation<whole<uint32_t, uint32_t>>>(
        task ? &bytes : NULL, stream);
}

/* -- the table --------------------------------------------------------------------------------- */

template <class Fold> static void even(const struct gyre_fold_task *task, void *stream)
{
    fold<Fold, Fold>(task, stream);
}

#define FLOAT_SUM(type, op, ...)     even<mean_of<type>>
#define FLOAT_AVERAGE(type, op, ...) even<mean_of<type>>
#define FLOAT_ORDER(type, op, neutral, bits, last)                                                 \
    even<op##_of<ordered<int##bits##_t, lanes_of<bits>::order, last, NAN_IS_HIGHEST_##neutral>>>
#define FLOAT_PRODUCT(type, op, ...) even<op##_of<type>>
#define FLOAT_BITS(type, op, ...)    NULL

#define NAN_IS_HIGHEST_highest false
#define NAN_IS_HIGHEST_lowest  true

/* clang-format off */
#define SIGNED_SUM(op, element, bits)                                                              \
    even<mean_of<whole_signed<element, lanes_of<bits>::wrapped>>>
/* clang-format on */

#define SIGNED_AVERAGE(op, element, bits) SIGNED_SUM(op, element, bits)
#define SIGNED_ORDER(op, element, bits)   even<op##_of<whole<element, lanes_of<bits>::order>>>
#define SIGNED_PRODUCT(op, element, bits)                                                          \
    even<op##_of<whole<uint##bits##_t, lanes_of<bits>::wrapped>>>
#define SIGNED_BITS(op, element, bits) fold_bits<op##_of, uint##bits##_t>

#define UNSIGNED_SUM(op, element, bits)     even<mean_of<whole<element, lanes_of<bits>::wrapped>>>
#define UNSIGNED_AVERAGE(op, element, bits) UNSIGNED_SUM(op, element, bits)
#define UNSIGNED_ORDER                      SIGNED_PRODUCT
#define UNSIGNED_PRODUCT                    SIGNED_PRODUCT
#define UNSIGNED_BITS                       SIGNED_BITS

#define FOLD_OF_FLOAT(OP, op, family, neutral, result, type, element, bits, last)                  \
    FLOAT_##family(type, op, neutral, bits, last),
#define FOLD_OF_SMALL_FLOAT FOLD_OF_FLOAT
#define FOLD_OF_SIGNED(OP, op, family, neutral, result, type, element, bits, last)                 \
    SIGNED_##family(op, element, bits),
#define FOLD_OF_UNSIGNED(OP, op, family, neutral, result, type, element, bits, last)               \
    UNSIGNED_##family(op, element, bits),

#define FOLDS_OF(ID, type, kind, element, bits, fraction, last)                                    \
    {GYRE_REDUCTIONS(FOLD_OF_##kind, type, element, bits, last)},
#define VARIANT(...)     "cuda",
#define VARIANTS_OF(...) {GYRE_REDUCTIONS(VARIANT)},

static const struct gyre_reduce_table table = {{GYRE_TYPES(VARIANTS_OF)}, {GYRE_TYPES(FOLDS_OF)}};

#define SCALE_OF_FLOAT(type, bits)       even<multiple_of<type>>
#define SCALE_OF_SMALL_FLOAT(type, bits) even<multiple_of<type>>
#define SCALE_OF_SIGNED(type, bits)                                                                \
    even<multiple_of<whole<uint##bits##_t, lanes_of<bits>::wrapped>>>
#define SCALE_OF_UNSIGNED                                       SCALE_OF_SIGNED
#define SCALE_OF(ID, type, kind, element, bits, fraction, last) SCALE_OF_##kind(type, bits),

static const gyre_fold scales[GYRE_TYPE_COUNT] = {GYRE_TYPES(SCALE_OF)};

static const struct {
    gyre_type from, to;
    gyre_fold fold;
} casts[] = {
    {GYRE_F32, GYRE_BF16, even<cast_of<f32, bf16>>},
    {GYRE_BF16, GYRE_F32, even<cast_of<bf16, f32>>},
    {GYRE_F32, GYRE_F16, even<cast_of<f32, f16>>},
    {GYRE_F16, GYRE_F32, even<cast_of<f16, f32>>},
};

extern "C" const struct gyre_reduce_table *gyre_reduce_cuda_table(void)
{
    return &table;
}

extern "C" gyre_fold gyre_scale_cuda(enum gyre_type type)
{
    return (unsigned)type < GYRE_TYPE_COUNT ? scales[type] : NULL;
}

extern "C" gyre_fold gyre_cast_cuda(enum gyre_type from, enum gyre_type to)
{
    for (const auto &cast : casts)
        if (cast.from == from && cast.to == to)
            return cast.fold;
    return NULL;
}

extern "C" void gyre_reduce_cuda_load(void)
{
    for (const auto &cast : casts)
        cast.fold(NULL, NULL);
    for (int type = 0; type < GYRE_TYPE_COUNT; type++) {
        for (int op = 0; op < GYRE_OP_COUNT; op++)
            if (table.fold[type][op])
                table.fold[type][op](NULL, NULL);
        scales[type](NULL, NULL);
    }
}
