/* The state that all parts of a join share: descriptors, control connections, losses.
 *
 * There is one epoll, one thread, and one event at a time. An event's owner may close any other
 * slot, and no stale event follows.
 *
 * Tested by tests/unit/transport/join/loop_test.c and tests/program/job/join.c. */
#include "transport/join/loop.h"

#include "base/log.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define LATENESS (500 * GYRE_MS) /* of a wait, beyond which this process did not run */
#define MEETING  (GYRE_MS / 2)   /* of two ranks, on a machine with many more ranks than cores */

/* -- descriptors ------------------------------------------------------------------------------- */

static uint32_t slot_events(bool writable)
{
    return EPOLLIN | (writable ? EPOLLOUT : 0);
}

int gyre_join_add_slot(struct gyre_joining *join, struct gyre_io_slot *io_slot, int fd,
                       bool writable)
{
    struct epoll_event event = {.events = slot_events(writable), .data.ptr = io_slot};
    if (epoll_ctl(join->epoll, EPOLL_CTL_ADD, fd, &event))
        return gyre_trouble_set(join->trouble, -errno, "cannot watch a descriptor: %s",
                                strerror(errno));
    io_slot->fd = fd;
    io_slot->events = event.events;
    return 0;
}

int gyre_join_rearm(struct gyre_joining *join, struct gyre_io_slot *io_slot, bool writable)
{
    struct epoll_event event = {.events = slot_events(writable), .data.ptr = io_slot};
    if (io_slot->fd < 0 || io_slot->events == event.events)
        return 0;
    io_slot->events = event.events;
    return epoll_ctl(join->epoll, EPOLL_CTL_MOD, io_slot->fd, &event) ? -errno : 0;
}

void gyre_join_remove_slot(struct gyre_joining *join, struct gyre_io_slot *io_slot)
{
    if (io_slot->fd >= 0)
        epoll_ctl(join->epoll, EPOLL_CTL_DEL, io_slot->fd, NULL);
    io_slot->fd = -1;
}

/* Sets join->now. Time in which this process did not run (stopped, suspended, starved) does not
 * count: what the others sent meanwhile must be read before any of them is found late. */
static void set_join_clock(struct gyre_joining *join)
{
    uint64_t now = gyre_now_ns() - join->granted;
    if (now > join->now + LATENESS) {
        join->granted += now - join->now - GYRE_JOIN_TICK_MS * GYRE_MS;
        now = join->now + GYRE_JOIN_TICK_MS * GYRE_MS;
    }
    join->now = now;
}

int gyre_join_tick_ms(const struct gyre_joining *join)
{
    const uint32_t n = join->joined->n;
    const int most = 10 * GYRE_JOIN_TICK_MS; /* below LATENESS */
    const int wanted = n > 64 ? (int)(n / 64) * GYRE_JOIN_TICK_MS : GYRE_JOIN_TICK_MS;
    return wanted < most ? wanted : most;
}

struct gyre_io_slot *gyre_join_wait(struct gyre_joining *join)
{
    struct epoll_event event;
    int ready = epoll_wait(join->epoll, &event, 1, gyre_join_tick_ms(join));
    set_join_clock(join);
    return ready > 0 ? event.data.ptr : NULL;
}

/* -- control connections ----------------------------------------------------------------------- */

int gyre_join_control(struct gyre_joining *join, uint32_t index, struct gyre_talk *talk)
{
    struct gyre_control *control = &join->control[index];
    control->talk = *talk;
    gyre_talk_open(talk, -1);
    control->talk.limit = GYRE_RECORD_SMALL + (join->joined->rank ? 256 * (size_t)join->joined->n
                                                                  : gyre_join_report_bytes(index));
    control->io_slot = (struct gyre_io_slot){.fd = -1, .peer = index, .owner = GYRE_SLOT_CONTROL};
    gyre_socket_tune(control->talk.fd, join->options->dead_time_ms);
    return gyre_join_add_slot(join, &control->io_slot, control->talk.fd,
                              gyre_talk_pending(&control->talk));
}

