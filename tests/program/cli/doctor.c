/* gyre doctor as its users type it, on this machine: every check says something, as text and as
 * JSON; a problem that is planted is found; colours go to terminals only; nothing is made. What the
 * machine itself lacks is no failure of the test. */
#include "data/files/json.h"
#include "rig/launch_rig.h"
#include "rig/told_lines.h"
#include "rig/test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rig rig;

static const char *const checks[] = {
    "cuda",        "cores",         "frequency", "load",       "clock",   "memory",   "memlock",
    "descriptors", "shared_memory", "dev_shm",   "huge_pages", "kernels", "blas",     "tcp",
    "io_uring",    "address",       "ports",     "rdma",       "key",     "launcher", "settings"};

enum { CHECKS = sizeof checks / sizeof *checks };

static void doctor(const char *flag)
{
    rig_run(&rig, NULL, (const char *const[]){"doctor", flag, NULL});
}

/* -- JSON -------------------------------------------------------------------------------------- */

/* Reads a finding; returns whether it is a problem. */
static bool read_finding(struct gyre_json *json, const char *check)
{
    char key[64], text[8192];
    bool more, problem = false;
    assert_int_equal(gyre_json_open(json, '{'), 0);
    while (!gyre_json_more(json, '}', &more) && more) {
        assert_int_equal(gyre_json_key(json, key), 0);
        bool named = !strcmp(key, "check"), state = !strcmp(key, "state");
        assert_int_equal(named || state ? gyre_json_string(json, text) : gyre_json_skip(json), 0);
        if (named)
            assert_string_equal(text, check);
        problem |= state && !strcmp(text, "problem");
    }
    return problem;
}

static uint64_t read_findings(struct gyre_json *json)
{
    uint64_t problems = 0;
    bool more;
    int found = 0;
    assert_int_equal(gyre_json_open(json, '['), 0);
    while (!gyre_json_more(json, ']', &more) && more) {
        assert_true(found < CHECKS);
        problems += read_finding(json, checks[found++]);
    }
    assert_int_equal(found, CHECKS);
    return problems;
}

/* One document, every check in it by its name, and the exit code says whether there is a problem.
 */
static void json_has_every_check(void **state)
{
    struct gyre_trouble trouble = {0};
    char key[64];
    uint64_t told = 99, problems = 77;
    bool more;
    (void)state;
    doctor("--json");
    struct gyre_json json = gyre_json_over("doctor", rig.out_text, strlen(rig.out_text), &trouble);
    assert_int_equal(gyre_json_open(&json, '{'), 0);
    while (!gyre_json_more(&json, '}', &more) && more) {
        assert_int_equal(gyre_json_key(&json, key), 0);
        if (!strcmp(key, "problems"))
            assert_int_equal(gyre_json_whole(&json, &told), 0);
        else if (!strcmp(key, "findings"))
            problems = read_findings(&json);
        else
            assert_int_equal(gyre_json_skip(&json), 0);
    }
    assert_int_equal(gyre_json_end(&json), 0);
    assert_int_equal(told, problems);
    assert_int_equal(rig.code, problems > 0);
    assert_string_equal(rig.err_text, "");
    rig_end(&rig);
}

/* -- text -------------------------------------------------------------------------------------- */

static void text_has_every_check(void **state)
{
    char line[64];
    (void)state;
    doctor(NULL);
    for (int i = 0; i < CHECKS; i++) {
        snprintf(line, sizeof line, "\n%s ", checks[i]);
        expect_line(rig.out_text, line);
    }
    assert_null(strchr(rig.out_text, '\033'));
    assert_int_equal(rig.code, !strstr(rig.out_text, "\nno problem; "));
    rig_end(&rig);
}

static void problems_are_found(void **state)
{
    (void)state;
    setenv("GYRE_PORT_RANGE", "7", 1);
    doctor(NULL);
    unsetenv("GYRE_PORT_RANGE");
    assert_int_equal(rig.code, 1);
    expect_line(rig.out_text, "problem   GYRE_PORT_RANGE is \"7\": expected two ports");
    assert_non_null(strstr(strstr(rig.out_text, " problem"), "ports"));
    rig_end(&rig);
}

static void wrong_words_are_told(void **state)
{
    (void)state;
    doctor("--jsno");
    rig_expect(&rig, 2, "did you mean '--json'?");
    rig_end(&rig);
    doctor("now");
    rig_expect(&rig, 2, "unexpected word 'now'");
    rig_end(&rig);
}

static void nothing_is_made(void **state)
{
    char home[256], config[300];
    (void)state;
    snprintf(home, sizeof home, "%s", rig_folder());
    snprintf(config, sizeof config, "%s/.config", home);
    setenv("HOME", home, 1);
    doctor(NULL);
    rig_end(&rig);
    unsetenv("HOME");
    assert_int_equal(access(config, F_OK), -1);
    expect_line(rig.out_text, "none yet; the first job of several ranks makes ");
}

/* -- machines that are made so ----------------------------------------------------------------- */

/* What the tool says on a terminal of 200 columns. */
static const char *on_a_terminal(void)
{
    static char text[1 << 16];
    struct winsize size = {.ws_row = 24, .ws_col = 200};
    size_t length = 0;
    ssize_t got;
    int master, ended;
    pid_t child = forkpty(&master, NULL, NULL, &size);
    assert_true(child >= 0);
    if (child == 0)
        _exit(rig_become((const char *const[]){"doctor", NULL}));
    while (length < sizeof text - 1 &&
           (got = read(master, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = 0;
    close(master);
    assert_int_equal(waitpid(child, &ended, 0), child);
    return text;
}

static void colours_go_to_terminals(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    assert_non_null(strstr(on_a_terminal(), "\033[32mok\033[0m"));
    setenv("NO_COLOR", "1", 1);
    const char *text = on_a_terminal();
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "\ncores "));
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    assert_null(strchr(on_a_terminal(), '\033'));
    unsetenv("TERM");
}

/* As containers do. The filter stays with the tool. */
static bool refuse_call(int number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* What the tool says where a system call is refused; NULL: no filter can be set here. */
static const char *without_call(int number)
{
    static char text[1 << 16];
    int ended, file = open(rig_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(file, STDOUT_FILENO);
        _exit(refuse_call(number) ? rig_become((const char *const[]){"doctor", NULL}) : 77);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    close(file);
    return WEXITSTATUS(ended) == 77 ? NULL : text;
}

static void refused_calls_are_found(void **state)
{
    (void)state;
    const char *text = without_call(__NR_memfd_create);
    if (!text) {
        print_message("skipped: this machine takes no seccomp filter\n");
        skip();
    }
    expect_line(text, "shared_memory  problem   memfd_create: Operation not permitted");
    text = without_call(__NR_io_uring_setup);
    if (!strstr(text, "io_uring is not built in"))
        expect_line(text, "io_uring is refused with EPERM");
    text = without_call(__NR_pidfd_open);
    expect_line(text, "shared_memory  problem   pidfd_open: Operation not permitted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_every_check),    cmocka_unit_test(text_has_every_check),
        cmocka_unit_test(problems_are_found),      cmocka_unit_test(wrong_words_are_told),
        cmocka_unit_test(nothing_is_made),         cmocka_unit_test(colours_go_to_terminals),
        cmocka_unit_test(refused_calls_are_found),
    };
    (void)rig_folder();
    return cmocka_run_group_tests_name("gyre doctor", tests, NULL, NULL);
}
