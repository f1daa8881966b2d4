/* Who am I, where is rank 0, which job is this: under every launcher's own variables. */
#include "transport/job/job.h"
#include "rig/clean_room.h"
#include "unit/transport/job/job_environments.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- right ------------------------------------------------------------------------------------- */

struct expected {
    const char *environment;
    const char *source;
    int rank, world, local_rank, local_world, node_rank, epoch;
    const char *host;
    int port, tries; /* port -1: any that is derived */
};

static const struct expected table[] = {
    {"", "alone", 0, 1, 0, 1, -1, 0, "", 0, 1},
    {TORCHRUN("3", "1", "0", "True"), "torchrun", 3, 4, 1, 2, 1, 0, "10.1.0.7", 29501, 16},
    {TORCHRUN("2", "0", "2", "False"), "torchrun", 2, 4, 0, 2, 1, 2, "10.1.0.7", 29500, 17},
    {GYRE_RUN("5", "1"), "environment", 5, 6, 1, 2, 1, 0, "10.1.0.7", 41234, 1},
    {GYRE_RUN("4", "0") "GYRE_ROOT=[fd00::1]:7000\0GYRE_EPOCH=3\0", "environment", 4, 6, 0, 2, 1, 3,
     "fd00::1", 7000, 1},
    {OPEN_MPI("2", "0", "77", "77.1;tcp4://b") "MASTER_ADDR=a\0MASTER_PORT=80\0", "mpirun", 2, 4, 0,
     2, -1, 0, "a", 80, 1},
    {HYDRA("3", "4", "1", "2") "GYRE_ROOT=node-0:1\0", "mpiexec", 3, 4, 1, 2, -1, 0, "node-0", 1,
     1},
    {SRUN("0", "0", "0", "0"), "srun", 0, 5, 0, 2, 0, 0, "g11", -1, 17},
    {SRUN("4", "0", "2", "7") "SLURM_RESTART_COUNT=1\0", "srun", 4, 5, 0, 1, 2, 1, "g11", -1, 17},
    {SRUN("3", "1", "1", "0") "PMI_RANK=3\0PMI_SIZE=5\0PMI_FD=9\0", "srun", 3, 5, 1, 2, 1, 0, "g11",
     -1, 17},
    {SRUN("1", "0", "1", "0") OPEN_MPI("3", "1", "77", "77.1;x") "GYRE_ROOT=a:9\0", "mpirun", 3, 4,
     1, 2, -1, 0, "a", 9, 1},
    {SRUN("1", "0", "1", "0") HYDRA("3", "4", "1", "2") "GYRE_ROOT=a:9\0", "mpiexec", 3, 4, 1, 2,
     -1, 0, "a", 9, 1},
    {"JOB_COMPLETION_INDEX=2\0WORLD_SIZE=4\0MASTER_ADDR=t-0.t\0MASTER_PORT=29500\0GYRE_EPOCH=1\0",
     "Kubernetes", 2, 4, -1, -1, -1, 1, "t-0.t", 29500, 1},
    {GYRE_RUN("5", "1") "JOB_COMPLETION_INDEX=1\0", "environment", 5, 6, 1, 2, 1, 0, "10.1.0.7",
     41234, 1},
    {SBATCH "RANK=0\0WORLD_SIZE=1\0", "environment", 0, 1, -1, -1, -1, 0, "", 0, 1},
    {"WORLD_SIZE=1\0", "alone", 0, 1, 0, 1, -1, 0, "", 0, 1},
    {SRUN("2", "0", "1", "0") "WORLD_SIZE=5\0MASTER_ADDR=g11\0MASTER_PORT=65535\0", "srun", 2, 5, 0,
     2, 1, 0, "g11", 65535, 1},
};

static void discover(const char *environment, const struct gyre_options *options,
                     struct gyre_job *job)
{
    struct gyre_trouble trouble = {0};
    environment_set(environment);
    int status = gyre_job_discover(options, job, &trouble);
    if (status) {
        print_error("%s\n", trouble.text);
    }
    assert_int_equal(status, 0);
}

