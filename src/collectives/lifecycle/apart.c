/* Parts of a communicator as groups of their own, which fail, shrink and end for themselves.
 *
 *     parent      0    1    2    3     every rank tells every rank its color and key (colors.c)
 *     color       7    7    9   -1
 *     words       │    ╰────┼─── each rank: prepared, or why not; a part's first rank: where it
 *                 │         │    listens
 *     part        0 ── 1    0          joined over that address, as any job is
 *
 * The parent is where the ranks meet, and nothing else: the part has links, watch, memory and a key
 * of its own. The key is made of the parent's session key, the color and bytes that the parent's
 * rank 0 draws for each call, so no two parts have one key.
 *
 * What is wrong on one rank before its part joins, such as too many open files, is told in its
 * words: then all fail, and no part is made.
 *
 * Tested by tests/program/failures/apart.c. */
#include "collectives/lifecycle/apart.h"

#include "base/rng.h"
#include "collectives/comm/arguments.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/colors.h"
#include "collectives/lifecycle/world.h"
#include "transport/net/crypto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRAWN_BYTES = 16 };

struct part_word { /* a rank's, to all ranks of the parent */
    int32_t status;
    uint32_t port; /* port and host: where a part's first rank listens */
    char host[64];
    char text[400]; /* why, where the status is not 0 */
};

struct parting {
    struct gyre_comm *parent;
    struct gyre_color *color; /* of each rank of the parent */
    struct part_word *word;   /* of each rank of the parent */
    uint32_t *member;         /* the ranks of this rank's part, in its order */
    uint32_t n, rank;         /* of the part; n is 0: this rank is in none */
    struct part_salt {
        uint8_t drawn[DRAWN_BYTES];
        int64_t color;
    } salt;
    struct gyre_job job;
    int listener; /* of the part's first rank; -1: none */
    struct gyre_comm *made;
    struct gyre_trouble *trouble;
};

static int open_parting(struct parting *parting, struct gyre_comm *parent)
{
    parting->parent = parent;
    parting->listener = -1;
    parting->color = calloc(parent->n, sizeof *parting->color);
    parting->word = calloc(parent->n, sizeof *parting->word);
    parting->member = calloc(parent->n, sizeof *parting->member);
    if (parting->color && parting->word && parting->member)
        return 0;
    return gyre_trouble_set(parting->trouble, -ENOMEM, "gyre_split_apart: no memory for %u ranks",
                            parent->n);
}

static void close_parting(struct parting *parting)
{
    if (parting->listener >= 0)
        close(parting->listener);
    gyre_wipe(&parting->job, sizeof parting->job);
    free(parting->color);
    free(parting->word);
    free(parting->member);
}

/* -- before the ranks meet --------------------------------------------------------------------- */

static int find_members(struct parting *parting, int color)
{
    const struct gyre_comm *parent = parting->parent;
    if (color < 0)
        return 0;
    parting->n = gyre_colors_list(parent, parting->color, parting->member);
    for (uint32_t rank = 0; rank < parting->n; rank++)
        if (parting->member[rank] == parent->rank)
            parting->rank = rank;
    return parting->n ? 0
                      : gyre_trouble_set(parting->trouble, -ENOMEM,
                                         "gyre_split_apart: no memory for %u ranks", parent->n);
}

/* Has rank 0 of the parent draw bytes, and tells them to all. */
static int draw_salt(struct parting *parting, int color)
{
    struct gyre_comm *parent = parting->parent;
    uint8_t *drawn = parting->salt.drawn;
    int drew = parent->rank ? 0 : gyre_random_bytes(drawn, DRAWN_BYTES);
    if (drew)
        gyre_trouble_set(parting->trouble, drew, "gyre_split_apart: cannot draw random bytes");
    parting->salt.color = color;
    return gyre_colors_reduce(parent, drawn, DRAWN_BYTES, GYRE_U8, GYRE_MAX);
}

/* Derives `length` bytes for the part from what only ranks of the parent know. */
static int derive(struct parting *parting, const char *purpose, uint8_t *out, size_t length)
{
    const uint8_t *session = gyre_domain_joined(parting->parent->domain)->session_key;
    const struct gyre_piece secret = {session, GYRE_KEY_BYTES};
    const struct gyre_piece salt = {&parting->salt, sizeof parting->salt};
    int status =
        gyre_hkdf_sha256(secret, salt, (struct gyre_piece){purpose, strlen(purpose)}, out, length);
    return status ? gyre_trouble_set(parting->trouble, status,
                                     "gyre_split_apart: libcrypto cannot derive a key")
                  : 0;
}

