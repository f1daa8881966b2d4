/* One end of a pipe: its streams, its first failure, its goodbye, and what remains after
 * detach(). */
#include "transport/link/end.h"

#include "transport/stream/signature.h"

#include <errno.h>
#include <stdlib.h>

int gyre_end_create(size_t size, uint32_t rank, uint32_t peer,
                    const struct gyre_stream_options *options, uint32_t streams,
                    struct gyre_pipe **out)
{
    struct gyre_pipe *pipe = calloc(1, size);
    if (!pipe)
        return -ENOMEM;
    pipe->rank = rank;
    pipe->peer = peer;
    int status = 0;
    while (pipe->streams < streams && !status) {
        struct gyre_stream_options own = *options;
        own.keys = options->keys ? &options->keys[pipe->streams] : NULL;
        status = gyre_stream_create(&own, &pipe->stream[pipe->streams]);
        pipe->streams += !status;
    }
    if (status)
        gyre_end_destroy(pipe);
    else
        *out = pipe;
    return status;
}

void gyre_end_destroy(struct gyre_pipe *pipe)
{
    for (uint32_t i = 0; i < pipe->streams; i++)
        gyre_stream_destroy(pipe->stream[i]);
    free(pipe);
}

void gyre_end_fail(struct gyre_pipe *pipe, int status)
{
    if (pipe->status)
        return;
    pipe->status = status;
    for (uint32_t i = 0; i < pipe->streams; i++)
        gyre_stream_fail(pipe->stream[i], status);
}

const char *gyre_end_refusal(const struct gyre_pipe *pipe, uint32_t stream, int status,
                             const char *other, char text[256])
{
    struct gyre_match mine;
    uint64_t theirs;
    if (status != GYRE_MISMATCH)
        return other;
    gyre_stream_mismatch(pipe->stream[stream], &mine, &theirs);
    gyre_signature_disagreement(text, 256, pipe->rank, pipe->peer, &mine, theirs);
    return text;
}

void gyre_end_leave(struct gyre_pipe *pipe, bool told)
{
    if (told)
        gyre_trouble_set(&pipe->trouble, GYRE_MISMATCH,
                         "rank %u has left by gyre_finalize(), but rank %u still needs it",
                         pipe->peer, pipe->rank);
    else
        gyre_trouble_set(&pipe->trouble, GYRE_PEER_LOST,
                         "rank %u has ended, but rank %u still needs it; rank 0, which would know "
                         "why it ended, has left",
                         pipe->peer, pipe->rank);
    pipe->left = true;
    gyre_end_fail(pipe, GYRE_PEER_LOST);
}

int gyre_end_state(const struct gyre_pipe *pipe, struct gyre_trouble *trouble)
{
    const int told = pipe->trouble.status ? pipe->trouble.status : pipe->status;
    return pipe->status ? gyre_trouble_set(trouble, told, "%s", pipe->trouble.text) : 0;
}

bool gyre_end_carries(struct gyre_pipe *pipe, const void *memory, uint64_t length, bool send)
{
    return !pipe->status && gyre_stream_carries(pipe->stream[0], memory, length, send);
}

int gyre_end_announced(const struct gyre_pipe *pipe, struct gyre_match *match)
{
    return pipe->status ? pipe->status
                        : gyre_stream_announced(pipe->stream[match->lane % pipe->streams], match);
}

bool gyre_end_has_left(const struct gyre_pipe *pipe)
{
    bool left = pipe->left;
    for (uint32_t i = 0; i < pipe->streams; i++)
        left |= gyre_stream_heard_bye(pipe->stream[i]);
    return left;
}

void gyre_end_bye(struct gyre_pipe *pipe)
{
    for (uint32_t i = 0; i < pipe->streams; i++)
        gyre_stream_bye(pipe->stream[i]);
}

bool gyre_end_parted(const struct gyre_pipe *pipe)
{
    uint32_t parted = 0;
    for (uint32_t i = 0; i < pipe->streams; i++)
        parted += gyre_stream_said_bye(pipe->stream[i]) && gyre_stream_heard_bye(pipe->stream[i]);
    return parted == pipe->streams;
}

void gyre_end_depart(struct gyre_pipe *pipe, struct gyre_pipe **departed)
{
    gyre_end_fail(pipe, -ECANCELED);
    pipe->next = *departed;
    *departed = pipe;
}

int gyre_end_harvest(struct gyre_pipe **departed, struct gyre_completion *out, int max)
{
    int got = 0;
    while (*departed) {
        struct gyre_pipe *pipe = *departed;
        for (uint32_t i = 0; i < pipe->streams; i++)
            got += gyre_stream_complete(pipe->stream[i], out + got, max - got);
        if (got == max)
            return got;
        *departed = pipe->next;
        gyre_end_destroy(pipe);
    }
    return got;
}

void gyre_end_forget(struct gyre_pipe **departed)
{
    while (*departed) {
        struct gyre_pipe *pipe = *departed;
        *departed = pipe->next;
        gyre_end_destroy(pipe);
    }
}