int gyre_join_leave_record(struct gyre_joining *join, uint16_t kind, const void *payload,
                           size_t length)
{
    uint8_t *copy = malloc(length + 1);
    if (!copy)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory for a record of %zu bytes",
                                length);
    if (length)
        memcpy(copy, payload, length);
    join->inbox = (struct gyre_record){kind, copy, length};
    return 0;
}

/* -- failures ---------------------------------------------------------------------------------- */

int gyre_join_no_descriptor(struct gyre_joining *join, int status)
{
    return gyre_trouble_set(join->trouble, status,
                            "no descriptor is left on %s for the connections of %u ranks: raise "
                            "\"ulimit -n\"",
                            gyre_host_name(), join->joined->n);
}

void gyre_join_lose(struct gyre_joining *join, uint32_t peer, const char *what)
{
    char me[GYRE_JOIN_WHO_MAX], them[GYRE_JOIN_WHO_MAX];
    gyre_trouble_set(&join->loss, GYRE_PEER_LOST, "%s %s, says %s", gyre_join_who(join, peer, them),
                     what, gyre_join_who(join, join->joined->rank, me));
}

int gyre_join_rank_gone(struct gyre_joining *join, uint32_t rank)
{
    char who[GYRE_JOIN_WHO_MAX];
    join->told |= rank == 0; /* no rank is left to tell */
    return gyre_trouble_set(join->trouble, GYRE_PEER_LOST,
                            "%s went away while the job was joining: look at its output",
                            gyre_join_who(join, rank, who));
}

/* -- words ------------------------------------------------------------------------------------- */

struct gyre_claim gyre_join_claim(const struct gyre_joining *join, enum gyre_purpose purpose,
                                  uint32_t stripe)
{
    struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .epoch = join->job->epoch,
                               .rank = join->joined->rank,
                               .world = join->joined->n,
                               .purpose = (uint16_t)purpose,
                               .stripe = (uint16_t)stripe,
                               .configuration = join->options->configuration};
    memcpy(claim.job, join->job->id, sizeof claim.job);
    memcpy(claim.key_id, join->job->key_id, sizeof claim.key_id);
    return claim;
}

const char *gyre_join_who(const struct gyre_joining *join, uint32_t rank,
                          char text[GYRE_JOIN_WHO_MAX])
{
    const struct gyre_rank_identity *identity = &join->identity[rank];
    if (identity->host[0])
        snprintf(text, GYRE_JOIN_WHO_MAX, "rank %u on %.63s (pid %d)", rank, identity->host,
                 identity->pid);
    else
        snprintf(text, GYRE_JOIN_WHO_MAX, "rank %u", rank);
    return text;
}

void gyre_join_note_member(struct gyre_joining *join, uint32_t rank)
{
    const struct gyre_rank_identity *identity = &join->identity[rank];
    struct gyre_member *member = &join->joined->member[rank];
    memcpy(member->host, identity->host, sizeof member->host);
    memcpy(member->device, identity->device, sizeof member->device);
    member->pid = identity->pid;
}

/* The time limit of a phase. A stopped or overloaded rank gets the dead time, and at least two
 * seconds: starting is slower than running. Every two ranks meet, at worst all on two cores, where
 * 512 ranks have taken 104 s: MEETING is more than a pair of them took. The join timeout ends the
 * patience with many ranks. */
uint64_t gyre_join_phase_timeout(const struct gyre_joining *join)
{
    uint64_t whole = (uint64_t)join->options->join_timeout_ms * GYRE_MS, n = join->joined->n;
    int dead = join->options->dead_time_ms;
    uint64_t least = dead <= 0 ? whole : (uint64_t)(dead < 2000 ? 2000 : dead) * GYRE_MS;
    uint64_t meetings = n * n * MEETING;
    if (least + meetings <= whole)
        return least + meetings;
    return least > whole ? least : whole;
}
