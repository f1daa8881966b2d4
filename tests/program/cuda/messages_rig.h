/* What the tests of messages of CUDA memory share: memory of every kind, bytes that are alike
 * nowhere, and ranks with devices. */
#ifndef GYRE_TESTS_PROGRAM_CUDA_MESSAGES_RIG_H
#define GYRE_TESTS_PROGRAM_CUDA_MESSAGES_RIG_H

#include "rig/comm_rig.h"
#include "device/device.h"
#include "stand_in/fakecuda/fakecuda.h"

enum { LENGTH = (3 << 20) + 77, SKEW = 3, SECONDS = 60 };
enum { PIECE = 1 << 20, CARTS = 4 }; /* of what is carried */
enum { LONG = (5 << 20) + 77, LONGEST = 9 * PIECE };

/* By gyre_alloc_device(); of this process; by gyre_alloc(); by malloc(). */
enum kind { MAPPED, ALONE, SHARED, OWN, KINDS };

struct bench {
    struct gyre_device_queue *queue;
    struct gyre_region alone;
    uint8_t *memory[KINDS], *host;
};

extern uint64_t messages_room; /* of each memory: LENGTH, unless a test wants more */

int messages_set_up(struct gyre_comm *comm, struct bench *bench);

/* Expects that status of gyre_finalize(), and that nothing is left. */
int messages_tear_down(struct gyre_comm *comm, struct bench *bench, int expected, int bad);

int messages_put(const struct bench *bench, uint8_t *to, uint64_t bytes, unsigned seed);
int messages_check(struct gyre_comm *comm, const struct bench *bench, const uint8_t *from,
                   uint64_t bytes, unsigned seed);

/* -- ranks ------------------------------------------------------------------------------------- */

typedef void (*messages_readying)(const struct rig *, int);

void messages_two_devices(const struct rig *rig, int rank);
void messages_classic(const struct rig *rig, int rank); /* which export nothing */
void messages_nodes(const struct rig *rig, int rank); /* each plays one: no device maps another's */

/* Inside a node: with exported memory and, on the stand-in, with classic IPC handles. */
void messages_run_both(int n, int (*body)(struct gyre_comm *, struct rig *));

/* In that way, or over a wire. */
void messages_run_near(int n, messages_readying before,
                       int (*body)(struct gyre_comm *, struct rig *));
void messages_run_by_wire(int n, messages_readying before,
                          int (*body)(struct gyre_comm *, struct rig *));

#endif
