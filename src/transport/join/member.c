/* Every rank's side of joining: what it tells rank 0, and what it does when rank 0 speaks.
 *
 *     GATHER ──ROSTER──▶ PAIR ──report──▶ PLAN ──PLAN──▶ MESH ──done──▶ GO ──GO──▶ JOINED
 *
 * Upper-case arrows are rank 0's words, lower-case ones this rank's. Rank 0 runs the same code:
 * what it would send to itself arrives by a call. A record that comes in another phase than its own
 * is GYRE_CORRUPT, so each is acted on once. A rank that sees a connection break tells rank 0 and
 * waits for rank 0's word, because what it saw may be the echo of a death elsewhere. */
#include "transport/join/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ECHO GYRE_SECOND /* rank 0 decides within this what broke a connection */

/* -- telling rank 0 ---------------------------------------------------------------------------- */

static int root_lost(struct gyre_joining *join)
{
    char who[GYRE_JOIN_WHO_MAX];
    join->told = true; /* there is nobody to tell */
    return gyre_trouble_set(join->trouble, GYRE_PEER_LOST,
                            "%s went away while the job was joining: look at its output",
                            gyre_join_who(join, 0, who));
}

int gyre_join_introduce(struct gyre_joining *join, struct gyre_talk *talk)
{
    uint8_t payload[512 + GYRE_JOIN_CONFIG_MAX];
    const char *text = join->options->configuration_text;
    struct gyre_cursor out = gyre_cursor_over(payload, sizeof payload);
    gyre_identity_put(&out, &join->identity[join->joined->rank]);
    gyre_put_text(&out, text ? text : "", GYRE_JOIN_CONFIG_MAX);
    int status = gyre_talk_say(talk, GYRE_JOIN_INTRODUCTION, payload, (size_t)(out.at - payload));
    return status == -ECONNRESET ? root_lost(join) : status;
}

static int tell_root(struct gyre_joining *join, uint16_t kind, const void *payload, size_t length)
{
    struct gyre_record record = {kind, (uint8_t *)(uintptr_t)payload, length};
    if (join->joined->rank == 0)
        return gyre_root_hears(join, 0, &record);
    struct gyre_control *root = &join->control[0];
    (void)gyre_talk_say(&root->talk, kind, payload,
                        length); /* a broken one is seen when it is read */
    return gyre_join_rearm(join, &root->io_slot, gyre_talk_pending(&root->talk));
}

static int tell_story(struct gyre_joining *join, int status, bool echo, const char *text)
{
    uint8_t payload[GYRE_STORY_BYTES];
    struct gyre_story story = {.status = status, .echo = echo};
    snprintf(story.text, sizeof story.text, "%s", text);
    return tell_root(join, GYRE_JOIN_FAILURE, payload, gyre_story_encode(&story, payload));
}

int gyre_join_lost(struct gyre_joining *join, uint32_t peer, const char *what)
{
    char me[GYRE_JOIN_WHO_MAX], them[GYRE_JOIN_WHO_MAX], text[GYRE_JOIN_TEXT_MAX];
    if (join->echo_until)
        return 0;
    snprintf(text, sizeof text, "%s %s, says %s", gyre_join_who(join, peer, them), what,
             gyre_join_who(join, join->joined->rank, me));
    if (join->joined->rank) {
        gyre_trouble_set(&join->echo, GYRE_PEER_LOST, "%s", text);
        join->echo_until = join->now + ECHO;
    }
    return tell_story(join, GYRE_PEER_LOST, true, text);
}

void gyre_member_fails(struct gyre_joining *join, int status)
{
    if (!join->told && join->control[0].talk.fd >= 0)
        (void)tell_story(join, status, false, join->trouble->text);
}

