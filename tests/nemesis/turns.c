/* One turn of each kind. */
#include "nemesis/turns.h"

#define ROOM (1u << 20)

int turns_stage(struct gyre_comm *comm, struct stage *stage)
{
    for (int i = 0; i < 4; i++)
        if (i < 2 ? gyre_alloc(comm, ROOM, (void **)&stage->memory[i])
                  : !(stage->memory[i] = calloc(1, ROOM)))
            return rig_check(false, comm, "memory");
    return 0;
}

static struct question draw_question(struct gyre_rng *rng, int n, uint64_t most)
{
    enum verb verb = (enum verb)gyre_rng_below(rng, VERBS);
    int turn = (int)gyre_rng_below(rng, 1000);
    uint64_t scale = UINT64_C(1) << gyre_rng_below(rng, 17), count = gyre_rng_below(rng, scale + 1);
    return (struct question){.verb = verb,
                             .type = type_of(verb, turn),
                             .op = op_of(verb, turn),
                             .root = (int)gyre_rng_below(rng, (uint64_t)n),
                             .count = count < most ? count : most,
                             .in_place = gyre_rng_below(rng, 2),
                             .started = gyre_rng_below(rng, 2),
                             .input = 2 * (int)gyre_rng_below(rng, 2),
                             .output = 1 + 2 * (int)gyre_rng_below(rng, 2)};
}

static int ask_one(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng)
{
    int n = gyre_size(comm);
    struct question ask = draw_question(rng, n, ROOM / 10 / (uint64_t)n);
    return ask_and_check(comm, stage, &ask);
}

static int ask_group(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng)
{
    struct question ask[4];
    int n = gyre_size(comm);
    for (int i = 0; i < 4; i++)
        ask[i] = draw_question(rng, n, ROOM / 64 / (uint64_t)n);
    return ask_in_group(comm, stage, ask, 4, ROOM / 4);
}

/* A part of the odd and one of the even ranks, each asked once, and gone. */
static int ask_part(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng)
{
    struct gyre_comm *part;
    struct gyre_rng own = *rng;
    gyre_rng_next(rng); /* parts of unequal size draw differently */
    if (gyre_split(comm, gyre_rank(comm) % 2, 0, &part))
        return rig_check(false, comm, "split");
    int bad = ask_one(part, stage, &own);
    return gyre_finalize(part) || bad;
}

static uint32_t said(int from, uint64_t turn, uint64_t i)
{
    return (uint32_t)(gyre_mix64(turn) + (uint64_t)from * 77 + i * 3);
}

/* Around the ring, received before it is sent. */
static int send_around(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng)
{
    uint64_t turn = gyre_rng_next(rng), count = 1 + turn % (ROOM / 8);
    int rank = gyre_rank(comm), n = gyre_size(comm), left = (rank + n - 1) % n;
    uint32_t *in = (uint32_t *)(void *)stage->memory[0];
    uint32_t *out = (uint32_t *)(void *)stage->memory[2];
    struct gyre_work *work[2] = {0};
    for (uint64_t i = 0; i < count; i++)
        out[i] = said(rank, turn, i);
    if (gyre_recv_start(comm, in, count, GYRE_I32, left, &work[0]) ||
        gyre_send_start(comm, out, count, GYRE_I32, (rank + 1) % n, &work[1]) ||
        gyre_work_wait(work[0], -1) || gyre_work_wait(work[1], -1))
        return rig_check(false, comm, "a message");
    for (uint64_t i = 0; i < count; i++)
        if (in[i] != said(left, turn, i))
            return rig_check(false, comm, "a message's bytes");
    return 0;
}

int turns_take(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng)
{
    switch (gyre_rng_below(rng, 10)) {
    case 0:
        return ask_group(comm, stage, rng);
    case 1:
        return ask_part(comm, stage, rng);
    case 2:
    case 3:
        return send_around(comm, stage, rng);
    case 4:
        return rig_check(!gyre_barrier(comm), comm, "barrier");
    default:
        return ask_one(comm, stage, rng);
    }
}
