/* The mesh: TCP connections between ranks of different nodes.
 *
 *     lower rank listens (lobby)                       higher rank dials, once per stripe
 *        │ ◀── handshake under the session's key, purpose DATA, stripe s ── │
 *        │ ──── WELCOME ──────────────────────────────────────────────────▶ │
 *        ╰──── from here on the socket carries data and nothing else ───────╯
 *
 * Both sides file connection s under tcp[s], so the order is the same on both. The session's key
 * contains rank 0's nonce and keeps out connections of an earlier run of the job. The lobby has
 * room for the ranks of other machines: a thousand of this one need none. A dial that fails
 * is tried again until the phase's time is over: a full lobby or a lost SYN is no reason to fail.
 * Then the last error, both addresses and what to look at are told.
 *
 * Where connections are made at their first use (transport/watch/renew.h), none is made here, or
 * those of partners where a rank has a device (joined.h). The
 * watch's own in a tree of nodes (joined.h) are: after GO no death may go unseen.
 *
 * Tested by tests/unit/transport/join/mesh_test.c and tests/program/job/join.c. */
#include "transport/join/inside.h"

#include "base/log.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SPARE_SLOTS = 64, BACKLOG = 4096 };

struct dial {
    struct gyre_io_slot io_slot;
    struct gyre_talk talk;
    uint32_t stripe;
    bool watch; /* its connection is the watch's */
    bool connecting, welcome;
    uint64_t retry_at, pause;
    int error;
};

struct gyre_join_mesh {
    struct gyre_lobby *lobby;
    uint64_t started;
    uint32_t have, need; /* connections, in both directions */
    uint32_t dials;
    struct dial *dial;
    int listener; /* at rest; -1: none */
};

/* Whether two ranks, the lowest of their nodes, are an edge of the tree of the watch's connections.
 * Those of rank 0, where all meet, need not be made. */
static bool is_watch_edge(const struct gyre_joining *join, uint32_t above, uint32_t rank)
{
    const struct gyre_member *member = join->joined->member;
    const uint32_t fan_out = join->joined->fan_out;
    return fan_out > 0 && above > 0 && member[above].local_rank == 0 &&
           member[rank].local_rank == 0 && member[rank].node > 0 &&
           gyre_joined_above(member[rank].node, fan_out) == member[above].node;
}

static bool on_other_node(const struct gyre_joining *join, uint32_t peer)
{
    return peer != join->joined->rank && join->joined->member[peer].node != join->joined->node;
}

/* Whether data connections to the peer are made here. */
static bool connects_to(const struct gyre_joining *join, uint32_t peer)
{
    return on_other_node(join, peer) &&
           gyre_joined_connects(join->joined, join->joined->rank, peer);
}

/* Takes the socket and the keys out of a proven talk. */
static int file_connection(struct gyre_joining *join, uint32_t peer, uint32_t stripe,
                           struct gyre_talk *talk)
{
    struct gyre_peer *ends = &join->joined->peer[peer];
    int status = gyre_talk_keys(talk, "gyre frames", &ends->tcp_keys[stripe]);
    if (status)
        return gyre_trouble_set(join->trouble, status,
                                "libcrypto cannot derive the keys of a data connection");
    ends->tcp[stripe] = gyre_talk_take(talk);
    gyre_socket_tune(ends->tcp[stripe], join->options->dead_time_ms);
    gyre_socket_hold(ends->tcp[stripe], join->options->dead_time_ms);
    join->mesh->have++;
    return 0;
}

/* Takes the connection of a watch out of a proven talk. */
static int file_watch(struct gyre_joining *join, uint32_t peer, struct gyre_talk *talk)
{
    struct gyre_peer *ends = &join->joined->peer[peer];
    int status = gyre_talk_keys(talk, "gyre watch", &ends->control_keys);
    if (status)
        return gyre_trouble_set(join->trouble, status,
                                "libcrypto cannot derive the keys of the watch");
    ends->control = gyre_talk_take(talk);
    gyre_socket_tune(ends->control, join->options->dead_time_ms);
    gyre_socket_hold(ends->control, join->options->dead_time_ms);
    gyre_socket_expedite(ends->control);
    join->mesh->have++;
    return 0;
}

/* -- those who dial us ------------------------------------------------------------------------- */

