/* Tokens of posts at the links: they tell whose completion one is.
 *
 *     [ communicator 16 | step 13, lane 3                | the lane's own 32 ]
 *     [ communicator 16 |         GYRE_TOKEN_MESSAGE 16  | staging slot 8, message 24 ]
 *
 * The upper row is a lane's, made in collectives/engine. */
#ifndef GYRE_COLLECTIVES_MESSAGES_TOKEN_H
#define GYRE_COLLECTIVES_MESSAGES_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#define GYRE_TOKEN_MESSAGE    0xffffu
#define GYRE_TOKEN_INDEX_BITS 24u

static inline uint64_t gyre_token_of_message(uint32_t comm, uint32_t index, uint32_t slot)
{
    return (uint64_t)comm << 48 | (uint64_t)GYRE_TOKEN_MESSAGE << 32 |
           (uint64_t)slot << GYRE_TOKEN_INDEX_BITS | index;
}

static inline bool gyre_token_is_message(uint64_t token)
{
    return (token >> 32 & 0xffff) == GYRE_TOKEN_MESSAGE;
}

static inline uint32_t gyre_token_comm(uint64_t token)
{
    return (uint32_t)(token >> 48);
}

static inline uint32_t gyre_token_index(uint64_t token)
{
    return (uint32_t)token & ((1u << GYRE_TOKEN_INDEX_BITS) - 1);
}

static inline uint32_t gyre_token_slot(uint64_t token)
{
    return (uint32_t)token >> GYRE_TOKEN_INDEX_BITS;
}

#endif
