/* What the tests of shared CUDA memory have in common: ranks with devices, words written and read
 * by a device, and a look at what is left. */
#ifndef GYRE_TESTS_PROGRAM_CUDA_SHARE_RIG_H
#define GYRE_TESTS_PROGRAM_CUDA_SHARE_RIG_H

#include "rig/comm_rig.h"
#include "device/device.h"
#include "stand_in/fakecuda/fakecuda.h"

#include "collectives/comm/communicator.h"
#include "transport/domain/inside.h"

enum { RANKS = 3, LENGTH = 3 << 20, PART = 4096, SECONDS = 20 };

typedef void (*share_readying)(const struct rig *, int);
typedef int (*share_playing)(struct gyre_comm *, struct rig *);

void share_two_devices(const struct rig *rig, int rank);
void share_classic(const struct rig *rig, int rank); /* which export nothing */

/* By a queue of this rank's device, since the host may not touch what lies there. */
int share_copy(struct gyre_comm *comm, void *to, const void *from, uint64_t length);
int share_write(struct gyre_comm *comm, void *base, uint64_t at, int value);
int share_read(struct gyre_comm *comm, const void *base, uint64_t at);

/* Of the region, where it is shared; else 0. */
uint32_t share_id(struct gyre_comm *comm, enum gyre_memory_kind kind, void *memory);

/* gyre_finalize(); 0 if nothing was bad and nothing is left. */
int share_end(struct gyre_comm *comm, int bad);

#endif