static int describe_part_job(struct parting *parting)
{
    struct gyre_job *job = &parting->job;
    *job = *gyre_domain_job(parting->parent->domain);
    job->rank = job->first_here = (int)parting->rank;
    job->world = (int)parting->n;
    job->ranks_here = 1;
    job->root_kind = GYRE_ROOT_HELD;
    job->root_port_tries = 1;
    job->root_fd = -1;
    job->group = true;
    job->key_in_place = false;
    int status = derive(parting, "gyre part id", job->id, sizeof job->id);
    if (!status)
        status = derive(parting, "gyre part key", job->key, sizeof job->key);
    return status ? status : derive(parting, "gyre part key id", job->key_id, sizeof job->key_id);
}

/* Has the part's first rank listen. */
static int listen_for_part(struct parting *parting, struct part_word *mine)
{
    uint16_t port = 0;
    if (parting->rank || parting->n < 2)
        return 0;
    int fd = gyre_domain_listen(parting->parent->domain, mine->host, &port, parting->trouble);
    parting->listener = fd;
    mine->port = port;
    return fd < 0 ? fd : 0;
}

/* Tells all ranks of the parent whether this one can go on, and hears them. */
static int tell_words(struct parting *parting, struct part_word *mine)
{
    const struct gyre_comm *parent = parting->parent;
    const struct gyre_member *member = gyre_domain_joined(parent->domain)->member;
    const uint64_t bytes = sizeof *mine;
    const struct gyre_request request = {
        .shape = {.verb = GYRE_VERB_ALL_GATHER, .type = GYRE_U8, .count = bytes},
        .input = {.address = mine, .bytes = bytes},
        .output = {.address = parting->word, .bytes = parent->n * bytes}};
    mine->status = parting->trouble->status;
    snprintf(mine->text, sizeof mine->text, "%s", parting->trouble->text);
    int status = gyre_world_run(parting->parent, &request, parting->trouble);
    if (status)
        return status;
    for (uint32_t rank = 0; rank < parent->n; rank++) {
        const struct gyre_member *at = &member[gyre_comm_world(parent, rank)];
        if (!parting->word[rank].status)
            continue;
        *parting->trouble = (struct gyre_trouble){0};
        return gyre_trouble_set(parting->trouble, parting->word[rank].status,
                                "rank %u (%.63s, pid %d): %.400s", rank, at->host, at->pid,
                                parting->word[rank].text);
    }
    return 0;
}

/* Makes what needs no peer. */
static int prepare_part(struct parting *parting, int color, struct part_word *mine)
{
    const int device = gyre_domain_cuda(parting->parent->domain);
    const struct gyre_domain_options options = {
        .job = &parting->job, .device = &device, .beside = parting->parent->domain};
    int status = find_members(parting, color);
    if (status || !parting->n)
        return status;
    status = describe_part_job(parting);
    if (!status)
        status = gyre_world_create(&options, &parting->made, parting->trouble);
    return status ? status : listen_for_part(parting, mine);
}

/* -- the part ---------------------------------------------------------------------------------- */

/* Agrees on who is in which part, and whether every rank can go on. */
static int agree_on_parts(struct parting *parting, int color, int key)
{
    struct part_word mine = {.status = 0};
    int status = gyre_colors_tell(parting->parent, color, key, parting->color);
    if (!status)
        status = draw_salt(parting, color);
    if (status)
        return gyre_trouble_set(parting->trouble, status, "%s",
                                gyre_progress_story(parting->parent->progress));
    if (!parting->trouble->status)
        (void)prepare_part(parting, color, &mine); /* its trouble goes into this rank's word */
    return tell_words(parting, &mine);
}

static int meet_part(struct parting *parting)
{
    const struct part_word *first = &parting->word[parting->member[0]];
    gyre_domain_set_root(parting->made->domain, first->host, (uint16_t)first->port,
                         parting->listener);
    return gyre_world_meet(parting->made, "gyre_split_apart", parting->trouble);
}

static int split_apart(struct parting *parting, int color, int key)
{
    int status = agree_on_parts(parting, color, key);
    if (!status && parting->n)
        status = meet_part(parting);
    if (status && parting->made)
        gyre_world_free(parting->made, NULL);
    return status;
}

int gyre_comm_split_apart(struct gyre_comm *comm, int color, int key, struct gyre_comm **part,
                          struct gyre_trouble *trouble)
{
    struct parting parting = {.trouble = trouble};
    int status = open_parting(&parting, comm);
    gyre_domain_enter(comm->domain);
    gyre_comm_refused(comm, status);
    gyre_domain_leave(comm->domain);
    if (!status)
        status = split_apart(&parting, color, key);
    close_parting(&parting);
    *part = status ? NULL : parting.made;
    return status;
}
