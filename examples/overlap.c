/* Computing while data travel: a gradient arrives in parts, and each part is reduced while the next
 * one is still being computed.
 *
 *     gyre run -n 2 build/examples/overlap
 *
 *     this thread   compute 0 │ compute 1 │ compute 2 │ compute 3 │ wait for all
 *     Gyre                    └ reduce 0 ─┴ reduce 1 ─┴ reduce 2 ─┴ reduce 3 ─┘
 *
 * gyre_alloc() gives memory that the ranks of this machine can map, so nothing is copied in
 * between. All ranks start the same operations in the same order. After a failed collective every
 * later call returns the same status, so it is enough to look at what the waits return. */
#include <gyre/gyre.h>

#include <stdio.h>

#define PARTS 8
#define COUNT 100000 /* elements of one part */

/* Stands for a backward pass: what this rank finds for element i of a part. */
static float gradient(int rank, int part, int i)
{
    return (float)((rank + 1) * (part + 1) + i % 5);
}

static void compute(float *part, int rank, int number)
{
    for (int i = 0; i < COUNT; i++)
        part[i] = gradient(rank, number, i);
}

/* Averages all parts over the ranks, in place. */
static int run(struct gyre_comm *comm, float *data)
{
    struct gyre_work *work[PARTS];
    int started = 0, status = 0;

    for (; !status && started < PARTS; started += !status) {
        float *part = data + (size_t)started * COUNT;
        compute(part, gyre_rank(comm), started);
        status = gyre_all_reduce_start(comm, part, part, COUNT, GYRE_F32, GYRE_AVG, &work[started]);
    }
    for (int i = 0; i < started; i++) { /* each handle must be waited for, after a failure too */
        int ended = gyre_work_wait(work[i], -1);
        status = status ? status : ended;
    }
    return status;
}

static int count_wrong(const float *data, int n)
{
    int wrong = 0;
    for (int part = 0; part < PARTS; part++)
        for (int i = 0; i < COUNT; i++) {
            float sum = 0;
            for (int rank = 0; rank < n; rank++)
                sum += gradient(rank, part, i);
            wrong += data[(size_t)part * COUNT + (size_t)i] != sum / (float)n;
        }
    return wrong;
}

int main(void)
{
    struct gyre_comm *comm;
    void *data;

    if (gyre_init(&comm, NULL)) {
        fprintf(stderr, "%s\n", gyre_error(NULL));
        return 1;
    }
    int failed = gyre_alloc(comm, PARTS * COUNT * sizeof(float), &data) || run(comm, data);
    if (failed)
        fprintf(stderr, "%s\n", gyre_error(comm));
    int wrong = failed ? 0 : count_wrong(data, gyre_size(comm));
    if (!failed && gyre_rank(comm) == 0)
        printf("%d parts of %d elements averaged over %d ranks, %d wrong\n", PARTS, COUNT,
               gyre_size(comm), wrong);
    return gyre_finalize(comm) || failed || wrong;
}
