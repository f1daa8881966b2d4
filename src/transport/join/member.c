/* Every rank's side of joining: its records for rank 0, and its actions on rank 0's records.
 *
 *     GATHER ──ROSTER──▶ PAIR ──report──▶ PLAN ──PLAN──▶ MESH ──done──▶ GO ──GO──▶ JOINED
 *
 * Upper-case arrows are rank 0's records, lower-case ones this rank's. Rank 0 runs the same code;
 * its own records go through the inbox. A record that comes in another phase than its own is
 * GYRE_CORRUPT, so each record is acted on once.
 *
 * Tested by tests/program/job/join.c. */
#include "transport/join/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* -- telling rank 0 ---------------------------------------------------------------------------- */

int gyre_member_introduce(struct gyre_joining *join, struct gyre_talk *talk)
{
    uint8_t payload[512 + GYRE_JOIN_CONFIG_MAX];
    const char *text = join->options->configuration_text;
    struct gyre_cursor out = gyre_cursor_over(payload, sizeof payload);
    gyre_identity_put(&out, &join->identity[join->joined->rank]);
    gyre_put_text(&out, text ? text : "", GYRE_JOIN_CONFIG_MAX);
    int status = gyre_talk_say(talk, GYRE_JOIN_INTRODUCTION, payload, (size_t)(out.at - payload));
    return status == -ECONNRESET ? gyre_join_rank_gone(join, 0) : status;
}

static int tell_root(struct gyre_joining *join, uint16_t kind, const void *payload, size_t length)
{
    if (join->joined->rank == 0)
        return gyre_join_leave_record(join, kind, payload, length);
    struct gyre_control *root = &join->control[0];
    (void)gyre_talk_say(&root->talk, kind, payload,
                        length); /* a broken connection is seen when it is read */
    return gyre_join_rearm(join, &root->io_slot, gyre_talk_pending(&root->talk));
}

int gyre_member_tell_failure(struct gyre_joining *join, const struct gyre_trouble *failure,
                             bool echo)
{
    uint8_t payload[GYRE_STORY_BYTES];
    struct gyre_story story = {.status = failure->status, .echo = echo};
    if (join->told || join->control[0].talk.fd < 0)
        return 0;
    snprintf(story.text, sizeof story.text, "%s", failure->text);
    return tell_root(join, GYRE_JOIN_FAILURE, payload, gyre_story_encode(&story, payload));
}

/* Reports the lower ranks that share memory with this one, and the address of its data listener. */
static int report_pairs(struct gyre_joining *join)
{
    uint32_t rank = join->joined->rank;
    struct gyre_join_report report;
    int status = gyre_join_mesh_open(join, &report.address);
    if (status)
        return status;
    uint8_t *shares = calloc(1, rank / 8 + 1), *payload = malloc(gyre_join_report_bytes(rank));
    snprintf(report.why, sizeof report.why, "%s", gyre_pairing_why(join));
    report.shares = shares;
    for (uint32_t peer = 0; shares && peer < rank; peer++)
        shares[peer / 8] |= (uint8_t)((join->joined->peer[peer].unix_fd >= 0) << (peer % 8));
    if (shares && payload)
        status = tell_root(join, GYRE_JOIN_REPORT, payload,
                           gyre_join_report_encode(&report, rank, payload));
    else
        status = gyre_trouble_set(join->trouble, -ENOMEM, "no memory to report to rank 0");
    free(payload);
    free(shares);
    return status;
}

int gyre_member_advance(struct gyre_joining *join)
{
    if (join->phase == GYRE_PHASE_PAIR && !gyre_pairing_busy(join)) {
        join->phase = GYRE_PHASE_PLAN;
        return report_pairs(join);
    }
    if (join->phase == GYRE_PHASE_MESH && !gyre_join_mesh_busy(join) && !gyre_pairing_busy(join)) {
        join->phase = GYRE_PHASE_GO;
        gyre_join_mesh_rest(join);
        return tell_root(join, GYRE_JOIN_DONE, NULL, 0);
    }
    return 0;
}

/* -- hearing rank 0 ---------------------------------------------------------------------------- */

/* Sets the deadline of a phase. Other ranks wait longer than rank 0, so that its story comes before
 * their own guess. */
