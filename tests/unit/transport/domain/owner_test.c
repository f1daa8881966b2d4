/* Threads that wait for a domain come in by turn, in the order of their arrival. */
#include "transport/domain/inside.h"

#include "rig/test.h"

#include <stdlib.h>

#define THREADS 8

struct queue {
    struct gyre_domain *domain;
    int entered[THREADS]; /* the order in which threads came in; written by the owner */
    int count;
    pthread_t thread[THREADS];
};

struct comer {
    struct queue *queue;
    int number;
};

static void *come(void *argument)
{
    const struct comer *comer = argument;
    struct queue *queue = comer->queue;
    gyre_domain_enter(queue->domain);
    queue->entered[queue->count++] = comer->number;
    gyre_domain_leave(queue->domain);
    return NULL;
}

/* Starts threads, each when the one before it waits. The caller owns the domain. */
static void line_up(struct queue *queue, struct comer comer[THREADS])
{
    for (int i = 0; i < THREADS; i++) {
        comer[i] = (struct comer){queue, i};
        assert_int_equal(pthread_create(&queue->thread[i], NULL, come, &comer[i]), 0);
        while ((int)atomic_load(&queue->domain->wanted) != i + 1)
            sched_yield();
    }
}

static void the_first_to_come_is_the_first_to_enter(void **state)
{
    (void)state;
    struct queue queue = {.domain = calloc(1, sizeof(struct gyre_domain))};
    struct comer comer[THREADS];
    for (int round = 0; round < 50; round++) {
        queue.count = 0;
        gyre_domain_enter(queue.domain);
        line_up(&queue, comer);
        gyre_domain_leave(queue.domain);
        for (int i = 0; i < THREADS; i++)
            pthread_join(queue.thread[i], NULL);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(queue.entered[i], i);
        assert_false(gyre_domain_wanted(queue.domain));
    }
    free(queue.domain);
}

/* Nobody enters before those that wait, though the domain is free for a moment. */
static void nobody_enters_before_those_that_wait(void **state)
{
    (void)state;
    struct queue queue = {.domain = calloc(1, sizeof(struct gyre_domain))};
    struct comer comer[THREADS];
    gyre_domain_enter(queue.domain);
    line_up(&queue, comer);
    gyre_domain_leave(queue.domain);
    gyre_domain_enter(queue.domain);
    assert_int_equal(queue.count, THREADS);
    gyre_domain_leave(queue.domain);
    for (int i = 0; i < THREADS; i++)
        pthread_join(queue.thread[i], NULL);
    free(queue.domain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_to_come_is_the_first_to_enter),
        cmocka_unit_test(nobody_enters_before_those_that_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
