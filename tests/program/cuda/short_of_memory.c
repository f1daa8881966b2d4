/* A rank that has no memory for the moves of a device, over the stand-in for CUDA: it says in its
 * line that its device does not run the operation. So no rank's device runs it, and the sum is
 * right, as is the next one, for which there is memory. */
#include "program/cuda/share_rig.h"
#include "rig/test.h"

#include <errno.h>
#include <string.h>

#define COUNT 65536

static __thread bool armed; /* the next calloc() of this thread fails */

void *__real_calloc(size_t items, size_t bytes);
void *__wrap_calloc(size_t items, size_t bytes);
void *__wrap_calloc(size_t items, size_t bytes)
{
    if (!armed)
        return __real_calloc(items, bytes);
    armed = false;
    errno = ENOMEM;
    return NULL;
}

/* Sums on the devices; rank 1 is short of memory where `shortage` says so. */
static int sum(struct gyre_comm *comm, int *memory, int *output, bool shortage)
{
    static int values[COUNT];
    int bad = 0;
    for (int i = 0; i < COUNT; i++)
        values[i] = i + gyre_rank(comm);
    bad |= share_copy(comm, memory, values, sizeof values);
    armed = shortage && gyre_rank(comm) == 1;
    bad |= rig_check(!gyre_all_reduce(comm, memory, output, COUNT, GYRE_I32, GYRE_SUM), comm,
                     "all_reduce");
    bad |= rig_check(!armed, comm, "nothing was allocated");
    armed = false;
    bad |= share_copy(comm, values, output, sizeof values);
    for (int i = 0; i < COUNT && !bad; i++)
        bad = rig_check(values[i] == 2 * i + 1, comm, "the sum");
    return bad;
}

static int run_short(struct gyre_comm *comm, struct rig *rig)
{
    static int host[COUNT];
    void *memory, *output;
    (void)rig;
    int bad = rig_check(!gyre_alloc_device(comm, sizeof host, &memory) &&
                            !gyre_alloc_device(comm, sizeof host, &output),
                        comm, "memory");
    /* The plan is made here, without moves for devices. */
    bad = bad || gyre_all_reduce(comm, host, host, COUNT, GYRE_I32, GYRE_SUM);
    for (int round = 0; round < 2 && !bad; round++)
        bad = sum(comm, memory, output, round == 0);
    return share_end(comm, bad);
}

static void all_ranks_leave_the_device(void **state)
{
    struct rig rig = {.n = 2, .transport = "shm", .before = share_two_devices, .body = run_short};
    (void)state;
    assert_int_equal(rig_run(&rig, SECONDS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_leave_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
