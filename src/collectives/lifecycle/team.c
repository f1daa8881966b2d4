/* A round of work is a number: a thread that sees a new one does its part of it.
 *
 * Tested by tests/unit/collectives/lifecycle/team_test.c. */
#include "collectives/lifecycle/team.h"

#include "base/machine/thread.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct team_thread {
    struct gyre_team *team;
    pthread_t thread;
    int number;
};

struct gyre_team {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*work)(void *context, int i);
    void *context;
    unsigned round;
    int made, busy; /* threads; of them, those that have not done this round */
    bool ending;
    struct team_thread thread[];
};

/* Waits for a round after the last; false: the team ends. Under the lock. */
static bool await_round(struct gyre_team *team, unsigned last)
{
    while (team->round == last && !team->ending)
        pthread_cond_wait(&team->changed, &team->lock);
    return !team->ending;
}

static void *team_main(void *argument)
{
    const struct team_thread *self = argument;
    struct gyre_team *team = self->team;
    pthread_mutex_lock(&team->lock);
    for (unsigned last = 0; await_round(team, last); last++) {
        pthread_mutex_unlock(&team->lock);
        team->work(team->context, self->number);
        pthread_mutex_lock(&team->lock);
        team->busy--;
        pthread_cond_broadcast(&team->changed);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

int gyre_team_make(struct gyre_team **made, int count)
{
    const size_t threads = (size_t)count - 1;
    struct gyre_team *team = calloc(1, sizeof *team + threads * sizeof *team->thread);
    int status = team ? 0 : -ENOMEM;
    *made = NULL;
    if (!team)
        return status;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->changed, NULL);
    while ((size_t)team->made < threads && !status) {
        struct team_thread *at = &team->thread[team->made];
        *at = (struct team_thread){.team = team, .number = team->made};
        status = gyre_thread_start(&at->thread, team_main, at);
        team->made += !status;
    }
    if (status)
        gyre_team_end(team);
    else
        *made = team;
    return status;
}

void gyre_team_run(struct gyre_team *team, void (*work)(void *context, int i), void *context)
{
    pthread_mutex_lock(&team->lock);
    team->work = work;
    team->context = context;
    team->busy = team->made;
    team->round++;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->lock);
    work(context, team->made);
    pthread_mutex_lock(&team->lock);
    while (team->busy)
        pthread_cond_wait(&team->changed, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

void gyre_team_end(struct gyre_team *team)
{
    if (!team)
        return;
    pthread_mutex_lock(&team->lock);
    team->ending = true;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->lock);
    while (team->made)
        pthread_join(team->thread[--team->made].thread, NULL);
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->lock);
    free(team);
}
