/* Where the kernel or a container refuses io_uring, epoll serves, exactly one line says why, and
 * the results are the same. Each case is a child process with a seccomp filter that answers
 * io_uring_setup as such machines do, and whose standard error is read back. Where the kernel
 * refuses operations of a ring that it has made, plain calls move the bytes. */
#include "rig/tcp_pair.h"

#include "transport/link/tcp/inside.h"
#include "transport/link/tcp/uring.h"
#include "rig/test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define TEXT_MAX   4096
#define BYTES      300000
#define POLLS_MOST 1000000
#define SECONDS    300 /* the longest life of a child */

enum child_end { SERVED_BY_EPOLL = 10, SERVED_BY_RING, NO_FILTER, WRONG_DATA, NO_PAIR, WRONG_TRY };

struct scene {
    const char *asked; /* NULL: whatever is best */
    const char *log;   /* GYRE_LOG */
    int refusal;       /* errno of io_uring_setup, 0: no filter */
    int later;         /* of io_uring_enter, once messages have gone through the ring */
};

struct outcome {
    enum child_end end;
    int lines;
    char text[TEXT_MAX];
};

static int refuse_call(unsigned number, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -errno;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

/* One long and one short message from the side under test and back. */
static bool exchanges(struct tcp_pair *pair, uint64_t sequence)
{
    static unsigned char out[2][BYTES], in[2][BYTES];
    int done = 0;
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < BYTES; i++)
            out[side][i] = (unsigned char)(i * 13 + side);
        for (uint16_t lane = 0; lane < 2; lane++) {
            struct gyre_match match = {.sequence = sequence, .lane = lane};
            uint64_t length = lane ? 8 : BYTES - 8, at = lane ? BYTES - 8 : 0;
            gyre_driver_tcp.recv(pair->pipe[side][0], &match, in[side] + at, length, lane);
            gyre_driver_tcp.send(pair->pipe[side][0], &match, out[side] + at, length, lane);
        }
    }
    for (int polls = 0; done < 8 && polls < POLLS_MOST; polls++) {
        struct gyre_completion completion[8];
        int got = gyre_driver_tcp.poll(pair->wire[polls % 2], 0, completion, 8);
        for (int i = 0; i < got; i++)
            done += completion[i].status == 0;
    }
    return done == 8 && !memcmp(in[0], out[1], BYTES) && !memcmp(in[1], out[0], BYTES);
}

static enum child_end play(const struct scene *scene)
{
    struct tcp_pair pair;
    const struct gyre_wire_options wish[2] = {{.variant = scene->asked}, {.variant = "epoll"}};
    setenv("GYRE_LOG", scene->log, 1);
    alarm(SECONDS);
    if (scene->refusal && refuse_call(__NR_io_uring_setup, scene->refusal))
        return NO_FILTER;
    struct gyre_trouble trouble = {0};
    if (scene->refusal && (!gyre_tcp_uring_try(&trouble) || !trouble.text[0]))
        return WRONG_TRY; /* who asks before a job is told the same */
    if (tcp_pair_open_as(&pair, wish, TCP_PAIR_INET, 1, 2))
        return NO_PAIR;
    char link[32];
    gyre_driver_tcp.describe(pair.wire[0], link, sizeof link);
    bool ring = !strcmp(link, "tcp/io_uring");
    bool good = exchanges(&pair, 1);
    if (scene->later && refuse_call(__NR_io_uring_enter, scene->later))
        return NO_FILTER;
    for (uint64_t sequence = 2; good && scene->later && sequence < 20; sequence++)
        good = exchanges(&pair, sequence);
    tcp_pair_close(&pair);
    return !good ? WRONG_DATA : ring ? SERVED_BY_RING : SERVED_BY_EPOLL;
}

static void read_all(int fd, char text[TEXT_MAX])
{
    size_t length = 0;
    ssize_t got;
    while (length < TEXT_MAX - 1 && (got = read(fd, text + length, TEXT_MAX - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
}

static struct outcome run(struct scene scene)
{
    struct outcome outcome = {0};
    int pipe_fd[2], status;
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        dup2(pipe_fd[1], STDERR_FILENO);
        close(pipe_fd[0]);
        close(pipe_fd[1]);
        _exit((int)play(&scene));
    }
    close(pipe_fd[1]);
    read_all(pipe_fd[0], outcome.text);
    close(pipe_fd[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    outcome.end = (enum child_end)WEXITSTATUS(status);
    for (const char *at = outcome.text; (at = strchr(at, '\n')); at++)
        outcome.lines++;
    if (outcome.end == NO_FILTER) {
        print_message("skipped: this machine takes no seccomp filter\n");
        skip();
    }
    return outcome;
}

static void expect_fallback(const struct outcome *outcome, const char *name)
{
    assert_int_equal(outcome->end, SERVED_BY_EPOLL);
    assert_int_equal(outcome->lines, 1);
    assert_non_null(strstr(outcome->text, "served by epoll"));
    assert_non_null(strstr(outcome->text, gyre_tcp_uring ? name : "not built in"));
}

static void forced_and_refused_warns(void **state)
{
    (void)state;
    static const struct {
        int error;
        const char *name;
    } refusals[] = {{EPERM, "EPERM"}, {ENOSYS, "ENOSYS"}, {ENOMEM, "ENOMEM"}, {EMFILE, "EMFILE"}};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct outcome outcome =
            run((struct scene){.asked = "io_uring", .log = "warn", .refusal = refusals[i].error});
        expect_fallback(&outcome, refusals[i].name);
    }
}

static void unasked_and_refused_is_told_too(void **state)
{
    (void)state;
    struct outcome outcome = run((struct scene){.log = "warn", .refusal = EPERM});
    assert_int_equal(outcome.end, SERVED_BY_EPOLL);
    if (gyre_tcp_uring)
        expect_fallback(&outcome, "EPERM");
    else
        assert_string_equal(outcome.text, ""); /* there was nothing to refuse */
}

static void the_cause_is_named(void **state)
{
    (void)state;
    struct outcome outcome =
        run((struct scene){.asked = "io_uring", .log = "warn", .refusal = EPERM});
    if (gyre_tcp_uring)
        assert_non_null(strstr(outcome.text, "seccomp"));
}

static void epoll_by_name_says_nothing(void **state)
{
    (void)state;
    struct outcome outcome = run((struct scene){.asked = "epoll", .log = "debug"});
    assert_int_equal(outcome.end, SERVED_BY_EPOLL);
    assert_string_equal(outcome.text, "");
}

static void a_ring_that_fails_later_costs_nothing(void **state)
{
    static const int errors[] = {ENOMEM, EPERM};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct outcome outcome =
            run((struct scene){.asked = "io_uring", .log = "error", .later = errors[i]});
        assert_true(outcome.end == SERVED_BY_RING || outcome.end == SERVED_BY_EPOLL);
        assert_string_equal(outcome.text, "");
    }
}

/* On any machine: io_uring asked for, epoll serving and no line about it is the one thing that must
 * not be. */
static void asked_and_served_agree(void **state)
{
    (void)state;
    struct outcome outcome = run((struct scene){.asked = "io_uring", .log = "warn"});
    if (outcome.end == SERVED_BY_RING)
        assert_string_equal(outcome.text, "");
    else
        expect_fallback(&outcome, "refused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forced_and_refused_warns),
        cmocka_unit_test(unasked_and_refused_is_told_too),
        cmocka_unit_test(the_cause_is_named),
        cmocka_unit_test(epoll_by_name_says_nothing),
        cmocka_unit_test(a_ring_that_fails_later_costs_nothing),
        cmocka_unit_test(asked_and_served_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