/* Before the plan a rank does not know who shares its node, or is below it: see drop_near(). */
static enum gyre_refusal_code judge_data(const struct gyre_joining *join,
                                         const struct gyre_claim *theirs)
{
    bool planned = join->phase >= GYRE_PHASE_MESH;
    if (theirs->stripe >= join->options->connections ||
        !gyre_joined_connects(join->joined, join->joined->rank, theirs->rank) ||
        (planned && !on_other_node(join, theirs->rank)))
        return GYRE_REFUSAL_RANK;
    return join->joined->peer[theirs->rank].tcp[theirs->stripe] >= 0 ? GYRE_REFUSAL_DUPLICATE
                                                                     : GYRE_REFUSAL_NONE;
}

static enum gyre_refusal_code judge_watch(const struct gyre_joining *join,
                                          const struct gyre_claim *theirs)
{
    bool planned = join->phase >= GYRE_PHASE_MESH;
    if (join->joined->rank == 0 ||
        (planned && !is_watch_edge(join, join->joined->rank, theirs->rank)))
        return GYRE_REFUSAL_RANK;
    return join->joined->peer[theirs->rank].control >= 0 ? GYRE_REFUSAL_DUPLICATE
                                                         : GYRE_REFUSAL_NONE;
}

static bool claim_fits(const struct gyre_joining *join, struct gyre_handshake *shake,
                       struct gyre_refusal *refusal)
{
    const struct gyre_claim *theirs = &shake->theirs;
    const bool watch = theirs->purpose == GYRE_PURPOSE_WATCH;
    if (watch)
        shake->mine.purpose = GYRE_PURPOSE_WATCH;
    refusal->code = gyre_handshake_judge(shake);
    if (!refusal->code && theirs->rank <= join->joined->rank)
        refusal->code = GYRE_REFUSAL_RANK;
    if (!refusal->code)
        refusal->code = watch ? judge_watch(join, theirs) : judge_data(join, theirs);
    if (!refusal->code)
        return true;
    snprintf(refusal->text, sizeof refusal->text,
             "rank %u expects no %s connection %u of rank %u (reason %u)", join->joined->rank,
             watch ? "watch's" : "data", theirs->stripe, theirs->rank, refusal->code);
    return false;
}

static int admit_data_connection(struct gyre_joining *join, const struct gyre_arrival *arrival)
{
    struct gyre_talk *talk = arrival->talk;
    struct gyre_refusal refusal = {0};
    const struct gyre_claim theirs = talk->shake.theirs;
    if (!claim_fits(join, &talk->shake, &refusal))
        return gyre_lobby_refuse(join->mesh->lobby, arrival, &refusal);
    if (gyre_talk_say(talk, GYRE_JOIN_WELCOME, NULL, 0) || gyre_talk_pending(talk)) {
        gyre_talk_close(talk); /* it dials again */
        return 0;
    }
    return theirs.purpose == GYRE_PURPOSE_WATCH
               ? file_watch(join, theirs.rank, talk)
               : file_connection(join, theirs.rank, theirs.stripe, talk);
}

static int listen_trouble(struct gyre_joining *join, const struct sockaddr_storage *address,
                          int status)
{
    const struct gyre_join_options *options = join->options;
    char text[GYRE_ADDRESS_TEXT];
    gyre_address_format(address, text);
    if (status == -EADDRINUSE && options->port_high)
        return gyre_trouble_set(join->trouble, status,
                                "GYRE_PORT_RANGE=%u-%u: every port of it is in use on %s; a "
                                "range needs one port per rank of a machine and one for rank 0",
                                options->port_low, options->port_high, gyre_host_name());
    return gyre_trouble_set(join->trouble, status, "rank %u on %s cannot listen at %s: %s",
                            join->joined->rank, gyre_host_name(), text, strerror(-status));
}

/* This rank's listener: the one that it has had in an earlier epoch, or a new one. *address is
 * where. Where all ranks share memory none is needed to join: -1, zeros. */
