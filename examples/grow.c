/* A job that processes join while it runs.
 *
 *     export GYRE_ROOT=file:///tmp/grow
 *     RANK=0 WORLD_SIZE=2 build/examples/grow & RANK=1 WORLD_SIZE=2 build/examples/grow &
 *     build/examples/grow join
 *
 *     rank 0      step 1  2  3  grow  4  5  6 …
 *     rank 1      step 1  2  3  grow  4  5  6 …
 *     newcomer          join ───┴───  4  5  6 …
 *
 * All ranks call gyre_grow() at the end of a step. Where nobody waits they go on as they were.
 * Otherwise they get a larger communicator, and rank 0 tells the newcomers how far the job is. */
#include <gyre/gyre.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#define COUNT 100000
#define STEPS 30

/* One step: here a sum of one for each rank, so the result says how many took part. */
static int step(struct gyre_comm *comm, float *data)
{
    const struct timespec work = {.tv_nsec = 100000000};
    nanosleep(&work, NULL);
    for (int i = 0; i < COUNT; i++)
        data[i] = 1;
    return gyre_all_reduce(comm, data, data, COUNT, GYRE_F32, GYRE_SUM);
}

/* What a newcomer has to know. A training would broadcast its weights, too. */
static int hand_over(struct gyre_comm *comm, int *done)
{
    return gyre_broadcast(comm, done, done, 1, GYRE_I32, 0);
}

static int grow(struct gyre_comm **comm, int *done)
{
    struct gyre_comm *larger;
    int status = gyre_grow(*comm, 8, &larger);
    if (status || !larger)
        return status;
    if (gyre_rank(larger) == 0)
        printf("%d ranks become %d\n", gyre_size(*comm), gyre_size(larger));
    gyre_finalize(*comm);
    *comm = larger;
    return hand_over(larger, done);
}

static int run(struct gyre_comm **comm, float *data, int done)
{
    int status = 0;
    while (!status && done < STEPS) {
        status = step(*comm, data);
        done++;
        if (!status && gyre_rank(*comm) == gyre_size(*comm) - 1)
            printf("rank %d, step %d: %g ranks\n", gyre_rank(*comm), done, data[0]);
        if (!status)
            status = grow(comm, &done);
    }
    return status;
}

int main(int argc, char **argv)
{
    const int joins = argc > 1 && strcmp(argv[1], "join") == 0;
    struct gyre_comm *comm;
    void *data;
    int done = 0;
    if (joins ? gyre_join(&comm, NULL) : gyre_init(&comm, NULL)) {
        fprintf(stderr, "%s\n", gyre_error(NULL));
        return 1;
    }
    int status = joins ? hand_over(comm, &done) : 0;
    if (!status)
        status = gyre_alloc(comm, COUNT * sizeof(float), &data);
    if (!status)
        status = run(&comm, data, done);
    if (status)
        fprintf(stderr, "%s\n", gyre_error(NULL));
    return gyre_finalize(comm) || status;
}
