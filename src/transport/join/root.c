/* Rank 0's side of joining: admits or refuses ranks, and tells all of them.
 *
 *     gather   lobby ─▶ admitted ranks, until all are there; missing ones are named meanwhile
 *     pair     ROSTER to all ─▶ a REPORT from each; the matrix of pairs becomes nodes
 *     mesh     PLAN to all ─▶ a DONE from each ─▶ GO to all
 *
 * A logged-in rank that goes away fails the join, because that rank will not come back. When the
 * join has failed, rank 0 stays for a second to tell ranks that are still on their way; otherwise
 * they would look for rank 0 until their time is over. Answers are counted per phase. An answer
 * that does not belong to the phase, or comes twice, is GYRE_CORRUPT.
 *
 * Tested by tests/program/job/join_refused.c and tests/program/job/join_hostile.c. */
#include "transport/join/inside.h"
#include "transport/join/place.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_LINE (2 * GYRE_SECOND)
#define NEXT_LINE  (5 * GYRE_SECOND)
#define SPARE      64

struct gyre_root {
    struct gyre_rendezvous place;
    struct gyre_lobby *lobby;
    uint32_t count;    /* ranks that have answered in this phase, rank 0 among them */
    uint8_t *answered; /* n */
    uint8_t *share;    /* n × n: which pairs share memory */
    uint32_t *node;    /* n */
    uint64_t line_at;
    char why[GYRE_JOIN_WHY_MAX]; /* the reason of some pair that cannot share */
    uint32_t why_rank;
    bool failing;                        /* the join has failed, and later arrivals are told */
    char refused[GYRE_REFUSAL_TEXT + 1]; /* the last guest refused */
};

static bool answered(struct gyre_root *root, uint32_t rank)
{
    bool before = root->answered[rank];
    root->answered[rank] = 1;
    root->count += !before;
    return before;
}

/* Sends a record to all other ranks that have logged in. */
static void tell_others(struct gyre_joining *join, uint16_t kind, const void *payload,
                        size_t length)
{
    for (uint32_t rank = 1; rank < join->controls; rank++) {
        struct gyre_control *control = &join->control[rank];
        if (control->talk.fd < 0)
            continue;
        (void)gyre_talk_say(&control->talk, kind, payload,
                            length); /* a broken connection is seen when it is read */
        (void)gyre_join_rearm(join, &control->io_slot, gyre_talk_pending(&control->talk));
    }
}

/* Lists the ranks that have not answered, as many as fit: "1, 3-5, 9". */
static void list_absent(const struct gyre_joining *join, char *text, size_t size)
{
    const uint8_t *here = join->root->answered;
    uint32_t n = join->joined->n;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t rank = 0; rank < n; rank++) {
        uint32_t first = rank;
        if (here[rank])
            continue;
        while (rank + 1 < n && !here[rank + 1])
            rank++;
        if (used + 32 > size) {
            snprintf(text + used, size - used, ", …");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, first == rank ? "%s%u" : "%s%u-%u",
                                 used ? ", " : "", first, rank);
    }
}

/* Sends a record to all ranks, this rank's own member too, and expects an answer of each. */
static int begin_phase(struct gyre_joining *join, uint16_t kind, const void *payload, size_t length)
{
    memset(join->root->answered, 0, join->joined->n);
    join->root->count = 0;
    tell_others(join, kind, payload, length);
    return gyre_join_leave_record(join, kind, payload, length);
}

/* -- gathering --------------------------------------------------------------------------------- */

static bool local_address(int fd, struct sockaddr_storage *out)
{
    socklen_t length = sizeof *out;
    memset(out, 0, sizeof *out);
    if (getsockname(fd, (struct sockaddr *)out, &length))
        return false;
    gyre_address_normalise(out);
    gyre_address_set_port(out, 0);
    return true;
}

/* Finds the address of rank 0: one by which some rank has reached it. An address reached from
 * outside is better than loopback. */