static int open_listener(struct gyre_joining *join, struct sockaddr_storage *address)
{
    const struct gyre_join_options *options = join->options;
    if (options->company) {
        *address = options->company->address;
        int fd = fcntl(options->company->listener, F_DUPFD_CLOEXEC, 0);
        return fd >= 0 ? fd
                       : gyre_trouble_set(join->trouble, -errno, "the listener of rank %u: %s",
                                          join->joined->rank, strerror(errno));
    }
    *address = join->identity[join->joined->rank].outward;
    int fd = gyre_socket_listen(address, options->port_low, options->port_high, BACKLOG);
    if (fd >= 0 || options->nodes != GYRE_NODES_SHARE_ALL)
        return fd >= 0 ? fd : listen_trouble(join, address, fd);
    memset(address, 0, sizeof *address);
    return -1;
}

/* How many data connections may come, of so many ranks of other machines. */
static uint32_t most_arrivals(const struct gyre_joining *join, uint32_t apart)
{
    uint32_t ranks = 0;
    for (uint32_t peer = 0; peer < join->joined->n; peer++)
        ranks += peer != join->joined->rank &&
                 gyre_joined_connects(join->joined, join->joined->rank, peer);
    return (ranks < apart ? ranks : apart) * (uint32_t)join->options->connections;
}

int gyre_join_mesh_open(struct gyre_joining *join, struct sockaddr_storage *address)
{
    uint32_t apart = join->pairing ? gyre_pairing_apart(join) : join->joined->n;
    uint32_t most = most_arrivals(join, apart);
    struct gyre_lobby_options lobby = {.claim = gyre_join_claim(join, GYRE_PURPOSE_DATA, 0),
                                       .slots = most + SPARE_SLOTS,
                                       .per_address = most < 16 ? 16 : most,
                                       .owner = GYRE_SLOT_LOBBY};
    memset(address, 0, sizeof *address);
    join->mesh = calloc(1, sizeof *join->mesh);
    if (!join->mesh)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory for the data connections");
    join->mesh->listener = -1;
    int fd = open_listener(join, address);
    if (fd < 0)
        return join->trouble->status;
    memcpy(lobby.key, join->joined->session_key, sizeof lobby.key);
    int status = gyre_lobby_create(join, &lobby, &join->mesh->lobby);
    gyre_wipe(lobby.key, sizeof lobby.key);
    if (!status)
        return gyre_lobby_listen(join->mesh->lobby, fd);
    close(fd);
    return status;
}

/* -- those whom we dial ------------------------------------------------------------------------ */

static void redial(struct gyre_joining *join, struct dial *dial, int error)
{
    gyre_join_remove_slot(join, &dial->io_slot);
    gyre_talk_close(&dial->talk);
    dial->error = error;
    dial->pause = dial->pause < 100 * GYRE_MS ? 2 * dial->pause : dial->pause;
    dial->retry_at = join->now + dial->pause;
}

static struct sockaddr_storage dial_address(const struct gyre_joining *join, uint32_t peer)
{
    struct sockaddr_storage to = join->joined->member[peer].address;
    gyre_address_take_scope(&to, &join->identity[join->joined->rank].outward);
    return to;
}

static int start_dial(struct gyre_joining *join, struct dial *dial)
{
    struct gyre_claim claim =
        gyre_join_claim(join, dial->watch ? GYRE_PURPOSE_WATCH : GYRE_PURPOSE_DATA, dial->stripe);
    uint8_t nonce[GYRE_NONCE_BYTES];

    int fd = gyre_socket_connect_peer(&join->joined->member[dial->io_slot.peer].address,
                                      &join->identity[join->joined->rank].outward);
    if (fd == -EMFILE || fd == -ENFILE)
        return gyre_join_no_descriptor(join, fd);
    if (fd < 0) {
        redial(join, dial, -fd);
        return 0;
    }
    gyre_talk_open(&dial->talk, fd);
    dial->connecting = true;
    int status = gyre_random_bytes(nonce, sizeof nonce);
    if (!status)
        status = gyre_handshake_start(&dial->talk.shake, GYRE_HANDSHAKE_CLIENT, &claim,
                                      join->joined->session_key, nonce);
    return status ? status : gyre_join_add_slot(join, &dial->io_slot, fd, true);
}

static int welcomed(struct gyre_joining *join, struct dial *dial)
{
    gyre_join_remove_slot(join, &dial->io_slot);
    dial->welcome = true;
    return dial->watch ? file_watch(join, dial->io_slot.peer, &dial->talk)
                       : file_connection(join, dial->io_slot.peer, dial->stripe, &dial->talk);
}

