/* The helper and an engine that leaves it with work undone, as one does whose operations are in a
 * graph: the thread must leave it, or gyre_finalize() never comes to its end. */
#include "collectives/comm/helper.h"

#include "collectives/comm/progress.h"
#include "rig/test.h"
#include "transport/domain/inside.h"

#include <sched.h>
#include <stdlib.h>

#define TIMES 200
#define LOOKS 100

static void an_engine_with_work_can_leave(void **state)
{
    (void)state;
    struct gyre_domain *domain = calloc(1, sizeof *domain);
    struct gyre_progress_engine *progress = calloc(1, sizeof *progress);
    assert_non_null(domain);
    assert_non_null(progress);
    progress->domain = domain;
    progress->busy_count = 1;
    for (int i = 0; i < TIMES; i++) {
        assert_int_equal(gyre_helper_start(progress), 0);
        atomic_store(&progress->helper.leaving, true);
        assert_int_equal(gyre_helper_poke(progress), 0);
        for (int look = 0; look < LOOKS && !atomic_load(&domain->owner); look++)
            sched_yield();
        gyre_helper_stop(progress);
    }
    free(progress);
    free(domain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_with_work_can_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