static void check_row(const struct expected *expected)
{
    struct gyre_job job;
    discover(expected->environment, NULL, &job);
    assert_string_equal(job.source, expected->source);
    assert_int_equal(job.rank, expected->rank);
    assert_int_equal(job.world, expected->world);
    assert_int_equal(job.local_rank, expected->local_rank);
    assert_int_equal(job.local_world, expected->local_world);
    assert_int_equal(job.node_rank, expected->node_rank);
    assert_int_equal(job.epoch, expected->epoch);
    assert_string_equal(job.root_host, expected->host);
    assert_int_equal(job.root_port_tries, expected->tries);
    assert_int_equal(job.root_kind, GYRE_ROOT_ADDRESS);
    if (expected->port < 0) {
        assert_in_range(job.root_port, 15000, 29999);
    } else {
        assert_int_equal(job.root_port, expected->port);
    }
    assert_true(job.authenticated);
    assert_int_equal(job.launcher_fd, -1);
    assert_int_equal(job.simulated_node, -1);
}

static void test_launchers(void **state)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        check_row(&table[i]);
    }
}

/* -- job ids ----------------------------------------------------------------------------------- */

static bool same_job(const char *one, const char *other)
{
    struct gyre_job a, b;
    discover(one, NULL, &a);
    discover(other, NULL, &b);
    assert_memory_equal(a.key_id, b.key_id, sizeof a.key_id);
    bool same = memcmp(a.id, b.id, sizeof a.id) == 0;
    assert_int_equal(same, memcmp(a.key, b.key, sizeof a.key) == 0);
    return same;
}

static void test_ranks_of_one_job_agree(void **state)
{
    assert_true(same_job(TORCHRUN("3", "1", "0", "True"), TORCHRUN("0", "0", "0", "True")));
    assert_true(same_job(GYRE_RUN("5", "1"), GYRE_RUN("4", "0")));
    assert_true(same_job(OPEN_MPI("0", "0", "77", "77.0;tcp4://127.0.0.1:1") "GYRE_ROOT=a:1\0",
                         OPEN_MPI("3", "1", "77", "77.1;tcp4://127.0.0.1:2") "GYRE_ROOT=a:1\0"));
    assert_true(same_job(SRUN("0", "0", "0", "0"), SRUN("4", "0", "2", "0")));
    assert_true(
        same_job("RANK=0\0WORLD_SIZE=2\0GYRE_ROOT=a:1\0", "RANK=1\0WORLD_SIZE=2\0GYRE_ROOT=a:1\0"));
    assert_true(same_job(HYDRA("0", "2", "0", "1") "GYRE_JOB=j\0GYRE_ROOT=a:1\0",
                         HYDRA("1", "2", "0", "1") "GYRE_JOB=j\0GYRE_ROOT=a:1\0"));
}

static void test_jobs_differ(void **state)
{
    assert_false(same_job(TORCHRUN("3", "1", "0", "True"), TORCHRUN("3", "1", "1", "True")));
    assert_false(same_job(TORCHRUN("3", "1", "0", "True"),
                          TORCHRUN("3", "1", "0", "True") "MASTER_PORT=29501\0"));
    assert_false(same_job(TORCHRUN("3", "1", "0", "True"),
                          TORCHRUN("3", "1", "0", "True") "TORCHELASTIC_RUN_ID=x\0"));
    assert_false(same_job(GYRE_RUN("5", "1"), GYRE_RUN("5", "1") "GYRE_JOB=5f1c0b\0"));
    assert_false(same_job(OPEN_MPI("0", "0", "77", "x") "GYRE_ROOT=a:1\0",
                          OPEN_MPI("0", "0", "78", "x") "GYRE_ROOT=a:1\0"));
    assert_false(same_job(SRUN("0", "0", "0", "0"), SRUN("0", "0", "0", "1")));
    assert_false(
        same_job(SRUN("0", "0", "0", "0"), SRUN("0", "0", "0", "0") "SLURM_CLUSTER_NAME=c2\0"));
    assert_false(
        same_job("RANK=0\0WORLD_SIZE=2\0GYRE_ROOT=a:1\0", "RANK=0\0WORLD_SIZE=2\0GYRE_ROOT=a:2\0"));
}

