/* The smallest whole program: every rank brings four numbers, and all ranks get the sums.
 *
 *     gyre run -n 2 build/examples/allreduce
 *
 * The five lines that matter are gyre_init, gyre_error, gyre_all_reduce and gyre_finalize; the rest
 * fills the buffer and looks at what came. */
#include <gyre/gyre.h>

#include <stdio.h>

#define COUNT 4

int main(void)
{
    struct gyre_comm *comm;
    float data[COUNT];

    if (gyre_init(&comm, NULL)) {
        fprintf(stderr, "%s\n", gyre_error(NULL));
        return 1;
    }
    int rank = gyre_rank(comm), n = gyre_size(comm);
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(100 * i + rank);

    int failed = gyre_all_reduce(comm, data, data, COUNT, GYRE_F32, GYRE_SUM);
    if (failed)
        fprintf(stderr, "%s\n", gyre_error(comm));
    for (int i = 0; !failed && i < COUNT; i++) /* 100 i from each rank, and 0 + 1 + … + n-1 */
        failed = data[i] != (float)(100 * i * n + n * (n - 1) / 2);
    if (!failed && rank == 0)
        printf("sums over %d ranks: %g %g %g %g\n", n, data[0], data[1], data[2], data[3]);
    return gyre_finalize(comm) || failed;
}
