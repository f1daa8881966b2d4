/* The right device for each rank, and nobody on device 0 who does not belong there.
 *
 *     gyre run -n 4 build/examples/devices                               on CPUs
 *     gyre run -n 4 --devices 0,1,2,3 build/examples/devices             a GPU each
 *     gyre run -n 3 --devices 2,4,7 build/examples/devices               some of them
 *     gyre run --hosts a:4,b:2 --devices 0,1,2,3 build/examples/devices  uneven nodes
 *
 * Local rank i takes entry i of the list, on every node alike: never its rank, which no device of a
 * second node has. A device that is not there is refused before ranks meet, with the rank, the host
 * and what is visible. A rank makes a context on its own device only. The program is the same on
 * CPUs and GPUs: gyre_device() says which it is. */
#include "ranks.h"

#define COUNT 100000

/* Memory where the rank computes. */
static int allocate(struct gyre_comm *comm, void **memory)
{
    const size_t bytes = COUNT * sizeof(float);
    return gyre_device(comm) >= 0 ? gyre_alloc_device(comm, bytes, memory)
                                  : gyre_alloc(comm, bytes, memory);
}

/* Sums over ranks from host memory to the device's, and back from there. */
static int sum_there(struct gyre_comm *comm, void *there, float *numbers)
{
    int status = gyre_all_reduce(comm, numbers, there, COUNT, GYRE_F32, GYRE_SUM);
    return status ? status : gyre_all_reduce(comm, there, numbers, COUNT, GYRE_F32, GYRE_MAX);
}

int main(void)
{
    static float numbers[COUNT];
    struct gyre_comm *comm;
    void *there = NULL;
    uint64_t right = 0;

    if (gyre_init(&comm, NULL)) {
        fprintf(stderr, "devices: %s\n", gyre_error(NULL));
        return 1;
    }
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)(gyre_rank(comm) + i % 7);
    int failed = allocate(comm, &there) || sum_there(comm, there, numbers);
    const int n = gyre_size(comm);
    for (int i = 0; i < COUNT; i++)
        right += numbers[i] == (float)(n * (n - 1) / 2 + n * (i % 7));
    if (failed || print_ranks(comm, "sums that are right", right))
        fprintf(stderr, "devices: rank %d: %s\n", gyre_rank(comm), gyre_error(comm));
    gyre_free(comm, there);
    return gyre_finalize(comm) || failed || right != COUNT;
}