static int dial_hears(struct gyre_joining *join, struct dial *dial,
                      const struct gyre_record *record)
{
    struct gyre_refusal refusal;
    if (record->kind == GYRE_JOIN_REFUSAL &&
        !gyre_refusal_decode(record->payload, record->length, &refusal))
        return gyre_trouble_set(join->trouble, GYRE_REFUSED, "%s", refusal.text);
    if (record->kind == GYRE_JOIN_WELCOME)
        return welcomed(join, dial);
    redial(join, dial, EPROTO);
    return 0;
}

static int dial_ready(struct gyre_joining *join, struct dial *dial)
{
    struct gyre_record record;
    if (dial->connecting) {
        int error = gyre_socket_connected(dial->talk.fd);
        if (error) {
            redial(join, dial, -error);
            return 0;
        }
        dial->connecting = false;
    }
    int status;
    while (!(status = gyre_talk_step(&dial->talk, &record))) {
        if (record.kind)
            return dial_hears(join, dial, &record);
        if (!gyre_handshake_reached(&dial->talk.shake, dial->io_slot.peer)) {
            status = -EPROTO; /* another rank listens there */
            break;
        }
    }
    if (status < 0)
        redial(join, dial, status == -ECONNRESET ? ECONNRESET : EPROTO);
    return status < 0 ? 0 : gyre_join_rearm(join, &dial->io_slot, gyre_talk_pending(&dial->talk));
}

/* -- start, events, close ---------------------------------------------------------------------- */

static void add_dial(struct gyre_join_mesh *mesh, uint32_t peer, uint32_t stripe, bool watch)
{
    struct dial *dial = &mesh->dial[mesh->dials++];
    *dial = (struct dial){.io_slot = {.fd = -1, .peer = peer, .owner = GYRE_SLOT_DIAL},
                          .stripe = stripe,
                          .watch = watch,
                          .pause = GYRE_MS};
    gyre_talk_open(&dial->talk, -1);
}

/* Prepares connections to lower ranks: data connections to `below` of them, and the watch's. */
static int make_dials(struct gyre_joining *join, uint32_t below)
{
    struct gyre_join_mesh *mesh = join->mesh;
    const uint32_t stripes = below ? (uint32_t)join->options->connections : 0;
    const uint32_t rank = join->joined->rank;
    mesh->dial = calloc((size_t)below * stripes + 1, sizeof *mesh->dial);
    if (!mesh->dial)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory for %u data connections",
                                below * stripes);
    for (uint32_t peer = 0; peer < rank; peer++) {
        for (uint32_t stripe = 0; connects_to(join, peer) && stripe < stripes; stripe++)
            add_dial(mesh, peer, stripe, false);
        if (is_watch_edge(join, peer, rank))
            add_dial(mesh, peer, 0, true);
    }
    return 0;
}

/* Closes a connection of a watch that came before the plan said that it does not belong here. */
static void drop_watch(struct gyre_joining *join, uint32_t peer)
{
    int *fd = &join->joined->peer[peer].control;
    if (*fd < 0)
        return;
    close(*fd);
    *fd = -1;
    join->mesh->have--;
}

/* Closes connections from ranks of this node, which came before the plan said so. */
static void drop_near(struct gyre_joining *join, uint32_t peer)
{
    for (int stripe = 0; stripe < GYRE_TCP_CONNECTIONS_MAX; stripe++) {
        int *fd = &join->joined->peer[peer].tcp[stripe];
        if (*fd < 0)
            continue;
        close(*fd);
        *fd = -1;
        join->mesh->have--;
    }
}

/* Notes a peer of another node; returns how many connections to it this rank lacks. */
static uint32_t note_far(struct gyre_joining *join, uint32_t peer)
{
    struct gyre_peer *ends = &join->joined->peer[peer];
    ends->tcps = join->options->connections;
    ends->one_machine =
        gyre_identity_one_machine(&join->identity[join->joined->rank], &join->identity[peer]);
    return connects_to(join, peer) ? (uint32_t)ends->tcps : 0;
}

/* Counts the watch's connections that this rank lacks, to the ranks just above and below. */
static void need_watches(struct gyre_joining *join)
{
    const uint32_t rank = join->joined->rank;
    for (uint32_t peer = 0; peer < join->joined->n; peer++)
        if (is_watch_edge(join, peer, rank) || is_watch_edge(join, rank, peer))
            join->mesh->need++;
        else
            drop_watch(join, peer);
}

