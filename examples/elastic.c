/* A job that outlives its ranks: ranks die, and those that are left go on.
 *
 *     gyre run -n 4 --elastic 2 build/examples/elastic
 *
 *     rank 0   step 1  2  3  4 ✗ shrink   4  5  6 ✗ shrink   6  7  8
 *     rank 1   step 1  2  3  4 ✗ shrink   4  5  6 ✗ shrink   6  7  8
 *     rank 2   step 1  2  3  4 ✗ shrink   4  5  † killed
 *     rank 3   step 1  2  3  † killed
 *
 * A death is known within milliseconds: the call that needs the dead rank returns GYRE_PEER_LOST on
 * all others. gyre_shrink() gives them a communicator without it, and memory of gyre_alloc() goes
 * with them. Some ranks may have ended the last step when the others were told, so all agree from
 * which step they go on. */
#include <gyre/gyre.h>

#include <signal.h>
#include <stdio.h>

#define COUNT 100000
#define STEPS 8

/* One step: here a sum of one for each rank, so the result says how many took part. */
static int step(struct gyre_comm *comm, float *data)
{
    for (int i = 0; i < COUNT; i++)
        data[i] = 1;
    return gyre_all_reduce(comm, data, data, COUNT, GYRE_F32, GYRE_SUM);
}

static void tell_losses(struct gyre_comm *comm)
{
    static const char *const reasons[] = {[GYRE_LOST_UNKNOWN] = "is lost",
                                          [GYRE_LOST_ENDED] = "has ended",
                                          [GYRE_LOST_SILENT] = "is silent",
                                          [GYRE_LOST_LEFT] = "has left"};
    struct gyre_lost_rank lost[16];
    int count = 0;
    gyre_failure(comm, lost, 16, &count);
    for (int i = 0; i < count && i < 16; i++)
        printf("rank %d on %s (pid %d) %s\n", lost[i].rank, lost[i].host, lost[i].pid,
               reasons[lost[i].reason]);
}

/* Goes on with the ranks that are left, from the first step that some rank has not ended. */
static int go_on(struct gyre_comm **comm, int *done)
{
    struct gyre_comm *smaller;
    int status = gyre_shrink(*comm, &smaller);
    if (status)
        return status;
    if (gyre_rank(smaller) == 0)
        tell_losses(*comm);
    gyre_finalize(*comm);
    *comm = smaller;
    return gyre_all_reduce(smaller, done, done, 1, GYRE_I32, GYRE_MIN);
}

/* Stands for a crash: the last rank is killed on its way. */
static void crash_sometimes(const struct gyre_comm *comm, int done)
{
    int n = gyre_size(comm);
    if (n > 2 && gyre_rank(comm) == n - 1 && done == 11 - 2 * n)
        raise(SIGKILL);
}

static int run(struct gyre_comm **comm, float *data)
{
    int status = 0;
    for (int done = 0; !status && done < STEPS;) {
        crash_sometimes(*comm, done);
        status = step(*comm, data);
        if (!status && gyre_rank(*comm) == 0)
            printf("step %d: %g ranks\n", done + 1, data[0]);
        if (!status)
            done++;
        while (status == GYRE_PEER_LOST)
            status = go_on(comm, &done);
    }
    return status;
}

int main(void)
{
    struct gyre_comm *comm;
    void *data;
    if (gyre_init(&comm, NULL)) {
        fprintf(stderr, "%s\n", gyre_error(NULL));
        return 1;
    }
    int status = gyre_alloc(comm, COUNT * sizeof(float), &data);
    if (!status)
        status = run(&comm, data);
    if (status)
        fprintf(stderr, "%s\n", gyre_error(NULL));
    return gyre_finalize(comm) || status;
}