static void set_phase_deadline(struct gyre_joining *join)
{
    uint64_t patience = gyre_join_phase_timeout(join);
    join->deadline = join->now + (join->joined->rank ? patience + patience / 2 : patience);
}

/* Which data connections are made at their first use, as all ranks conclude from the roster. */
static void settle_channels(struct gyre_joining *join)
{
    struct gyre_joined *joined = join->joined;
    uint32_t at_once = gyre_join_links_at_once(join->options);
    uint8_t most = GYRE_CHANNELS_NONE;
    for (uint32_t rank = 0; rank < joined->n; rank++)
        if (join->identity[rank].channels > most)
            most = join->identity[rank].channels;
    joined->partners = most == GYRE_CHANNELS_PARTNERS;
    joined->on_demand = most <= GYRE_CHANNELS_PARTNERS &&
                        joined->n > (joined->partners ? GYRE_DEVICE_LINKS * at_once : at_once);
}

static int hear_roster(struct gyre_joining *join, const struct gyre_record *record)
{
    if (gyre_roster_decode(record, join->joined->n, join->nonce, join->identity))
        return GYRE_CORRUPT;
    const struct gyre_piece secret = {join->job->key, GYRE_KEY_BYTES},
                            salt = {join->nonce, sizeof join->nonce};
    for (uint32_t rank = 0; rank < join->joined->n; rank++)
        gyre_join_note_member(join, rank);
    settle_channels(join);
    int status = gyre_hkdf_sha256(secret, salt, (struct gyre_piece){"gyre session", 12},
                                  join->joined->session_key, GYRE_KEY_BYTES);
    join->phase = GYRE_PHASE_PAIR;
    set_phase_deadline(join);
    return status ? status : gyre_pairing_start(join);
}

/* Counts nodes, and each rank's place in its own. `ranks`: of each node, zeros before. */
static void count_nodes(struct gyre_joined *joined, uint32_t *ranks)
{
    for (uint32_t rank = 0; rank < joined->n; rank++) {
        struct gyre_member *member = &joined->member[rank];
        member->local_rank = (int32_t)ranks[member->node]++;
        joined->nodes = member->node + 1 > joined->nodes ? member->node + 1 : joined->nodes;
    }
    joined->node = joined->member[joined->rank].node;
    joined->local_rank = (uint32_t)joined->member[joined->rank].local_rank;
    joined->local_size = ranks[joined->node];
}

/* Whether a node of so many ranks is on a large machine. */
static bool is_large(const struct gyre_joining *join, uint32_t lowest, uint32_t ranks)
{
    const uint32_t n = join->joined->n, at_once = gyre_join_links_at_once(join->options);
    return n > at_once && ranks > 1 &&
           gyre_identity_machine(join->identity, n, lowest).ranks > at_once;
}

/* Finds the large nodes, and whether there is a tree. `ranks`: of each node; afterwards, whether it
 * is large. */
static void draw_tree(struct gyre_joining *join, uint32_t *ranks)
{
    struct gyre_joined *joined = join->joined;
    bool tree = joined->nodes > gyre_join_links_at_once(join->options);
    for (uint32_t rank = 0; rank < joined->n; rank++) {
        struct gyre_member *member = &joined->member[rank];
        if (member->local_rank == 0)
            ranks[member->node] = is_large(join, rank, ranks[member->node]);
        member->large = ranks[member->node] != 0;
        tree |= member->large;
    }
    joined->fan_out = tree ? GYRE_WATCH_FAN_OUT : 0;
}

static int hear_plan(struct gyre_joining *join, const struct gyre_record *record)
{
    if (gyre_plan_decode(record, join->joined->n, join->joined->member))
        return GYRE_CORRUPT;
    uint32_t *ranks = calloc(join->joined->n, sizeof *ranks);
    if (!ranks)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory for %u ranks", join->joined->n);
    count_nodes(join->joined, ranks);
    draw_tree(join, ranks);
    free(ranks);
    join->phase = GYRE_PHASE_MESH;
    set_phase_deadline(join);
    int status = gyre_pairing_settle(join);
    return status ? status : gyre_join_mesh_start(join);
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
        return join->phase == GYRE_PHASE_GATHER ? hear_roster(join, record) : GYRE_CORRUPT;
    case GYRE_JOIN_PLAN:
        return join->phase == GYRE_PHASE_PLAN ? hear_plan(join, record) : GYRE_CORRUPT;
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
