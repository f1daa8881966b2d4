/* Environments and options that make no sense: each is refused by a message that names the
 * variable, the value and what was expected, and never shows a key. */
#include "transport/job/job.h"
#include "unit/transport/job/job_environments.h"

#include <stdio.h>

struct refused {
    const char *environment;
    const char *told[3]; /* all of these stand in the message */
};

static const struct refused wrong[] = {
    {"RANK=3\0", {"RANK is \"3\"", "WORLD_SIZE is not set"}},
    {"WORLD_SIZE=2\0", {"WORLD_SIZE is \"2\"", "RANK is not set"}},
    {"PMIX_RANK=1\0", {"PMIX_RANK is \"1\"", "WORLD_SIZE is not set"}},
    {"OMPI_COMM_WORLD_RANK=1\0", {"OMPI_COMM_WORLD_SIZE is not set"}},
    {"PMI_SIZE=4\0", {"PMI_SIZE is \"4\"", "PMI_RANK is not set"}},
    {SBATCH, {"started outside srun?", "8 tasks (SLURM_NTASKS)", "RANK=0 WORLD_SIZE=1"}},
    {SALLOC, {"started outside srun?", "8 tasks"}},
    {"SLURM_JOB_ID=1\0SLURM_JOB_NUM_NODES=2\0", {" 2 nodes (SLURM_JOB_NUM_NODES)", "outside srun"}},
    {"SLURM_JOB_ID=1\0SLURM_NNODES=3\0", {" 3 nodes (SLURM_NNODES)", "outside srun"}},
    {"SLURM_JOB_ID=7\0SLURM_JOB_NUM_NODES=1\0SLURM_NTASKS_PER_NODE=4\0SLURM_PROCID=0\0",
     {" 4 tasks (SLURM_NTASKS_PER_NODE)", "outside srun"}},
    {"SLURM_JOB_ID=7\0SLURM_NNODES=3\0SLURM_NTASKS_PER_NODE=2\0", {" 6 tasks (SLURM_NTASKS_PER_"}},
    {"SLURM_JOB_ID=7\0SLURM_NTASKS_PER_NODE=4\0", {" 4 tasks (SLURM_NTASKS_PER_NODE)"}},
    {GYRE_RUN("6", "1"), {"RANK is \"6\"", "0 to 5"}},
    {GYRE_RUN("-1", "1"), {"RANK is \"-1\"", "0 to 5"}},
    {GYRE_RUN("five", "1"), {"RANK is \"five\"", "whole number"}},
    {GYRE_RUN("5", "2"), {"LOCAL_RANK is \"2\"", "0 to 1"}},
    {GYRE_RUN("5", "1") "LOCAL_WORLD_SIZE=7\0", {"LOCAL_WORLD_SIZE is \"7\"", "1 to 6"}},
    {GYRE_RUN("5", "1") "WORLD_SIZE=99999999999999999999\0", {"WORLD_SIZE is \"9999"}},
    {GYRE_RUN("5", "1") "WORLD_SIZE=0\0", {"WORLD_SIZE is \"0\"", "from 1"}},
    {GYRE_RUN("5", "1") "GYRE_EPOCH=65536\0", {"GYRE_EPOCH is \"65536\"", "65535"}},
    {GYRE_RUN("5", "1") "GYRE_SIMULATED_NODE=x\0", {"GYRE_SIMULATED_NODE is \"x\""}},
    {GYRE_RUN("5", "1") "GYRE_LAUNCHER_FD=-4\0", {"GYRE_LAUNCHER_FD is \"-4\""}},
    {GYRE_RUN("5", "1") "GYRE_AUTH=nome\0", {"GYRE_AUTH is \"nome\"", "key or none", "none"}},
    {GYRE_RUN("5", "1") "GYRE_KEY=" KEY_A "0\0", {"GYRE_KEY", "65 characters", "64 hexadecimal"}},
    {GYRE_RUN("5", "1") "GYRE_KEY=g" KEY_A "\0", {"GYRE_KEY", "64 hexadecimal"}},
    {GYRE_RUN("5", "1") "MASTER_PORT=\0", {"MASTER_ADDR is \"10.1.0.7\"", "MASTER_PORT is not"}},
    {GYRE_RUN("5", "1") "MASTER_ADDR=\0", {"MASTER_PORT is \"41234\"", "MASTER_ADDR is not"}},
    {GYRE_RUN("5", "1") "MASTER_PORT=70000\0", {"MASTER_PORT is \"70000\"", "1 to 65535"}},
    {GYRE_RUN("5", "1") "GYRE_ROOT=host\0", {"GYRE_ROOT is \"host\"", "host:port"}},
    {GYRE_RUN("5", "1") "GYRE_ROOT=:80\0", {"GYRE_ROOT is \":80\"", "host:port"}},
    {GYRE_RUN("5", "1") "GYRE_ROOT=[]:80\0", {"GYRE_ROOT is \"[]:80\"", "host:port"}},
    {GYRE_RUN("5", "1") "GYRE_ROOT=fd00::1:80\0", {"GYRE_ROOT is \"fd00::1:80\"", "brackets"}},
    {GYRE_RUN("5", "1") "GYRE_ROOT=a:http\0", {"GYRE_ROOT is \"a:http\"", "1 to 65535"}},
    {GYRE_RUN("5", "1") "GYRE_ROOT=a:0\0", {"GYRE_ROOT is \"a:0\"", "port from 1 to 65535"}},
    {TORCHRUN("3", "1", "0", "True") "MASTER_PORT=65530\0", {"MASTER_PORT is 65530", "65519"}},
    {TORCHRUN("3", "1", "many", "True"), {"TORCHELASTIC_RESTART_COUNT is \"many\""}},
    {"JOB_COMPLETION_INDEX=2\0", {"JOB_COMPLETION_INDEX is \"2\"", "WORLD_SIZE", "completions"}},
    {"JOB_COMPLETION_INDEX=4\0WORLD_SIZE=4\0", {"JOB_COMPLETION_INDEX is \"4\"", "0 to 3"}},
    {"JOB_COMPLETION_INDEX=7\0WORLD_SIZE=8\0", {"this pod is called", "set MASTER_ADDR"}},
    {"RANK=1\0WORLD_SIZE=2\0", {"rank 1 of 2", "MASTER_ADDR", "GYRE_JOB"}},
    {HYDRA("0", "4", "0", "2"), {"rank 0 of 4", "mpiexec", "GYRE_ROOT"}},
    {SRUN("0", "0", "0", "0") "SLURM_STEP_NODELIST=\0", {"SLURM_STEP_NODELIST", "GYRE_ROOT"}},
    {SRUN("0", "0", "0", "0") "SLURM_STEP_NODELIST=g[1\0", {"SLURM_STEP_NODELIST", "g[1"}},
    {SRUN("0", "0", "3", "0"), {"SLURM_STEP_TASKS_PER_NODE", "3 nodes", "node 3"}},
    {SRUN("0", "0", "0", "0") "SLURM_STEP_TASKS_PER_NODE=2(x\0", {"2(x", "4(x2),2"}},
    {SRUN("0", "0", "0", "0") "SLURM_STEP_NUM_TASKS=\0", {"SLURM_STEP_NUM_TASKS is not set"}},
};

