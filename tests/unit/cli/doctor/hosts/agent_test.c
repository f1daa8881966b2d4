/* An agent that is told what it cannot do says why, once, and nothing that sounds like success. All
 * of a check-up over hosts is tried by tests/program/cli/doctor_hosts.sh. */
#include "rig/test.h"

#include "base/port.h"
#include "cli/doctor/hosts/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Has the agent hear these lines and then no more; returns all that it says. */
static const char *ask_agent(const char *lines)
{
    static char said[8192];
    int in[2], out[2];
    assert_int_equal(pipe(in) | pipe(out), 0);
    assert_int_equal(write(in[1], lines, strlen(lines)), strlen(lines));
    close(in[1]);
    assert_int_equal(gyre_doctor_serve(in[0], out[1]), 0);
    ssize_t length = read(out[0], said, sizeof said - 1);
    said[length > 0 ? length : 0] = 0;
    close(out[0]);
    return said;
}

/* The one port of its range is taken. */
static void an_agent_that_cannot_listen_says_so(void **state)
{
    char range[32], told[128];
    uint16_t port;
    int keeper = gyre_port_reserve(&port);
    (void)state;
    assert_true(keeper >= 0 && !listen(keeper, 1));
    snprintf(range, sizeof range, "%u-%u", port, port);
    setenv("GYRE_PORT_RANGE", range, 1);
    snprintf(told, sizeof told, "failed cannot listen at a port of %s: Address already in use\n",
             range);
    assert_string_equal(ask_agent("listen token\nbye\n"), told);
    unsetenv("GYRE_PORT_RANGE");
    close(keeper);
}

static void an_agent_that_can_says_done(void **state)
{
    (void)state;
    const char *said = ask_agent("listen token\nbye\n");
    assert_int_equal(strncmp(said, "fact port ", 10), 0);
    assert_string_equal(strchr(said, '\n'), "\ndone\n");
}

static void unknown_words_fail(void **state)
{
    (void)state;
    assert_string_equal(ask_agent("dance\nbye\n"), "failed unknown words: dance\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_that_cannot_listen_says_so),
        cmocka_unit_test(an_agent_that_can_says_done),
        cmocka_unit_test(unknown_words_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
