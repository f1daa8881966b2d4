/* Several threads on one communicator: operations that they start in one order and wait for at
 * once, more than are in flight; groups of one thread beside calls of others; handles that another
 * thread waits for. */
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 6

struct team {
    struct gyre_comm *comm;
    pthread_mutex_t lock;
    int next, last; /* the next operation, under lock; and the number of all */
    int ahead;      /* operations that a thread starts before it waits for its first */
    _Atomic int bad;
    int (*start)(struct team *team, int k, int32_t *data, struct gyre_work **work);
};

static void run_team(struct team *team, void *(*body)(void *))
{
    pthread_t thread[THREADS];
    pthread_mutex_init(&team->lock, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, body, team);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&team->lock);
}

/* -- started in one order, waited for by all at once ------------------------------------------- */

#define COUNT 700
#define AHEAD 40

struct mine {
    struct gyre_work *work[AHEAD];
    int32_t data[AHEAD][COUNT];
    int number[AHEAD];
};

static uint64_t length(int k)
{
    static const uint64_t length[] = {1, 12, COUNT, 100};
    return length[k % 4];
}

/* Whichever thread comes next starts operation k, so every rank has the same order. */
static int start_next(struct team *team, struct mine *mine, int place)
{
    pthread_mutex_lock(&team->lock);
    int k = team->next < team->last ? team->next++ : -1, status = 0;
    mine->number[place] = k;
    if (k >= 0)
        status = team->start(team, k, mine->data[place], &mine->work[place]);
    pthread_mutex_unlock(&team->lock);
    team->bad |= rig_check(!status, team->comm, "a start");
    return k >= 0 && !status;
}

static void wait_for(struct team *team, struct mine *mine, int place)
{
    int n = gyre_size(team->comm), k = mine->number[place], wrong = 0;
    int status = gyre_work_wait(mine->work[place], -1);
    for (uint64_t i = 0; i < length(k); i++)
        wrong |= mine->data[place][i] != n * (n - 1) / 2 + n * (k + (int32_t)i);
    team->bad |= rig_check(!status && !wrong, team->comm, "a sum of its own");
}

static void *start_and_wait(void *argument)
{
    struct team *team = argument;
    struct mine *mine = calloc(1, sizeof *mine);
    int started = team->ahead;
    while (started == team->ahead && !team->bad) {
        for (started = 0; started < team->ahead && start_next(team, mine, started); started++)
            continue;
        for (int i = 0; i < started && !team->bad; i++)
            wait_for(team, mine, i);
    }
    free(mine);
    return NULL;
}

static int start_sum(struct team *team, int k, int32_t *data, struct gyre_work **work)
{
    for (uint64_t i = 0; i < length(k); i++)
        data[i] = gyre_rank(team->comm) + k + (int32_t)i;
    return gyre_all_reduce_start(team->comm, data, data, length(k), GYRE_I32, GYRE_SUM, work);
}

static int many_sums(struct gyre_comm *comm, struct rig *rig)
{
    struct team team = {
        .comm = comm, .last = in_haste() ? 600 : 3000, .ahead = 2, .start = start_sum};
    (void)rig;
    run_team(&team, start_and_wait);
    return gyre_finalize(comm) || team.bad;
}

/* All threads together hold more handles than operations can be in flight. */
static int more_than_fit(struct gyre_comm *comm, struct rig *rig)
{
    struct team team = {
        .comm = comm, .last = in_haste() ? 600 : 3000, .ahead = AHEAD, .start = start_sum};
    (void)rig;
    run_team(&team, start_and_wait);
    return gyre_finalize(comm) || team.bad;
}

static void threads_start_in_one_order(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, many_sums), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = many_sums}, 20), 0);
    assert_int_equal(rig_run_everywhere(2, more_than_fit), 0);
}

/* -- groups ------------------------------------------------------------------------------------ */

