/* The members of a job over all its epochs. Tested by tests/unit/transport/members/members_test.c.
 */
#include "transport/members/members.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gyre_members *gyre_members_make_seats(uint32_t founders)
{
    struct gyre_members *members = calloc(1, sizeof *members);
    if (!members)
        return NULL;
    members->founders = founders;
    members->n = founders + GYRE_NEWCOMERS_OF_A_JOB;
    members->users = 1;
    members->standing = calloc(members->n, sizeof *members->standing);
    members->next = calloc(members->n, sizeof *members->next);
    members->at = calloc(members->n, sizeof *members->at);
    if (!members->standing || !members->next || !members->at) {
        gyre_members_release(members);
        return NULL;
    }
    memset(members->standing + founders, GYRE_STANDING_VACANT, members->n - founders);
    memcpy(members->next, members->standing, members->n);
    return members;
}

static void note_seat(struct gyre_seat *at, const struct gyre_member *member)
{
    memcpy(at->host, member->host, sizeof at->host);
    at->pid = member->pid;
    at->address = member->address;
}

struct gyre_members *gyre_members_create(const struct gyre_joined *joined,
                                         const struct gyre_job *job)
{
    struct gyre_members *members = gyre_members_make_seats(joined->n);
    if (!members)
        return NULL;
    members->met = *job;
    members->seat = joined->rank;
    members->epoch = members->seen = job->epoch;
    memcpy(members->key, joined->session_key, sizeof members->key);
    memcpy(members->id, job->id, sizeof members->id);
    memcpy(members->key_id, job->key_id, sizeof members->key_id);
    for (uint32_t seat = 0; seat < joined->n; seat++)
        note_seat(&members->at[seat], &joined->member[seat]);
    return members;
}

struct gyre_members *gyre_members_hold(struct gyre_members *members)
{
    if (members)
        members->users++;
    return members;
}

void gyre_members_release(struct gyre_members *members)
{
    if (!members || --members->users)
        return;
    gyre_wipe(members->key, sizeof members->key);
    gyre_wipe(&members->met, sizeof members->met);
    gyre_job_forget_options(members->options);
    free(members->standing);
    free(members->next);
    free(members->at);
    free(members);
}

void gyre_members_complete(struct gyre_members *members)
{
    uint64_t now = gyre_wall_clock_ns();
    for (uint32_t seat = 0; seat < members->n; seat++)
        if (members->next[seat] != GYRE_STANDS && members->next[seat] != GYRE_STANDING_VACANT &&
            !members->at[seat].gone_at)
            members->at[seat].gone_at = now;
    members->epoch = members->seen;
    memcpy(members->standing, members->next, members->n);
}

uint32_t gyre_members_next_seat(const uint8_t *standing, uint32_t n)
{
    while (n > 0 && standing[n - 1] == GYRE_STANDING_VACANT)
        n--;
    return n;
}

void gyre_members_expect(struct gyre_members *members, const uint8_t *next, uint32_t seen)
{
    memcpy(members->next, next, members->n);
    members->seen = seen;
    for (uint32_t seat = members->founders; seat < members->n; seat++)
        if (next[seat] == GYRE_STANDS && members->standing[seat] == GYRE_STANDING_VACANT)
            members->standing[seat] = GYRE_STANDING_COMING;
}

void gyre_members_note(struct gyre_members *members, const struct gyre_joined *joined)
{
    uint32_t rank = 0;
    for (uint32_t seat = 0; seat < members->n && rank < joined->n; seat++)
        if (members->standing[seat] == GYRE_STANDS)
            note_seat(&members->at[seat], &joined->member[rank++]);
}

uint32_t gyre_members_count(const uint8_t *standing, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t seat = 0; seat < n; seat++)
        count += standing[seat] == GYRE_STANDS;
    return count;
}

uint32_t gyre_members_rank(const uint8_t *standing, uint32_t n, uint32_t seat)
{
    if (seat >= n || standing[seat] != GYRE_STANDS)
        return UINT32_MAX;
    return gyre_members_count(standing, seat);
}

const char *gyre_members_who(const struct gyre_members *members, uint32_t seat,
                             char text[GYRE_MEMBER_WHO_MAX])
{
    const struct gyre_seat *at = &members->at[seat];
    uint32_t rank = gyre_members_rank(members->standing, members->n, seat);
    if (members->standing[seat] == GYRE_STANDING_COMING)
        snprintf(text, GYRE_MEMBER_WHO_MAX, "the newcomer on %s (pid %d)", at->host, at->pid);
    else if (rank == UINT32_MAX)
        snprintf(text, GYRE_MEMBER_WHO_MAX, "former rank %u on %s (pid %d)", seat, at->host,
                 at->pid);
    else
        snprintf(text, GYRE_MEMBER_WHO_MAX, "rank %u on %s (pid %d)", rank, at->host, at->pid);
    return text;
}
