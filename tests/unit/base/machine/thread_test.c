/* Threads of Gyre: no signals but their own faults are theirs, and thread-local storage does not
 * eat their stacks. */
#include "base/machine/thread.h"
#include "rig/test.h"

#include <signal.h>

#define STORAGE (1 << 20)

static __thread volatile char storage[STORAGE];

static void *look(void *argument)
{
    volatile char stack[128 * 1024];
    for (size_t i = 0; i < sizeof stack; i += 4096)
        stack[i] = 1;
    storage[0] = storage[STORAGE - 1] = stack[0];
    pthread_sigmask(SIG_SETMASK, NULL, argument);
    return argument;
}

static void a_thread_has_room_and_no_signals(void **state)
{
    sigset_t before, within, after;
    pthread_t thread;
    void *end;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(gyre_thread_start(&thread, look, &within), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(pthread_join(thread, &end), 0);
    assert_ptr_equal(end, &within);
    assert_true(sigismember(&within, SIGTERM) && sigismember(&within, SIGUSR1));
    assert_false(sigismember(&within, SIGBUS) || sigismember(&within, SIGSEGV));
    for (int i = 1; i < SIGRTMIN; i++)
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thread_has_room_and_no_signals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