/* Fields are digested with their lengths: "ab" + "c" is not "a" + "bc". */
static void test_fields_do_not_run_together(void **state)
{
    assert_false(same_job(SRUN("0", "0", "0", "0") "SLURM_JOB_ID=47\0SLURM_STEP_ID=11\0",
                          SRUN("0", "0", "0", "0") "SLURM_JOB_ID=471\0SLURM_STEP_ID=1\0"));
}

static void test_keys_differ_with_the_users_key(void **state)
{
    struct gyre_job a, b;
    discover(GYRE_RUN("5", "1"), NULL, &a);
    discover(GYRE_RUN("5", "1") "GYRE_KEY=" KEY_B "\0", NULL, &b);
    assert_memory_equal(a.id, b.id, sizeof a.id);
    assert_memory_not_equal(a.key_id, b.key_id, sizeof a.key_id);
    assert_memory_not_equal(a.key, b.key, sizeof a.key);
}

static void in_a_child(void (*body)(int result), int result)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        body(result);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void tell_id(int result)
{
    struct gyre_job job;
    discover(HYDRA("0", "2", "0", "2") "GYRE_ROOT=a:1\0", NULL, &job);
    assert_int_equal(write(result, job.id, sizeof job.id), sizeof job.id);
}

/* A name that makes /proc/<pid>/stat hard to read. */
static void be_shell(int result)
{
    prctl(PR_SET_NAME, "sh) x (");
    in_a_child(tell_id, result);
}

static void be_proxy(int result)
{
    prctl(PR_SET_NAME, "hydra_pmi_proxy");
    in_a_child(tell_id, result);
    in_a_child(be_shell, result);
}

static void test_ranks_of_one_proxy_agree(void **state)
{
    int ends[2];
    uint8_t ids[4][16];
    assert_int_equal(pipe(ends), 0);
    in_a_child(be_proxy, ends[1]);
    in_a_child(be_proxy, ends[1]);
    assert_int_equal(read(ends[0], ids, sizeof ids), sizeof ids);
    assert_memory_equal(ids[0], ids[1], 16);
    assert_memory_equal(ids[2], ids[3], 16);
    assert_memory_not_equal(ids[0], ids[2], 16);
    close(ends[0]);
    close(ends[1]);
}

/* -- root by file ------------------------------------------------------------------------------ */

static void test_root_file_without_an_address(void **state)
{
    char home[] = "/tmp/gyre-test-job-XXXXXX", variable[64], folder[128];
    struct gyre_job a, b;
    struct gyre_trouble trouble = {0};
    assert_int_equal(clean_room_make(home), 0);
    snprintf(variable, sizeof variable, "XDG_CONFIG_HOME=%s", home);
    snprintf(folder, sizeof folder, "%s/gyre", home);
    environment_set(OPEN_MPI("0", "0", "77", "x"));
    putenv(variable);
    assert_int_equal(gyre_job_discover(NULL, &a, &trouble), 0);
    environment_set(OPEN_MPI("3", "1", "77", "y"));
    putenv(variable);
    assert_int_equal(gyre_job_discover(NULL, &b, &trouble), 0);
    assert_int_equal(a.root_kind, GYRE_ROOT_FILE);
    assert_int_equal(a.root_port, 0);
    assert_string_equal(a.root_file, b.root_file);
    assert_memory_equal(a.root_file, folder, strlen(folder));
    assert_ptr_equal(strrchr(a.root_file, '/'), a.root_file + strlen(folder)); /* one name */
    environment_set(SRUN("0", "0", "0", "0") "SLURM_DISTRIBUTION=arbitrary\0");
    putenv(variable);
    assert_int_equal(gyre_job_discover(NULL, &b, &trouble), 0);
    assert_int_equal(b.root_kind, GYRE_ROOT_FILE);
    assert_string_not_equal(a.root_file, b.root_file);
    clearenv();
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rmdir(home), 0);
}

static int keep_nothing(void *context, const char *key, const void *value, size_t length)
{
    return 0;
}

static int have_nothing(void *context, const char *key, void *value, size_t *length, int wait_ms)
{
    return GYRE_AGAIN;
}

