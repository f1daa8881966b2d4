/* Two streams joined back to back in memory, for tests: what one gathers the other reads, in pieces
 * of any size. */
#ifndef GYRE_TESTS_RIG_STREAM_PAIR_H
#define GYRE_TESTS_RIG_STREAM_PAIR_H

#include "base/rng.h"
#include "transport/stream/stream.h"

#include <string.h>

struct stream_pair {
    struct gyre_stream *end[2];
    size_t piece;         /* most bytes moved at once; 0: no limit */
    struct gyre_rng *rng; /* NULL: pieces are exactly as long; else 1 … piece */
    int status[2];        /* what read() said last */
    bool fed;             /* by feed(), as a carrier does whose bytes lie in memory */
};

/* Creates both ends of these options, with keys of their own for a `security`; 0 or negative. */
static inline int stream_pair_open(struct stream_pair *pair, struct gyre_stream_options options,
                                   enum gyre_seal_mode security)
{
    static const struct gyre_traffic_keys keys[2] = {{.out = {1}, .in = {2}},
                                                     {.out = {2}, .in = {1}}};
    int status = 0;
    options.security = security;
    for (int end = 0; end < 2 && !status; end++) {
        options.keys = &keys[end];
        status = gyre_stream_create(&options, &pair->end[end]);
    }
    return status;
}

/* Copies at most `most` bytes of what `from` offers to where `to` wants them; returns how many. */
static inline size_t stream_copy(const struct iovec *from, int froms, const struct iovec *to,
                                 int tos, size_t most)
{
    size_t done = 0, f = 0, t = 0;
    for (int i = 0, j = 0; i < froms && j < tos && done < most;) {
        size_t part =
            from[i].iov_len - f < to[j].iov_len - t ? from[i].iov_len - f : to[j].iov_len - t;
        part = part < most - done ? part : most - done;
        memcpy((char *)to[j].iov_base + t, (const char *)from[i].iov_base + f, part);
        done += part;
        f += part;
        t += part;
        if (f == from[i].iov_len) {
            i++, f = 0;
        }
        if (t == to[j].iov_len) {
            j++, t = 0;
        }
    }
    return done;
}

/* As target(), a copy and read(), without the first and second. */
static inline size_t stream_feed(struct gyre_stream *to, const struct iovec *from, int froms,
                                 size_t most, int *status)
{
    size_t done = 0;
    for (int i = 0; i < froms && done < most && !*status; i++) {
        size_t part = from[i].iov_len < most - done ? from[i].iov_len : most - done;
        *status = gyre_stream_feed(to, from[i].iov_base, part);
        done += part;
    }
    return done;
}

/* Moves one piece from end `side` to the other; returns its bytes. */
static inline size_t stream_pair_move(struct stream_pair *pair, int side)
{
    struct iovec out[8], in[2];
    size_t most = pair->piece ? pair->piece : SIZE_MAX;
    if (pair->rng && pair->piece) {
        most = 1 + gyre_rng_below(pair->rng, pair->piece);
    }
    int outs = gyre_stream_gather(pair->end[side], out, 8);
    if (outs == 0 || pair->status[!side]) {
        return 0;
    }
    if (pair->fed) {
        size_t fed = stream_feed(pair->end[!side], out, outs, most, &pair->status[!side]);
        gyre_stream_wrote(pair->end[side], fed);
        return fed;
    }
    int ins = gyre_stream_target(pair->end[!side], in);
    size_t moved = stream_copy(out, outs, in, ins, most);
    gyre_stream_wrote(pair->end[side], moved);
    pair->status[!side] = gyre_stream_read(pair->end[!side], moved);
    return moved;
}

/* Moves until both ends are silent. */
static inline size_t stream_pair_settle(struct stream_pair *pair)
{
    size_t total = 0, moved;
    do {
        moved = stream_pair_move(pair, 0);
        moved += stream_pair_move(pair, 1);
        total += moved;
    } while (moved > 0);
    return total;
}

#endif
