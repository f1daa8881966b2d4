/* A machine for the checks of gyre doctor: a folder of the test's, and answers that the test sets.
 * rig_reset() makes it a healthy one. */
#ifndef GYRE_TESTS_UNIT_CLI_DOCTOR_DOCTOR_RIG_H
#define GYRE_TESTS_UNIT_CLI_DOCTOR_DOCTOR_RIG_H

#include "cli/doctor/checks/checks.h"
#include "rig/file_room.h"
#include "rig/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>

static struct {
    int cpus;
    uint64_t soft, hard, lockable;
    bool has_shm;
    struct gyre_doctor_space shm;
    struct gyre_trouble sharing, uring, verbs, blas; /* status 0: it works */
    const char *wire, *hand;
    bool has_network;
    int first_free, last_free; /* ports */
    const char *program;
    double clock_ns;
    const char *later; /* what /proc/stat has after the pause */
} rig;

static struct gyre_doctor_report rig_report;

#define OK      GYRE_DOCTOR_OK
#define NOTE    GYRE_DOCTOR_NOTE
#define PROBLEM GYRE_DOCTOR_PROBLEM
#define ABSENT  GYRE_DOCTOR_ABSENT

/* -- answers ----------------------------------------------------------------------------------- */

static int rig_cpus(void)
{
    return rig.cpus;
}

static uint64_t rig_limit(int resource, bool hard)
{
    return resource != RLIMIT_NOFILE ? GYRE_NO_LIMIT : hard ? rig.hard : rig.soft;
}

static uint64_t rig_lockable(void)
{
    return rig.lockable;
}

static bool rig_space(const char *path, struct gyre_doctor_space *space)
{
    *space = rig.shm;
    return rig.has_shm && strstr(path, "/dev/shm");
}

static int rig_answer(const struct gyre_trouble *answer, struct gyre_trouble *trouble)
{
    return answer->status ? gyre_trouble_set(trouble, answer->status, "%s", answer->text) : 0;
}

static int rig_share(struct gyre_trouble *trouble)
{
    return rig_answer(&rig.sharing, trouble);
}

static int rig_uring(struct gyre_trouble *trouble)
{
    return rig_answer(&rig.uring, trouble);
}

static int rig_verbs(char *name, size_t size, struct gyre_trouble *trouble)
{
    snprintf(name, size, "%s", rig.wire);
    return rig_answer(&rig.verbs, trouble);
}

static int rig_blas(char *name, size_t size, struct gyre_trouble *trouble)
{
    snprintf(name, size, "%s", rig.hand);
    return rig_answer(&rig.blas, trouble);
}

static int rig_outward(struct sockaddr_storage *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000205)};
    memset(address, 0, sizeof *address);
    memcpy(address, &in, sizeof in);
    return rig.has_network ? 0 : -ENODEV;
}

static bool rig_port_is_free(uint16_t port)
{
    return port >= rig.first_free && port <= rig.last_free;
}

static bool rig_has_program(const char *name)
{
    return rig.program && !strcmp(name, rig.program);
}

static double rig_clock(void)
{
    return rig.clock_ns;
}

static void rig_put(const char *name, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\"", file_room_name(name));
    assert_int_equal(system(command), 0);
    assert_non_null(file_room_make(name, text, strlen(text)));
}

static void rig_pause(void)
{
    if (rig.later)
        rig_put("proc/stat", rig.later);
}

static const struct gyre_doctor_machine rig_machine = {
    .root = file_room,
    .cpus_allowed = rig_cpus,
    .limit = rig_limit,
    .lockable = rig_lockable,
    .space = rig_space,
    .share_memory = rig_share,
    .io_uring = rig_uring,
    .verbs = rig_verbs,
    .blas = rig_blas,
    .outward = rig_outward,
    .port_is_free = rig_port_is_free,
    .has_program = rig_has_program,
    .clock_ns = rig_clock,
    .pause = rig_pause,
};

/* -- tests ------------------------------------------------------------------------------------- */

/* A test's setup. The folder is empty, and no variable but PATH is set. */
static inline int rig_reset(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'/*", file_room);
    memset(&rig, 0, sizeof rig);
    rig.cpus = 4;
    rig.soft = 1024;
    rig.hard = 65536;
    rig.lockable = GYRE_NO_LIMIT;
    rig.has_shm = rig.has_network = true;
    rig.shm = (struct gyre_doctor_space){UINT64_C(1) << 30, UINT64_C(1) << 30, true};
    rig.wire = "verbs/mlx5_0:1";
    rig.hand = "OpenBLAS Zen, own avx2 if small";
    rig.clock_ns = 20;
    clean_room_only_path();
    return system(command);
}

static inline const struct gyre_doctor_finding *rig_check(gyre_doctor_check *check)
{
    gyre_doctor_report_deinit(&rig_report);
    check(&rig_machine, &rig_report);
    assert_int_equal(rig_report.findings, 1);
    return rig_report.finding;
}

static inline void rig_refuse(struct gyre_trouble *answer, int status, const char *text)
{
    answer->status = 0;
    gyre_trouble_set(answer, status, "%s", text);
}

static inline void rig_has_words(const char *text, const char *words)
{
    if (!text || !strstr(text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, text ? text : "(nothing)");
}

/* The check's state and words of what it found and advises; NULL: it advises nothing. */
static inline const struct gyre_doctor_finding *rig_expect(gyre_doctor_check *check,
                                                           enum gyre_doctor_state state,
                                                           const char *found, const char *advice)
{
    const struct gyre_doctor_finding *finding = rig_check(check);
    rig_has_words(finding->found, found);
    assert_string_equal(gyre_doctor_state_word(finding->state), gyre_doctor_state_word(state));
    if (advice)
        rig_has_words(finding->advice, advice);
    else
        assert_null(finding->advice);
    return finding;
}

static inline double rig_figure(const struct gyre_doctor_finding *finding, const char *name)
{
    for (int i = 0; i < finding->figures; i++)
        if (!strcmp(finding->figure[i].name, name))
            return finding->figure[i].value;
    fail_msg("there is no figure %s", name);
    return 0;
}

#define RIG_TEST(function) cmocka_unit_test_setup(function, rig_reset)

#endif
