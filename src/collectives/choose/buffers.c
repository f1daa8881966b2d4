/* The lengths of buffers. Tested by tests/unit/collectives/choose/choose_test.c. */
#include "collectives/choose/buffers.h"

/* More than memory holds counts as this much, so that no sum overflows. */
#define MOST       (UINT64_C(1) << 50)
#define RANKS_MOST 64u /* that are looked at */

/* The bytes of the rank's INPUT or OUTPUT, of the whole operation. */
static uint64_t whole_buffer(const struct gyre_slice *slice, enum gyre_buffer buffer)
{
    uint64_t count = slice->stride > slice->count ? slice->stride : slice->count, bytes;
    uint64_t elements = (uint64_t)gyre_slice_blocks(slice, buffer) * slice->element;
    return __builtin_mul_overflow(count, elements, &bytes) || bytes > MOST ? MOST : bytes;
}

struct gyre_buffers gyre_buffers_of(const struct gyre_slice *slice, uint32_t ranks)
{
    struct gyre_buffers buffers = {0};
    struct gyre_slice of = *slice;
    uint32_t seen = ranks < RANKS_MOST ? ranks : RANKS_MOST;
    for (of.rank = 0; of.rank < seen; of.rank++) {
        uint64_t input = whole_buffer(&of, GYRE_INPUT);
        buffers.longest_input = input > buffers.longest_input ? input : buffers.longest_input;
        buffers.all += input + whole_buffer(&of, GYRE_OUTPUT);
    }
    if (ranks > seen)
        buffers.all = buffers.all / seen * ranks;
    return buffers;
}
