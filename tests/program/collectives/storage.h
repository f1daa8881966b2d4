/* A program with STORAGE bytes of thread-local storage, as some numeric libraries bring: the C
 * library takes them from the stack of each thread, Gyre's too. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <sched.h>

enum { COUNT = 1 << 20 };

static __thread volatile char storage[STORAGE];
static volatile int32_t sum[COUNT];

/* Reads what Gyre's thread may be writing, behind the thread sanitizer's back. */
__attribute__((no_sanitize("thread"))) static int32_t last_sum(void)
{
    return sum[COUNT - 1];
}

/* Nobody calls Gyre until the sum is there: its own thread makes it. */
static int the_helper_reduces(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_work *work;
    storage[0] = storage[STORAGE - 1] = 1;
    for (int i = 0; i < COUNT; i++)
        sum[i] = 1;
    if (gyre_all_reduce_start(comm, (void *)sum, (void *)sum, COUNT, GYRE_I32, GYRE_SUM, &work))
        return 10;
    while (last_sum() != rig->n)
        sched_yield();
    return gyre_work_wait(work, -1) ? 20 : gyre_finalize(comm) ? 30 : 0;
}

static void threads_have_room(void **state)
{
    static const char *const transports[] = {"auto", "tcp"};
    for (int i = 0; i < 2; i++) {
        struct rig rig = {.n = 2, .transport = transports[i], .body = the_helper_reduces};
        assert_int_equal(rig_run(&rig, 30), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_have_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