static void find_own_address(struct gyre_joining *join)
{
    struct sockaddr_storage *own = &join->identity[0].outward, address;
    for (uint32_t rank = 1; rank < join->joined->n && !join->options->interface; rank++)
        if (local_address(join->control[rank].talk.fd, &address) &&
            (!own->ss_family ||
             (gyre_address_is_loopback(own) && !gyre_address_is_loopback(&address))))
            *own = address;
}

/* Corrects the address of a rank on rank 0's machine that came by loopback, where ranks of other
 * machines cannot find it: the rank is reachable where rank 0 is. */
static int check_loopback(struct gyre_joining *join)
{
    const struct gyre_rank_identity *root = &join->identity[0];
    bool several = false;
    for (uint32_t rank = 1; rank < join->joined->n; rank++)
        several |= memcmp(root->boot, join->identity[rank].boot, sizeof root->boot) != 0;
    for (uint32_t rank = 0; rank < join->joined->n && several; rank++) {
        struct gyre_rank_identity *identity = &join->identity[rank];
        char who[GYRE_JOIN_WHO_MAX];
        if (gyre_address_is_loopback(&identity->outward) &&
            !memcmp(identity->boot, root->boot, sizeof identity->boot))
            identity->outward = root->outward;
        if (gyre_address_is_loopback(&identity->outward))
            return gyre_trouble_set(
                join->trouble, GYRE_REFUSED,
                "%s can be reached by loopback only, but the job runs on several machines: set "
                "GYRE_INTERFACE to its network",
                gyre_join_who(join, rank, who));
    }
    return 0;
}

static int send_roster(struct gyre_joining *join)
{
    uint32_t n = join->joined->n;
    size_t length = gyre_roster_bytes(n);
    find_own_address(join);
    int status = check_loopback(join);
    uint8_t *payload = status ? NULL : malloc(length);
    if (!payload)
        return status ? status
                      : gyre_trouble_set(join->trouble, -ENOMEM,
                                         "no memory for the roster of %u ranks", n);
    gyre_roster_encode(join->nonce, join->identity, n, payload);
    /* All ranks are here, and none has to find the place any more. */
    gyre_rendezvous_close(&join->root->place);
    status = begin_phase(join, GYRE_JOIN_ROSTER, payload, length);
    free(payload);
    return status;
}

/* Judges a guest: its claim must fit, and its place must be free. */
static uint32_t judge(const struct gyre_joining *join, const struct gyre_talk *talk, uint32_t rank)
{
    enum gyre_refusal_code code = gyre_handshake_judge(&talk->shake);
    if (code == GYRE_REFUSAL_RANK && rank == 0)
        return GYRE_REFUSAL_DUPLICATE;
    if (!code && (join->phase != GYRE_PHASE_GATHER || join->control[rank].talk.fd >= 0))
        return GYRE_REFUSAL_DUPLICATE;
    return code;
}

static size_t failure_story(const struct gyre_joining *join, uint8_t payload[GYRE_STORY_BYTES])
{
    struct gyre_story story = {.status = join->trouble->status};
    snprintf(story.text, sizeof story.text, "%s", join->trouble->text);
    return gyre_story_encode(&story, payload);
}

/* Tells a late arrival why the join has failed. */
static int tell_late(struct gyre_joining *join, struct gyre_talk *talk)
{
    uint8_t payload[GYRE_STORY_BYTES];
    uint32_t rank = talk->shake.theirs.rank;
    (void)gyre_talk_say(talk, GYRE_JOIN_FAILURE, payload, failure_story(join, payload));
    gyre_talk_close(talk);
    if (rank < join->joined->n)
        answered(join->root, rank);
    return 0;
}

/* Tells the guest why it is refused. A refusal that ends the job fails the join as well. */
static int turn_away(struct gyre_joining *join, const struct gyre_arrival *arrival,
                     const struct gyre_guest *guest, struct gyre_refusal *refusal)
{
    struct gyre_root *root = join->root;
    int status = gyre_guest_refuse_rank(join, guest, refusal);
    int told = gyre_lobby_refuse(root->lobby, arrival, refusal);
    if (status != GYRE_AGAIN) {
        if (guest->claim.rank < join->joined->n)
            answered(root, guest->claim.rank); /* this rank knows */
        return status;
    }
    memcpy(root->refused, refusal->text, sizeof root->refused);
    return told;
}