/* Who shares memory with this rank among the lower ones, and where its data listener is. */
static int report_pairs(struct gyre_joining *join)
{
    uint32_t rank = join->joined->rank;
    size_t size = GYRE_ADDRESS_BYTES + 2 + GYRE_JOIN_WHY_MAX + (rank + 7) / 8;
    struct sockaddr_storage address;
    int status = gyre_join_mesh_open(join, &address);
    uint8_t *payload = status ? NULL : calloc(1, size);
    if (!payload)
        return status ? status
                      : gyre_trouble_set(join->trouble, -ENOMEM, "no memory to report to rank 0");
    struct gyre_cursor out = gyre_cursor_over(payload, size);
    gyre_address_put(&out, &address);
    gyre_put_text(&out, gyre_pairing_why(join), GYRE_JOIN_WHY_MAX);
    uint8_t *bits = gyre_cursor_skip(&out, (rank + 7) / 8);
    for (uint32_t peer = 0; peer < rank; peer++)
        bits[peer / 8] |= (uint8_t)((join->joined->peer[peer].unix_fd >= 0) << (peer % 8));
    status = tell_root(join, GYRE_JOIN_REPORT, payload, (size_t)(out.at - payload));
    free(payload);
    return status;
}

int gyre_member_advance(struct gyre_joining *join)
{
    if (join->phase == GYRE_PHASE_PAIR && !gyre_pairing_busy(join)) {
        join->phase = GYRE_PHASE_PLAN;
        return report_pairs(join);
    }
    if (join->phase == GYRE_PHASE_MESH && !gyre_join_mesh_busy(join)) {
        join->phase = GYRE_PHASE_GO;
        return tell_root(join, GYRE_JOIN_DONE, NULL, 0);
    }
    return 0;
}

/* -- hearing rank 0 ---------------------------------------------------------------------------- */

/* Others wait longer than rank 0, so that its story comes before their own guess. */
static void set_deadline(struct gyre_joining *join)
{
    uint64_t patience = gyre_join_phase_timeout(join);
    join->deadline = join->now + (join->joined->rank ? patience + patience / 2 : patience);
}

static int hear_roster(struct gyre_joining *join, struct gyre_cursor *in)
{
    const struct gyre_piece secret = {join->job->key, GYRE_KEY_BYTES},
                            salt = {join->nonce, sizeof join->nonce};
    gyre_get_bytes(in, join->nonce, sizeof join->nonce);
    for (uint32_t rank = 0; rank < join->joined->n; rank++) {
        struct gyre_member *member = &join->joined->member[rank];
        gyre_identity_get(in, &join->identity[rank]);
        memcpy(member->host, join->identity[rank].host, sizeof member->host);
        member->pid = join->identity[rank].pid;
        memcpy(member->device, join->identity[rank].device, sizeof member->device);
    }
    if (in->bad)
        return GYRE_CORRUPT;
    int status = gyre_hkdf_sha256(secret, salt, (struct gyre_piece){"gyre session", 12},
                                  join->joined->session_key, GYRE_KEY_BYTES);
    join->phase = GYRE_PHASE_PAIR;
    set_deadline(join);
    return status ? status : gyre_pairing_start(join);
}

static void count_nodes(struct gyre_joined *joined)
{
    for (uint32_t rank = 0; rank < joined->n; rank++) {
        struct gyre_member *member = &joined->member[rank];
        for (uint32_t lower = 0; lower < rank; lower++)
            member->local_rank += joined->member[lower].node == member->node;
        joined->nodes = member->node + 1 > joined->nodes ? member->node + 1 : joined->nodes;
        joined->local_size += member->node == joined->member[joined->rank].node;
    }
    joined->node = joined->member[joined->rank].node;
    joined->local_rank = (uint32_t)joined->member[joined->rank].local_rank;
}

static int hear_plan(struct gyre_joining *join, struct gyre_cursor *in)
{
    for (uint32_t rank = 0; rank < join->joined->n; rank++) {
        struct gyre_member *member = &join->joined->member[rank];
        member->node = (uint32_t)gyre_get_u64(in, 4);
        gyre_address_get(in, &member->address);
        if (member->node > rank)
            return GYRE_CORRUPT;
    }
    if (in->bad)
        return GYRE_CORRUPT;
    count_nodes(join->joined);
    join->phase = GYRE_PHASE_MESH;
    set_deadline(join);
    int status = gyre_pairing_settle(join);
    if (!status)
        status = gyre_join_mesh_start(join);
    return status ? status : gyre_member_advance(join);
}