static void check_refused(const struct refused *refused)
{
    struct gyre_job job;
    struct gyre_trouble trouble = {0};
    environment_set(refused->environment);
    assert_int_equal(gyre_job_discover(NULL, &job, &trouble), GYRE_INVALID);
    assert_int_equal(trouble.status, GYRE_INVALID);
    for (size_t i = 0; i < 3 && refused->told[i]; i++) {
        if (!strstr(trouble.text, refused->told[i])) {
            fail_msg("\"%s\" is not in \"%s\"", refused->told[i], trouble.text);
        }
    }
    assert_null(strstr(trouble.text, &KEY_A[1]));
}

static void test_wrong_environments_are_refused(void **state)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        check_refused(&wrong[i]);
    }
}

static void refuse_overlong(const char *environment, const char *name, const char *told)
{
    static char value[6000];
    struct gyre_job job;
    struct gyre_trouble trouble = {0};
    memset(value, 'x', sizeof value - 1);
    memcpy(value, "/", 1);
    memcpy(value + 4000, ":1/", 3);
    environment_set(environment);
    setenv(name, value, 1);
    assert_int_equal(gyre_job_discover(NULL, &job, &trouble), GYRE_INVALID);
    if (!strstr(trouble.text, told)) {
        fail_msg("\"%s\" is not in \"%s\"", told, trouble.text);
    }
}

/* Of 256 characters the last byte would be behind the field. */
static void test_host_name_that_leaves_no_room_for_its_end(void **state)
{
    char name[sizeof((struct gyre_job *)0)->root_host + 1];
    struct gyre_job job;
    struct gyre_trouble trouble = {0};
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    environment_set(GYRE_RUN("5", "1"));
    setenv("MASTER_ADDR", name, 1);
    assert_int_equal(gyre_job_discover(NULL, &job, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "host name of 256 characters: expected 1 to 255"));
    name[sizeof name - 2] = '\0';
    setenv("MASTER_ADDR", name, 1);
    assert_int_equal(gyre_job_discover(NULL, &job, &trouble), 0);
}

static void test_overlong_values(void **state)
{
    refuse_overlong(GYRE_RUN("5", "1"), "MASTER_ADDR", "host name of 5999 characters");
    refuse_overlong(OPEN_MPI("0", "0", "77", "x"), "HOME", "HOME is too long");
    refuse_overlong(OPEN_MPI("0", "0", "77", "x"), "GYRE_KEY_FILE", "GYRE_KEY_FILE is too long");
    refuse_overlong(GYRE_RUN("5", "1") "GYRE_KEY=\0", "GYRE_KEY_FILE", "cannot open key file");
}

static void refuse_options(int rank, int world, int local_rank, const char *told)
{
    struct gyre_job job;
    struct gyre_trouble trouble = {0};
    struct gyre_options options = GYRE_OPTIONS_INIT;
    options.rank = rank;
    options.world = world;
    options.local_rank = local_rank;
    environment_set(GYRE_RUN("5", "1"));
    assert_int_equal(gyre_job_discover(&options, &job, &trouble), GYRE_INVALID);
    if (!strstr(trouble.text, told)) {
        fail_msg("\"%s\" is not in \"%s\"", told, trouble.text);
    }
}

static void test_wrong_options_are_refused(void **state)
{
    refuse_options(3, 0, -1, "options.rank is 3");
    refuse_options(3, 3, -1, "options.rank is 3");
    refuse_options(-2, 3, -1, "options.rank is -2");
    refuse_options(0, -1, -1, "options.world is -1");
    refuse_options(-1, 7, -1, "options.world is 7 but the environment says 6");
    refuse_options(0, 3, 3, "options.local_rank is 3");
    refuse_options(-1, 0, 2, "options.local_rank is 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_environments_are_refused),
        cmocka_unit_test(test_overlong_values),
        cmocka_unit_test(test_host_name_that_leaves_no_room_for_its_end),
        cmocka_unit_test(test_wrong_options_are_refused),
    };
    return cmocka_run_group_tests_name("job_refused", tests, NULL, NULL);
}
