/* Runs the tests of a program beside each other. For programs that wait most of the time: for a
 * dead time, or for a stranger to give up.
 *
 *     test 0 ├────────┤├── test 4 ──┤
 *     test 1 ├──┤├── test 5 ──┤            Each test is a process of its own and shares nothing
 *     test 2 ├─────┤├─ test 6 ─┤           with the others. Its output is shown when it has ended.
 *     test 3 ├───────────┤
 *
 * Where all is slow (rig/haste.h) they run one after the other. */
#ifndef GYRE_TESTS_RIG_BESIDE_H
#define GYRE_TESTS_RIG_BESIDE_H

#include "rig/haste.h"
#include "rig/test.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BESIDE_AT_ONCE 4

struct beside {
    pid_t pid; /* 0: nothing runs here */
    FILE *output;
    const char *name;
};

static inline void beside_start(struct beside *place, const struct CMUnitTest *test,
                                CMFixtureFunction setup)
{
    fflush(stdout);
    place->name = test->name;
    place->output = tmpfile();
    place->pid = place->output ? fork() : -1;
    if (place->pid < 0) {
        perror(test->name);
        exit(1);
    }
    if (place->pid > 0)
        return;
    if (dup2(fileno(place->output), STDOUT_FILENO) < 0 || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        _exit(1);
    exit(_cmocka_run_group_tests(test->name, test, 1, setup, NULL));
}

/* Shows the output. Returns 1 where the test has failed, else 0. */
static inline int beside_end(struct beside *place, int status)
{
    char text[4096];
    rewind(place->output);
    for (size_t got; (got = fread(text, 1, sizeof text, place->output)) > 0;)
        fwrite(text, 1, got, stdout);
    fclose(place->output);
    place->pid = 0;
    if (WIFSIGNALED(status))
        printf("[  FAILED  ] %s: ended by signal %d\n", place->name, WTERMSIG(status));
    else if (status)
        printf("[  FAILED  ] %s: exit code %d\n", place->name, WEXITSTATUS(status));
    return status != 0;
}

/* Waits for a test to end. Returns as beside_end(). */
static inline int beside_wait(struct beside place[BESIDE_AT_ONCE])
{
    int status;
    pid_t pid = wait(&status);
    for (int i = 0; i < BESIDE_AT_ONCE; i++)
        if (pid > 0 && place[i].pid == pid)
            return beside_end(&place[i], status);
    fprintf(stderr, "a test was not to be waited for\n");
    exit(1);
}

/* Runs `setup`, unless it is NULL, and a test, for each test. Returns how many failed. */
static inline int run_beside(const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup)
{
    struct beside place[BESIDE_AT_ONCE] = {0};
    const int most = all_is_slow() ? 1 : BESIDE_AT_ONCE;
    int failed = 0, running = 0;
    for (size_t next = 0; next < count || running > 0;) {
        if (next == count || running == most) {
            failed += beside_wait(place);
            running--;
            continue;
        }
        int i = 0;
        while (place[i].pid)
            i++;
        beside_start(&place[i], &tests[next++], setup);
        running++;
    }
    return failed;
}

#endif