static int admit_rank(struct gyre_joining *join, const struct gyre_arrival *arrival)
{
    static struct gyre_guest guest; /* 4 KiB, not on the stack; one join runs at a time */
    struct gyre_root *root = join->root;
    struct gyre_talk *talk = arrival->talk;
    struct gyre_refusal refusal = {0};
    if (gyre_guest_read(talk, &arrival->record, &guest)) {
        gyre_talk_close(talk);
        return 0;
    }
    if (root->failing)
        return tell_late(join, talk);
    uint32_t rank = guest.claim.rank;
    refusal.code = judge(join, talk, rank);
    if (refusal.code)
        return turn_away(join, arrival, &guest, &refusal);
    join->identity[rank] = guest.identity;
    gyre_join_note_member(join, rank);
    answered(root, rank);
    int status = gyre_join_control(join, rank, talk);
    return status || root->count < join->joined->n ? status : send_roster(join);
}

int gyre_root_ready(struct gyre_joining *join, struct gyre_io_slot *io_slot)
{
    struct gyre_arrival arrival;
    int status = gyre_lobby_ready(join->root->lobby, io_slot, &arrival);
    return status == GYRE_AGAIN ? 0 : status ? status : admit_rank(join, &arrival);
}

/* -- answers ----------------------------------------------------------------------------------- */

/* Reads a report: bits for the ranks below. The higher rank of a pair speaks for both. */
static int read_report(struct gyre_joining *join, uint32_t rank, const struct gyre_record *record)
{
    struct gyre_root *root = join->root;
    uint32_t n = join->joined->n;
    struct gyre_join_report report;
    if (gyre_join_report_decode(record, rank, &report))
        return GYRE_CORRUPT;
    join->joined->member[rank].address = report.address;
    for (uint32_t peer = 0; peer < rank; peer++)
        root->share[(size_t)rank * n + peer] = root->share[(size_t)peer * n + rank] =
            report.shares[peer / 8] >> (peer % 8) & 1;
    if (report.why[0] && !root->why[0]) {
        memcpy(root->why, report.why, sizeof root->why);
        root->why_rank = rank;
    }
    return 0;
}

static int check_transport(struct gyre_joining *join, uint32_t nodes)
{
    char who[GYRE_JOIN_WHO_MAX];
    if (nodes == 1 || join->options->nodes != GYRE_NODES_SHARE_ALL)
        return 0;
    return gyre_trouble_set(join->trouble, GYRE_UNSUPPORTED,
                            "transport \"shm\" needs all ranks to share memory, but %s and another "
                            "rank cannot: %s; use "
                            "\"auto\"",
                            gyre_join_who(join, join->root->why_rank, who), join->root->why);
}

static int send_plan(struct gyre_joining *join)
{
    struct gyre_root *root = join->root;
    uint32_t n = join->joined->n;
    size_t length = gyre_plan_bytes(n);
    if (join->options->nodes != GYRE_NODES_APART)
        gyre_nodes_share_by_lowest(join->identity, n, gyre_join_links_at_once(join->options),
                                   root->share);
    int status = check_transport(join, gyre_nodes_assign(n, root->share, root->node));
    uint8_t *payload = status ? NULL : malloc(length);
    if (!payload)
        return status ? status
                      : gyre_trouble_set(join->trouble, -ENOMEM,
                                         "no memory for the plan of %u ranks", n);
    for (uint32_t rank = 0; rank < n; rank++)
        join->joined->member[rank].node = root->node[rank];
    gyre_plan_encode(join->joined->member, n, payload);
    status = begin_phase(join, GYRE_JOIN_PLAN, payload, length);
    free(payload);
    return status;
}

