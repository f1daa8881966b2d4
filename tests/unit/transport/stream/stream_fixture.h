/* Two streams back to back in memory, and what became of each message, for the tests of streams. */
#ifndef GYRE_TESTS_UNIT_TRANSPORT_STREAM_STREAM_FIXTURE_H
#define GYRE_TESTS_UNIT_TRANSPORT_STREAM_STREAM_FIXTURE_H

#include "rig/stream_pair.h"
#include "rig/test.h"

#include <stdlib.h>

#define POSTS 64u
#define NEVER 12345 /* a status that no completion has */

struct fixture {
    struct stream_pair pair;
    struct gyre_rng rng;
    int sent[1 << 16], got[1 << 16]; /* status by token: sends are even ends' tokens below 65,536 */
    int completions;
};

static bool fed; /* of every pair of this run */
static enum gyre_seal_mode security;

#define SUMMED (GYRE_FRAME_BYTES + GYRE_FRAME_SUM_BYTES)  /* before a payload that has a sum */
#define HEAD   (security ? GYRE_FRAME_HEAD_MOST : SUMMED) /* or a tag */

static inline struct fixture *fixture_new(uint32_t posts, bool checksum)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct gyre_stream_options options = {.epoch = 7, .posts = posts, .checksum = checksum};
    assert_int_equal(stream_pair_open(&f->pair, options, security), 0);
    f->pair.fed = fed;
    gyre_rng_seed(&f->rng, 42);
    for (int i = 0; i < 1 << 16; i++) {
        f->sent[i] = f->got[i] = NEVER;
    }
    return f;
}

static inline void fixture_free(struct fixture *f)
{
    gyre_stream_destroy(f->pair.end[0]);
    gyre_stream_destroy(f->pair.end[1]);
    free(f);
}

#define RECV_TOKEN 0x10000u /* sends use tokens below, receives from here on */

static inline void fetch(struct fixture *f)
{
    struct gyre_completion done[16];
    for (int end = 0; end < 2; end++) {
        int count;
        while ((count = gyre_stream_complete(f->pair.end[end], done, 16)) > 0) {
            for (int i = 0; i < count; i++) {
                uint32_t token = (uint32_t)done[i].token;
                int *slot = token < RECV_TOKEN ? &f->sent[token] : &f->got[token - RECV_TOKEN];
                assert_int_equal(*slot, NEVER); /* exactly once */
                *slot = done[i].status;
                f->completions++;
            }
        }
    }
}

static inline void settle(struct fixture *f)
{
    stream_pair_settle(&f->pair);
    fetch(f);
}

static inline struct gyre_match name(uint64_t i)
{
    return (struct gyre_match){.comm = 1,
                               .lane = (uint16_t)(i % 3),
                               .order = (uint16_t)(i % 1000),
                               .sequence = 1 + i / 1000,
                               .fingerprint = 99};
}

static inline int post_send(struct fixture *f, int end, uint64_t i, const void *data,
                            uint64_t length)
{
    struct gyre_match match = name(i);
    return gyre_stream_send(f->pair.end[end], &match, data, length, i);
}

static inline int post_recv(struct fixture *f, int end, uint64_t i, void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    return gyre_stream_recv(f->pair.end[end], &match, data, length, RECV_TOKEN + i);
}

static inline uint8_t *pattern(size_t length, uint64_t seed)
{
    uint8_t *bytes = malloc(length + 8);
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = gyre_mix64(seed + i);
        memcpy(bytes + i, &word, 8);
    }
    return bytes;
}

static inline void exchange(struct fixture *f, uint64_t i, uint64_t size, bool receive_first)
{
    uint8_t *data = pattern(size, i), *out = calloc(1, size + 1);
    if (receive_first) {
        assert_int_equal(post_recv(f, 1, i, out, size), 0);
    }
    assert_int_equal(post_send(f, 0, i, data, size), 0);
    settle(f);
    if (!receive_first) {
        assert_int_equal(post_recv(f, 1, i, out, size), 0);
        settle(f);
    }
    assert_int_equal(f->sent[i], 0);
    assert_int_equal(f->got[i], 0);
    assert_memory_equal(data, out, size);
    free(data);
    free(out);
}

#endif