int gyre_join_mesh_start(struct gyre_joining *join)
{
    struct gyre_join_mesh *mesh = join->mesh;
    uint32_t below = 0;
    for (uint32_t peer = 0; peer < join->joined->n; peer++)
        if (on_other_node(join, peer)) {
            below += peer < join->joined->rank && connects_to(join, peer);
            mesh->need += note_far(join, peer);
        } else {
            drop_near(join, peer);
        }
    need_watches(join);
    int status = make_dials(join, below);
    mesh->started = join->now;
    for (uint32_t i = 0; i < mesh->dials && !status; i++)
        status = start_dial(join, &mesh->dial[i]);
    return status;
}

static void lose_dial(struct gyre_joining *join, const struct dial *dial)
{
    char what[320], to[GYRE_ADDRESS_TEXT], own[GYRE_ADDRESS_TEXT];
    struct sockaddr_storage address = dial_address(join, dial->io_slot.peer);
    gyre_address_format(&address, to);
    gyre_address_format(&join->identity[join->joined->rank].outward, own);
    snprintf(what, sizeof what,
             "cannot be reached at %s from %s: %s; is there a firewall (GYRE_PORT_RANGE), another "
             "network "
             "(GYRE_INTERFACE)?",
             to, own, dial->error ? strerror(dial->error) : "no answer");
    gyre_join_lose(join, dial->io_slot.peer, what);
}

int gyre_join_mesh_ready(struct gyre_joining *join, struct gyre_io_slot *io_slot)
{
    struct gyre_arrival arrival;
    if (io_slot->owner == GYRE_SLOT_DIAL)
        return dial_ready(join, (struct dial *)io_slot);
    int status = gyre_lobby_ready(join->mesh->lobby, io_slot, &arrival);
    return status == GYRE_AGAIN ? 0 : status ? status : admit_data_connection(join, &arrival);
}

int gyre_join_mesh_tick(struct gyre_joining *join)
{
    struct gyre_join_mesh *mesh = join->mesh;
    int status = 0;
    if (!mesh)
        return 0;
    gyre_lobby_tick(mesh->lobby, join->now);
    if (join->phase != GYRE_PHASE_MESH)
        return 0;
    bool late = join->now > mesh->started + gyre_join_phase_timeout(join);
    for (uint32_t i = 0; i < mesh->dials && !status; i++) {
        struct dial *dial = &mesh->dial[i];
        if (!dial->welcome && late)
            lose_dial(join, dial);
        else if (!dial->welcome && dial->io_slot.fd < 0 && join->now >= dial->retry_at)
            status = start_dial(join, dial);
    }
    return status;
}

bool gyre_join_mesh_busy(const struct gyre_joining *join)
{
    return join->mesh->have < join->mesh->need;
}

/* Where connections are made at their first use the first may come before this rank has heard GO.
 * It waits at the listener for the watch, which knows what to do with it. */
void gyre_join_mesh_rest(struct gyre_joining *join)
{
    struct gyre_join_mesh *mesh = join->mesh;
    if (join->joined->on_demand && mesh->lobby && mesh->listener < 0)
        mesh->listener = gyre_lobby_take_listener(mesh->lobby);
}

int gyre_join_mesh_take_listener(struct gyre_joining *join)
{
    struct gyre_join_mesh *mesh = join->mesh;
    int fd = mesh ? mesh->listener : -1;
    if (fd < 0)
        return mesh && mesh->lobby ? gyre_lobby_take_listener(mesh->lobby) : -1;
    mesh->listener = -1;
    return fd;
}

void gyre_join_mesh_close(struct gyre_joining *join)
{
    struct gyre_join_mesh *mesh = join->mesh;
    if (!mesh)
        return;
    gyre_lobby_destroy(mesh->lobby);
    if (mesh->listener >= 0)
        close(mesh->listener);
    for (uint32_t i = 0; i < mesh->dials; i++) {
        gyre_join_remove_slot(join, &mesh->dial[i].io_slot);
        gyre_talk_close(&mesh->dial[i].talk);
    }
    free(mesh->dial);
    free(mesh);
    join->mesh = NULL;
}
