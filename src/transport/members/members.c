/* The members of a job over all its epochs. Tested by tests/unit/transport/members/members_test.c.
 */
#include "transport/members/members.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gyre_members *gyre_members_create(const struct gyre_joined *joined, uint32_t epoch)
{
    struct gyre_members *members = calloc(1, sizeof *members);
    if (!members)
        return NULL;
    members->n = joined->n;
    members->seat = joined->rank;
    members->epoch = members->seen = epoch;
    members->users = 1;
    members->standing = calloc(joined->n, sizeof *members->standing);
    members->next = calloc(joined->n, sizeof *members->next);
    members->at = calloc(joined->n, sizeof *members->at);
    if (!members->standing || !members->next || !members->at) {
        gyre_members_release(members);
        return NULL;
    }
    memcpy(members->key, joined->session_key, sizeof members->key);
    for (uint32_t seat = 0; seat < joined->n; seat++) {
        const struct gyre_member *member = &joined->member[seat];
        memcpy(members->at[seat].host, member->host, sizeof member->host);
        members->at[seat].pid = member->pid;
        members->at[seat].address = member->address;
    }
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
    free(members->standing);
    free(members->next);
    free(members->at);
    free(members);
}

void gyre_members_complete(struct gyre_members *members)
{
    uint64_t now = gyre_wall_clock_ns();
    for (uint32_t seat = 0; seat < members->n; seat++)
        if (members->next[seat] != GYRE_STANDS && !members->at[seat].gone_at)
            members->at[seat].gone_at = now;
    members->epoch = members->seen;
    memcpy(members->standing, members->next, members->n);
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
    if (rank == UINT32_MAX)
        snprintf(text, GYRE_MEMBER_WHO_MAX, "former rank %u on %s (pid %d)", seat, at->host,
                 at->pid);
    else
        snprintf(text, GYRE_MEMBER_WHO_MAX, "rank %u on %s (pid %d)", rank, at->host, at->pid);
    return text;
}
