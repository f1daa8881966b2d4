/* Numbers the posts of a queue. The device reports the numbers; the last one reported tells how
 * many posts have finished. Tested by tests/unit/collectives/staging/fold_queue_test.c. */
#include "device/tickets.h"

#define REPORTS 64

void gyre_tickets_close(struct gyre_tickets *tickets)
{
    if (tickets->queue)
        tickets->device->queue_destroy(tickets->queue);
    tickets->queue = NULL;
    tickets->finished = tickets->posted;
}

static int note_post(struct gyre_tickets *tickets, int status, uint64_t *ticket)
{
    if (status < 0)
        return status;
    tickets->posted += status == 0;
    *ticket = tickets->posted;
    return 0;
}

int gyre_tickets_copy(struct gyre_tickets *tickets, void *to, const void *from, uint64_t bytes,
                      uint64_t *ticket)
{
    uint64_t token = tickets->posted + 1;
    return note_post(tickets, tickets->device->copy(tickets->queue, to, from, bytes, token),
                     ticket);
}

int gyre_tickets_fold(struct gyre_tickets *tickets, gyre_fold fold,
                      const struct gyre_fold_task *task, uint64_t *ticket)
{
    uint64_t token = tickets->posted + 1;
    return note_post(tickets, tickets->device->reduce(tickets->queue, fold, task, token), ticket);
}

int gyre_tickets_mark(struct gyre_tickets *tickets, uint64_t *ticket)
{
    uint64_t token = tickets->posted + 1;
    return note_post(tickets, tickets->device->mark(tickets->queue, token), ticket);
}

int gyre_tickets_look(struct gyre_tickets *tickets)
{
    uint64_t token[REPORTS];
    if (!gyre_tickets_busy(tickets))
        return 0;
    int count = tickets->device->query(tickets->queue, token, REPORTS);
    if (count > 0)
        tickets->finished = token[count - 1];
    return count;
}