static int hear_failure(struct gyre_joining *join, const struct gyre_record *record)
{
    struct gyre_story story;
    if (gyre_story_decode(record, &story))
        return GYRE_CORRUPT;
    join->told = true;
    return gyre_trouble_set(join->trouble, story.status, "%s", story.text);
}

static int hear_refusal(struct gyre_joining *join, const struct gyre_record *record)
{
    struct gyre_refusal refusal;
    if (gyre_refusal_decode(record->payload, record->length, &refusal))
        return GYRE_CORRUPT;
    join->told = true;
    return gyre_trouble_set(join->trouble, GYRE_REFUSED, "%s", refusal.text);
}

static int hear_record(struct gyre_joining *join, const struct gyre_record *record)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    switch (record->kind) {
    case GYRE_JOIN_ROSTER:
        return join->phase == GYRE_PHASE_GATHER ? hear_roster(join, &in) : GYRE_CORRUPT;
    case GYRE_JOIN_PLAN:
        return join->phase == GYRE_PHASE_PLAN ? hear_plan(join, &in) : GYRE_CORRUPT;
    case GYRE_JOIN_GO:
        if (join->phase != GYRE_PHASE_GO)
            return GYRE_CORRUPT;
        join->phase = GYRE_PHASE_JOINED;
        return 0;
    case GYRE_JOIN_WAITING:
        gyre_get_text(&in, join->waiting, sizeof join->waiting);
        return 0;
    case GYRE_JOIN_FAILURE:
        return hear_failure(join, record);
    case GYRE_JOIN_REFUSAL:
        return hear_refusal(join, record);
    default:
        return GYRE_CORRUPT;
    }
}

int gyre_member_hears(struct gyre_joining *join, const struct gyre_record *record)
{
    int status = hear_record(join, record);
    if (status == GYRE_CORRUPT && !join->trouble->status)
        gyre_trouble_set(join->trouble, status,
                         "rank 0 sent a record (kind %u) that does not belong here", record->kind);
    return status;
}

/* -- control connections ----------------------------------------------------------------------- */

static int control_lost(struct gyre_joining *join, uint32_t rank)
{
    gyre_join_remove_slot(join, &join->control[join->joined->rank ? 0 : rank].io_slot);
    return join->joined->rank == 0 ? gyre_root_lost(join, rank) : root_lost(join);
}

static int control_ready(struct gyre_joining *join, struct gyre_io_slot *io_slot)
{
    struct gyre_control *control = (struct gyre_control *)io_slot;
    struct gyre_record record;
    int status = 0;
    while (!status && join->phase != GYRE_PHASE_JOINED) {
        status = gyre_talk_step(&control->talk, &record);
        if (status < 0)
            return control_lost(join, io_slot->peer);
        if (!status)
            status = join->joined->rank ? gyre_member_hears(join, &record)
                                        : gyre_root_hears(join, io_slot->peer, &record);
    }
    if (status < 0)
        return status;
    return gyre_join_rearm(join, io_slot, gyre_talk_pending(&control->talk));
}

int gyre_join_control(struct gyre_joining *join, uint32_t index, struct gyre_talk *talk)
{
    struct gyre_control *control = &join->control[index];
    control->talk = *talk;
    gyre_talk_open(talk, -1);
    control->talk.limit =
        GYRE_RECORD_SMALL + (join->joined->rank ? 256 * (size_t)join->joined->n : 0);
    control->io_slot = (struct gyre_io_slot){.fd = -1, .peer = index, .ready = control_ready};
    gyre_socket_tune(control->talk.fd, join->options->dead_time_ms);
    return gyre_join_add_slot(join, &control->io_slot, control->talk.fd,
                              gyre_talk_pending(&control->talk));
}
