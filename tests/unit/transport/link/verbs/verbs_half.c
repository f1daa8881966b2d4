/* One end: its inside. */
#include "unit/transport/link/verbs/verbs_half.h"
#include "rig/test.h"

#include <string.h>

struct gyre_trouble half_trouble;

int half_open(uint32_t peers, struct gyre_verbs_wire **wire)
{
    struct gyre_wire_options options = {.rank = 3, .n = peers + 1, .peers = peers};
    half_trouble = (struct gyre_trouble){0};
    return gyre_driver_verbs.open(&options, (struct gyre_wire **)wire, &half_trouble);
}

void half_close(struct gyre_verbs_wire *wire)
{
    gyre_driver_verbs.close((struct gyre_wire *)wire);
    assert_int_equal(fake_verbs.open, 0);
}

void half_says(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" does not say \"%s\"", text, words);
}

struct gyre_verbs_pipe *half_pipe(struct gyre_verbs_wire *wire, uint32_t index, int fd)
{
    const struct gyre_stream_options options = {.posts = GYRE_PIPE_POSTS};
    struct gyre_pipe *end;
    assert_int_equal(
        gyre_end_create(sizeof(struct gyre_verbs_pipe), wire->rank, 7 + index, &options, 1, &end),
        0);
    struct gyre_verbs_pipe *pipe = (struct gyre_verbs_pipe *)end;
    pipe->wire = wire;
    pipe->index = index;
    pipe->fd[0] = fd;
    pipe->fds = 1;
    pipe->queue[0] =
        (struct gyre_verbs_queue){.pipe = pipe,
                                  .card = wire->card,
                                  .proven = true,
                                  .mine = {.number = 41, .gid = {[15] = 1}, .ring = wire->ring},
                                  .theirs = {.number = 42, .gid = {[15] = 2}, .ring = wire->ring}};
    pipe->way[pipe->ways++] = pipe->queue;
    wire->pipe[index] = pipe;
    return pipe;
}
