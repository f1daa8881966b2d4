/* Processes that compute for nothing, one for every four cores and one more: enough for a load, and
 * few enough for what is tested to end in time. They end with the test. */
#ifndef GYRE_TESTS_RIG_BUSY_LOOPS_H
#define GYRE_TESTS_RIG_BUSY_LOOPS_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUSY_LOOPS_MOST = 256 };

static pid_t busy_loop[BUSY_LOOPS_MOST];
static int busy_loops;

static inline void busy_loops_start(void)
{
    long wanted = 1 + sysconf(_SC_NPROCESSORS_ONLN) / 4;
    pid_t test = getpid();
    while (busy_loops < wanted && busy_loops < BUSY_LOOPS_MOST) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            prctl(PR_SET_NAME, "busy_loop");
            for (volatile int turn = 0; getppid() == test; turn = turn + 1)
                for (volatile int i = 0; i < 1000000; i = i + 1)
                    ;
            _exit(0);
        }
        busy_loop[busy_loops++] = child;
    }
}

static inline void busy_loops_end(void)
{
    for (; busy_loops > 0; busy_loops--) {
        kill(busy_loop[busy_loops - 1], SIGKILL);
        waitpid(busy_loop[busy_loops - 1], NULL, 0);
    }
}

#endif