static int hears_failure(struct gyre_joining *join, uint32_t rank, const struct gyre_record *record)
{
    struct gyre_story story;
    if (gyre_story_decode(record, &story))
        return GYRE_CORRUPT;
    int status =
        gyre_trouble_set(story.echo ? &join->loss : join->trouble, story.status, "%s", story.text);
    return story.echo ? 0 : status;
}

/* Takes the introduction of a rank that found this one without a rendezvous. */
static int hears_introduction(struct gyre_joining *join, uint32_t rank,
                              const struct gyre_record *record)
{
    static struct gyre_guest guest; /* as in admit_rank() */
    if (!join->options->company || join->phase != GYRE_PHASE_GATHER ||
        gyre_guest_read(&join->control[rank].talk, record, &guest) || answered(join->root, rank))
        return GYRE_CORRUPT;
    join->identity[rank] = guest.identity;
    gyre_join_note_member(join, rank);
    return join->root->count < join->joined->n ? 0 : send_roster(join);
}

static int hears(struct gyre_joining *join, uint32_t rank, const struct gyre_record *record)
{
    struct gyre_root *root = join->root;
    if (record->kind == GYRE_JOIN_FAILURE)
        return hears_failure(join, rank, record);
    if (record->kind == GYRE_JOIN_INTRODUCTION)
        return hears_introduction(join, rank, record);
    bool expected = record->kind == GYRE_JOIN_REPORT
                        ? join->phase == GYRE_PHASE_PAIR || join->phase == GYRE_PHASE_PLAN
                        : record->kind == GYRE_JOIN_DONE && join->phase >= GYRE_PHASE_MESH;
    if (!expected || answered(root, rank))
        return GYRE_CORRUPT;
    int status = record->kind == GYRE_JOIN_REPORT ? read_report(join, rank, record) : 0;
    if (status || root->count < join->joined->n)
        return status;
    if (record->kind == GYRE_JOIN_REPORT)
        return send_plan(join);
    return begin_phase(join, GYRE_JOIN_GO, NULL, 0);
}

int gyre_root_hears(struct gyre_joining *join, uint32_t rank, const struct gyre_record *record)
{
    char who[GYRE_JOIN_WHO_MAX];
    int status = hears(join, rank, record);
    if (status == GYRE_CORRUPT && !join->trouble->status)
        gyre_trouble_set(join->trouble, status,
                         "%s sent a record (kind %u) that does not belong here",
                         gyre_join_who(join, rank, who), record->kind);
    return status;
}

/* -- time -------------------------------------------------------------------------------------- */

static int gather_over(struct gyre_joining *join, const char *missing)
{
    const struct gyre_root *root = join->root;
    return gyre_trouble_set(join->trouble, GYRE_TIMED_OUT,
                            "%u of %u ranks did not join within %.1f s: rank %s missing (job from "
                            "%s, rank 0 on %s)%s%s",
                            join->joined->n - root->count, join->joined->n,
                            join->options->join_timeout_ms / 1000.0, missing, join->job->source,
                            gyre_host_name(), root->refused[0] ? "; refused meanwhile: " : "",
                            root->refused);
}

static void name_missing(struct gyre_joining *join, const char *missing)
{
    char text[400];
    uint8_t payload[sizeof text + 2];
    struct gyre_cursor out = gyre_cursor_over(payload, sizeof payload);
    snprintf(text, sizeof text, "waiting for rank %s of %u", missing, join->joined->n);
    gyre_log(GYRE_LOG_WARN, "%s (%.0f of at most %.0f s)", text,
             (double)(join->now - join->started) / (double)GYRE_SECOND,
             join->options->join_timeout_ms / 1000.0);
    gyre_put_text(&out, text, sizeof text);
    tell_others(join, GYRE_JOIN_WAITING, payload, (size_t)(out.at - payload));
}

static int phase_over(struct gyre_joining *join, const char *missing)
{
    char who[GYRE_JOIN_WHO_MAX];
    uint32_t first = 0;
    while (first + 1 < join->joined->n && join->root->answered[first])
        first++;
    return gyre_trouble_set(
        join->trouble, GYRE_PEER_LOST,
        "%s has not answered for %.1f s while the ranks were connecting (waiting for rank %s)",
        gyre_join_who(join, first, who),
        (double)gyre_join_phase_timeout(join) / (double)GYRE_SECOND, missing);
}

