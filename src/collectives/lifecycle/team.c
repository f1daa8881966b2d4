/* A round of work is a number: a thread that sees a new one does its part of it.
 *
 * Tested by tests/program/collectives/local.c, and where threads lack by
 * tests/program/failures/calls.c. */
#include "collectives/lifecycle/team.h"

#include "base/machine/thread.h"
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/world.h"

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
    struct gyre_team_task *task;
    bool meets; /* in this round; otherwise the ranks end */
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

static void work(const struct gyre_team *team, int number)
{
    struct gyre_team_task *task = &team->task[number];
    if (!team->meets) {
        task->status = gyre_world_end(task->comm, &task->trouble);
        return;
    }
    task->status = gyre_world_meet(task->comm, "gyre_init_in_process", &task->trouble);
    if (!task->status)
        gyre_progress_open_device(task->comm->progress);
}

static void *team_main(void *argument)
{
    const struct team_thread *self = argument;
    struct gyre_team *team = self->team;
    pthread_mutex_lock(&team->lock);
    for (unsigned last = 0; await_round(team, last); last++) {
        pthread_mutex_unlock(&team->lock);
        work(team, self->number);
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

static void run_round(struct gyre_team *team, struct gyre_team_task *task, bool meets)
{
    pthread_mutex_lock(&team->lock);
    team->task = task;
    team->meets = meets;
    team->busy = team->made;
    team->round++;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->lock);
    work(team, team->made);
    pthread_mutex_lock(&team->lock);
    while (team->busy)
        pthread_cond_wait(&team->changed, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

void gyre_team_meet(struct gyre_team *team, struct gyre_team_task *task)
{
    run_round(team, task, true);
}

void gyre_team_part(struct gyre_team *team, struct gyre_team_task *task)
{
    run_round(team, task, false);
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
