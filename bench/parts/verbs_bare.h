/* Two processes, one queue pair each, and verbs themselves: what the driver is measured against.
 * Every failure ends the process: this is a bench. */
#ifndef GYRE_BENCH_PARTS_VERBS_BARE_H
#define GYRE_BENCH_PARTS_VERBS_BARE_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BARE_TELLS_EVERY 16u /* so many writes are told of at once */

struct bare;

/* Said in every turn of a wait. Gives way now and then where nothing was found: the system may need
 * the processor to move what is waited for. */
static inline void bench_turn(bool found)
{
    static uint32_t idle;
    idle = found ? 0 : idle + 1;
    if (idle % 256 == 255)
        sched_yield();
}

/* Over `socket` the two tell each other who they are; each has `bytes` that the other writes. The
 * device is the one that the driver would take (GYRE_RDMA_DEVICE). */
struct bare *bare_open(int socket, size_t bytes);
void bare_close(struct bare *bare);

/* `count` writes of `bytes`, `depth` of them under way, at least BARE_TELLS_EVERY; returns when all
 * are done. */
void bare_stream(struct bare *bare, uint32_t bytes, uint32_t depth, uint32_t count);

/* `count` times there and back. Polled: the end of what is written is looked for in memory; else
 * each write has an immediate, whose completion is waited for. turns[i]: when round i was over. */
void bare_ping_pong(struct bare *bare, bool first, bool polled, uint32_t bytes, uint32_t count,
                    uint64_t *turns);

#endif