int gyre_root_tick(struct gyre_joining *join)
{
    struct gyre_root *root = join->root;
    char missing[256];
    gyre_lobby_tick(root->lobby, join->now);
    bool gathering = join->phase == GYRE_PHASE_GATHER;
    if (join->now < join->deadline && (!gathering || join->now < root->line_at))
        return 0;
    list_absent(join, missing, sizeof missing);
    if (join->now >= join->deadline)
        return gathering ? gather_over(join, missing) : phase_over(join, missing);
    root->line_at = join->now + NEXT_LINE;
    name_missing(join, missing);
    return 0;
}

/* -- opening and closing ----------------------------------------------------------------------- */

static int make_matrix(struct gyre_joining *join, struct gyre_root *root)
{
    size_t n = join->joined->n;
    root->answered = calloc(n, 1);
    root->share = calloc(n, n);
    root->node = calloc(n, sizeof *root->node);
    if (!root->answered || !root->share || !root->node)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory to gather %zu ranks", n);
    return 0;
}

static int open_lobby(struct gyre_joining *join, struct gyre_root *root)
{
    uint32_t n = join->joined->n;
    struct gyre_lobby_options lobby = {.claim = gyre_join_claim(join, GYRE_PURPOSE_JOIN, 0),
                                       .slots = n + SPARE,
                                       .per_address = n < 16 ? 16 : n,
                                       .introduction = true,
                                       .owner = GYRE_SLOT_ROOT};
    memcpy(lobby.key, join->job->key, sizeof lobby.key);
    int status = gyre_lobby_create(join, &lobby, &root->lobby);
    gyre_wipe(lobby.key, sizeof lobby.key);
    while (!status && root->place.listeners)
        status = gyre_lobby_listen(root->lobby, root->place.listener[--root->place.listeners]);
    return status;
}

static int open_place(struct gyre_joining *join, struct gyre_rendezvous *place)
{
    const struct gyre_rendezvous_wish wish = {.job = join->job,
                                              .interface = join->options->interface,
                                              .port_low = join->options->port_low,
                                              .port_high = join->options->port_high};
    return gyre_rendezvous_open(&wish, place, join->trouble);
}

/* Opens the place where ranks meet, unless they have found each other already. */
static int open_rendezvous(struct gyre_joining *join)
{
    if (join->options->company)
        return 0;
    int status = open_place(join, &join->root->place);
    return status ? status : open_lobby(join, join->root);
}

int gyre_root_open(struct gyre_joining *join)
{
    struct gyre_root *root = join->root = calloc(1, sizeof *root);
    if (!root)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory to gather the ranks");
    uint64_t first = (uint64_t)join->options->join_timeout_ms * GYRE_MS / 4;
    root->line_at = join->started + (first < FIRST_LINE ? first : FIRST_LINE);
    int status = make_matrix(join, root);
    if (!status)
        status = open_rendezvous(join);
    if (!status)
        answered(root, 0);
    return status;
}

void gyre_root_tell_failure(struct gyre_joining *join)
{
    uint8_t payload[GYRE_STORY_BYTES];
    tell_others(join, GYRE_JOIN_FAILURE, payload, failure_story(join, payload));
    join->root->failing = true;
}

bool gyre_root_lingers(const struct gyre_joining *join)
{
    const struct gyre_root *root = join->root;
    return root->lobby && join->phase == GYRE_PHASE_GATHER &&
           join->trouble->status != GYRE_TIMED_OUT && root->count < join->joined->n;
}

void gyre_root_close(struct gyre_joining *join)
{
    struct gyre_root *root = join->root;
    if (!root)
        return;
    gyre_lobby_destroy(root->lobby);
    gyre_rendezvous_close(&root->place);
    free(root->answered);
    free(root->share);
    free(root->node);
    free(root);
    join->root = NULL;
}