static void test_root_in_a_store(void **state)
{
    const struct gyre_store store = {
        .size = sizeof store, .set = keep_nothing, .get = have_nothing};
    struct gyre_job job;
    struct gyre_options options = GYRE_OPTIONS_INIT;
    options.rank = 1;
    options.world = 2;
    options.job = "mine";
    options.store = &store;
    discover("", &options, &job);
    assert_int_equal(job.root_kind, GYRE_ROOT_STORE);
    assert_string_equal(job.root_file, "gyre/mine");
}

/* -- options ----------------------------------------------------------------------------------- */

static void test_options_win(void **state)
{
    uint8_t key[32] = {9};
    struct gyre_job job, other;
    struct gyre_options options = GYRE_OPTIONS_INIT;
    options.rank = 1;
    options.world = 3;
    options.local_rank = 1;
    options.root = "[::1]:4000";
    options.job = "mine";
    options.key = key;
    discover(SBATCH "RANK=x\0WORLD_SIZE=0\0GYRE_ROOT=nonsense\0", &options, &job);
    assert_string_equal(job.source, "options");
    assert_int_equal(job.rank, 1);
    assert_int_equal(job.world, 3);
    assert_int_equal(job.local_rank, 1);
    assert_string_equal(job.root_host, "::1");
    assert_int_equal(job.root_port, 4000);
    options.key = NULL;
    discover(GYRE_RUN("5", "1"), &options, &other);
    assert_memory_equal(job.id, other.id, sizeof job.id);
    assert_memory_not_equal(job.key_id, other.key_id, sizeof job.key_id);
}

static void test_world_of_one_by_options(void **state)
{
    struct gyre_job job;
    struct gyre_options options = GYRE_OPTIONS_INIT;
    options.rank = 0;
    options.world = 1;
    discover(SBATCH, &options, &job);
    assert_string_equal(job.source, "options");
    assert_int_equal(job.local_rank, 0);
    assert_int_equal(job.local_world, 1);
}

static void test_zeroed_options_mean_the_environment(void **state)
{
    struct gyre_job job;
    struct gyre_options options = {.size = sizeof options};
    discover(GYRE_RUN("5", "1"), &options, &job);
    assert_int_equal(job.rank, 5);
    assert_int_equal(job.world, 6);
    assert_int_equal(job.local_rank, 1);
}

/* -- the launcher's pipe ----------------------------------------------------------------------- */

static void test_launcher_pipe(void **state)
{
    int ends[2];
    char variable[32];
    struct gyre_job job;
    struct gyre_trouble trouble = {0};
    assert_int_equal(pipe(ends), 0);
    environment_set(GYRE_RUN("5", "1"));
    snprintf(variable, sizeof variable, "GYRE_LAUNCHER_FD=%d", ends[0]);
    putenv(variable);
    assert_int_equal(gyre_job_discover(NULL, &job, &trouble), 0);
    assert_int_equal(job.launcher_fd, ends[0]);
    assert_string_equal(job.source, "gyre run");
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(gyre_job_discover(NULL, &job, &trouble), 0);
    assert_int_equal(job.launcher_fd, -1);
    clearenv();
}

static void test_auth_none_by_name(void **state)
{
    static const uint8_t zeros[32];
    struct gyre_job job;
    discover(GYRE_RUN("5", "1") "GYRE_AUTH=none\0GYRE_KEY=bad\0", NULL, &job);
    assert_false(job.authenticated);
    assert_memory_equal(job.key, zeros, sizeof job.key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launchers),
        cmocka_unit_test(test_ranks_of_one_job_agree),
        cmocka_unit_test(test_jobs_differ),
        cmocka_unit_test(test_fields_do_not_run_together),
        cmocka_unit_test(test_keys_differ_with_the_users_key),
        cmocka_unit_test(test_ranks_of_one_proxy_agree),
        cmocka_unit_test(test_root_file_without_an_address),
        cmocka_unit_test(test_root_in_a_store),
        cmocka_unit_test(test_options_win),
        cmocka_unit_test(test_world_of_one_by_options),
        cmocka_unit_test(test_zeroed_options_mean_the_environment),
        cmocka_unit_test(test_launcher_pipe),
        cmocka_unit_test(test_auth_none_by_name),
    };
    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
