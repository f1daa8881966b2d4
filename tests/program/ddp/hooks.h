/* Signed bytes on the wire, as two tests of the DDP engine send them: what they become of gradients
 * is each test's own, what comes back is a number again. */
#ifndef GYRE_TESTS_PROGRAM_DDP_HOOKS_H
#define GYRE_TESTS_PROGRAM_DDP_HOOKS_H

#include <gyre/ddp.h>

static inline void gradients_of_bytes(const struct gyre_ddp_parcel *parcel, const void *wire,
                                      float *gradient, void *context)
{
    const int8_t *byte = wire;
    (void)context;
    for (uint64_t i = 0; i < parcel->count; i++)
        gradient[i] = byte[i];
}

#endif
