/* Work dealt out to whoever asks: tasks of unequal size, ranks of unequal speed, and nobody waits.
 *
 *     gyre run -n 3 build/examples/deal
 *
 * Rank 0 has a row of tasks. Each other rank asks for one, does it, and sends its result as the
 * next question. Rank 0 does not know who will ask next, so it receives from any rank. The task
 * goes back to the one that asked, under a tag of its own: so an answer is never taken for a
 * question. */
#include <gyre/gyre.h>

#include <stdio.h>

#define TASKS 200
#define NONE  (-1) /* no task: there are none left */

enum { QUESTION = 1, ANSWER = 2 };

/* The number of divisors of all numbers up to a limit, which differs from task to task. */
static int32_t do_task(int32_t task)
{
    int32_t limit = 50 + task * 7919 % 2000, divisors = 0;
    for (int32_t number = 1; number <= limit; number++)
        for (int32_t divisor = 1; divisor <= number; divisor++)
            divisors += number % divisor == 0;
    return divisors;
}

/* Deals until all tasks are done and every rank has been told that there are none left. A question
 * without a result is empty. */
static int deal(struct gyre_comm *comm, int64_t *sum, int *done)
{
    int32_t next = 0, result, task;
    int status = 0;
    for (int left = gyre_size(comm) - 1; left > 0 && !status;) {
        struct gyre_received question;
        status = gyre_recv_any(comm, &result, 1, GYRE_I32, GYRE_ANY_SOURCE, QUESTION, &question);
        if (status)
            break;
        if (question.count) {
            *sum += result;
            done[question.source]++;
        }
        task = next < TASKS ? next++ : NONE;
        left -= task == NONE;
        status = gyre_send_tag(comm, &task, 1, GYRE_I32, question.source, ANSWER);
    }
    return status;
}

static int work(struct gyre_comm *comm)
{
    int32_t task = 0, result = 0;
    int status = gyre_send_tag(comm, NULL, 0, GYRE_I32, 0, QUESTION);
    while (!status && task != NONE) {
        status = gyre_recv_tag(comm, &task, 1, GYRE_I32, 0, ANSWER);
        if (status || task == NONE)
            break;
        result = do_task(task);
        status = gyre_send_tag(comm, &result, 1, GYRE_I32, 0, QUESTION);
    }
    return status;
}

static int check(int64_t sum, const int *done, int n)
{
    int64_t expected = 0;
    int all = 0;
    for (int32_t task = 0; task < TASKS; task++)
        expected += do_task(task);
    for (int rank = 1; rank < n; rank++) {
        printf("rank %d has done %d tasks\n", rank, done[rank]);
        all += done[rank];
    }
    printf("%d tasks, sum %lld\n", all, (long long)sum);
    return n > 1 && (all != TASKS || sum != expected);
}

int main(void)
{
    struct gyre_comm *comm;
    int done[1024] = {0};
    int64_t sum = 0;
    if (gyre_init(&comm, NULL)) {
        fprintf(stderr, "%s\n", gyre_error(NULL));
        return 1;
    }
    int rank = gyre_rank(comm), n = gyre_size(comm);
    int status = n > 1024 ? GYRE_INVALID : rank ? work(comm) : deal(comm, &sum, done);
    if (status)
        fprintf(stderr, "%s\n", gyre_error(comm));
    int wrong = !status && !rank && check(sum, done, n);
    return gyre_finalize(comm) || status || wrong;
}
