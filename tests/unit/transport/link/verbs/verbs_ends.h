/* Two ends of the verbs driver in this process, connected over the stand-in for the library, and
 * messages between them; tokens are numbers of messages. */
#ifndef GYRE_TESTS_UNIT_TRANSPORT_LINK_VERBS_VERBS_ENDS_H
#define GYRE_TESTS_UNIT_TRANSPORT_LINK_VERBS_VERBS_ENDS_H

#include "stand_in/fake_verbs.h"

#include "transport/link/table.h"
#include "transport/link/verbs/peer.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PART         (128u * 1024)
#define MOST         (700u * 1024) /* bytes of a message */
#define PLACES       16u           /* messages under way each way */
#define MESSAGES     120u
#define TURNS_MOST   200000
#define NEVER        12345

extern uint8_t ends_arena[2][2][PLACES][MOST]; /* end, out or in, place */
extern struct gyre_memory_lookup ends_lookup;  /* of both; holds the arena, as one region, … */
void ends_memory(void);                        /* … or, from now on, what ends_region() adds */
uint32_t ends_region(void *base, uint64_t length, enum gyre_memory_kind kind); /* its id */

struct ends {
    struct gyre_wire *wire[2];
    struct gyre_pipe *pipe[2];
    struct gyre_channel channel[2];
    struct gyre_trouble trouble[2];
    int status[2];
    int sent[2][MESSAGES], got[2][MESSAGES];
    uint32_t order[2], last_got[2]; /* how many have come, and the last of them */
    uint64_t ahead; /* ns that have passed for the ends, beside those of the clock */
};

void ends_devices(void); /* four, called a, b, c and d, each in a subnet of its own */

/* Those end 0 and end 1 use, and GYRE_RDMA_QUEUES. open(): one end only. new(): both have met. */
int ends_open(struct ends *ends, int end, const char *device, const char *queues, bool failover);
struct ends *ends_new(const char *device0, const char *device1, const char *queues, bool failover);
void ends_free(struct ends *ends); /* nothing of the library is left */
const struct gyre_verbs_pipe *ends_inside(const struct ends *ends, int end);

/* What message `number` has, from that end or at it. */
uint8_t *ends_place(int end, bool in, uint32_t number);
void ends_send(struct ends *ends, int end, uint32_t number, uint64_t length);
void ends_recv(struct ends *ends, int end, uint32_t number, uint64_t length);
void ends_brought(int end, uint32_t number, uint64_t length); /* fails if other bytes have come */
void ends_accepted(const struct ends *ends, int end, int status); /* fails if it was not */

void ends_look(struct ends *ends); /* each end polls once */
void ends_look_often(struct ends *ends);
void ends_until(struct ends *ends, const int *status);                /* it is not NEVER any more */
void ends_carry(struct ends *ends, uint32_t number, uint64_t length); /* from end 0 to end 1 */

#endif