static void *open_elsewhere(void *argument)
{
    struct team *team = argument;
    int open = gyre_group_start(team->comm);
    team->bad |= rig_check(open == GYRE_INVALID && strstr(gyre_error(NULL), "another thread"),
                           team->comm, "two groups");
    int close = gyre_group_end(team->comm);
    team->bad |= rig_check(close == GYRE_INVALID && strstr(gyre_error(NULL), "another thread"),
                           team->comm, "another thread's group");
    return NULL;
}

/* Calls while this thread's group is open, and is done before the group ends. */
static void *call_beside(void *argument)
{
    struct team *team = argument;
    int n = gyre_size(team->comm);
    int32_t one = 1;
    int status = gyre_all_reduce(team->comm, &one, &one, 1, GYRE_I32, GYRE_SUM);
    team->bad |= rig_check(!status && one == n, team->comm, "a sum beside a group");
    return NULL;
}

static void run_thread(void *(*body)(void *), struct team *team)
{
    pthread_t thread;
    pthread_create(&thread, NULL, body, team);
    pthread_join(thread, NULL);
}

static int beside_a_group(struct gyre_comm *comm, struct rig *rig)
{
    struct team team = {.comm = comm};
    int n = gyre_size(comm), bad = 0;
    (void)rig;
    for (int round = 0; round < 20 && !bad && !team.bad; round++) {
        int32_t a = 1, b = 2;
        bad |= gyre_group_start(comm);
        bad |= gyre_all_reduce(comm, &a, &a, 1, GYRE_I32, GYRE_SUM);
        run_thread(open_elsewhere, &team);
        run_thread(call_beside, &team);
        bad |= rig_check(a == 1, comm, "the group has not begun");
        bad |= gyre_all_reduce(comm, &b, &b, 1, GYRE_I32, GYRE_SUM);
        bad |= rig_check(!gyre_group_end(comm) && a == n && b == 2 * n, comm, "the group");
    }
    return gyre_finalize(comm) || bad || team.bad;
}

static void a_group_is_its_threads(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, beside_a_group), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = beside_a_group}, 20), 0);
}

/* -- one handle, two threads ------------------------------------------------------------------- */

struct pair {
    struct gyre_comm *comm;
    struct gyre_work *work;
    _Atomic int ended, bad;
};

static void *wait_alone(void *argument)
{
    struct pair *pair = argument;
    pair->bad |= rig_check(!gyre_work_wait(pair->work, -1), pair->comm, "the one that waits");
    pair->ended = 1;
    return NULL;
}

/* Rank 0 lets a thread wait, and is refused once that thread is inside; then the message comes. */
static int wait_twice(struct pair *pair)
{
    pthread_t thread;
    char got = 0, word = 1;
    int status = GYRE_AGAIN, bad = gyre_recv_start(pair->comm, &got, 1, GYRE_U8, 1, &pair->work);
    pthread_create(&thread, NULL, wait_alone, pair);
    while (status == GYRE_AGAIN && !pair->ended)
        status = gyre_work_test(pair->work);
    bad |= rig_check(status == GYRE_INVALID && strstr(gyre_error(NULL), "another thread waits"),
                     pair->comm, "a second wait");
    bad |= rig_check(gyre_work_status(pair->work) == GYRE_AGAIN, pair->comm, "its status");
    bad |= gyre_send(pair->comm, &word, 1, GYRE_U8, 1);
    pthread_join(thread, NULL);
    return bad || rig_check(got == 7, pair->comm, "what came");
}

static int two_waits(struct gyre_comm *comm, struct rig *rig)
{
    struct pair pair = {.comm = comm};
    char word = 7, got = 0;
    int bad = 0;
    (void)rig;
    if (gyre_rank(comm) == 0)
        bad = wait_twice(&pair);
    else
        bad = gyre_recv(comm, &got, 1, GYRE_U8, 0) || gyre_send(comm, &word, 1, GYRE_U8, 0);
    return gyre_finalize(comm) || bad || pair.bad;
}

static void a_handle_is_waited_for_by_one(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(2, two_waits), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_start_in_one_order),
        cmocka_unit_test(a_group_is_its_threads),
        cmocka_unit_test(a_handle_is_waited_for_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
