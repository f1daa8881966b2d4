/* What gyre doctor says of key, launcher, settings and arithmetic, in every state that they can be
 * in. */
#include "unit/cli/doctor/doctor_rig.h"

#include <stdlib.h>

#define KEY    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_ID "2e6b8d29e6750f46" /* the first 8 bytes of HMAC-SHA-256(KEY, "gyre key id") */

static void test_key(void **state)
{
    setenv("HOME", file_room, 1);
    rig_expect(gyre_check_key, OK, "none yet; the first job of several ranks makes ", NULL);
    assert_int_equal(access(file_room_name(".config"), F_OK), -1);
    rig_put("key", KEY "\n");
    setenv("GYRE_KEY_FILE", file_room_name("key"), 1);
    chmod(file_room_name("key"), 0644);
    rig_expect(gyre_check_key, PROBLEM, "chmod 600", NULL);
    chmod(file_room_name("key"), 0600);
    rig_expect(gyre_check_key, OK, "readable for its owner only, id " KEY_ID, NULL);
    setenv("GYRE_KEY", KEY, 1);
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_key, NOTE, "process lists show; id " KEY_ID, "GYRE_KEY_FILE");
    assert_null(strstr(finding->found, KEY));
    setenv("GYRE_AUTH", "none", 1);
    rig_expect(gyre_check_key, NOTE, "whoever reaches a port", "unset GYRE_AUTH");
}

static void test_launcher(void **state)
{
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_launcher, OK, "none around this process", NULL);
    assert_int_equal(finding->details, 0);
    rig.program = "srun";
    finding = rig_expect(gyre_check_launcher, OK, "none around", NULL);
    assert_string_equal(finding->detail[0], "in PATH: srun");
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    finding = rig_expect(gyre_check_launcher, OK, "mpirun: rank 1 of 4", NULL);
    assert_true(rig_figure(finding, "world") == 4);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    rig_expect(gyre_check_launcher, PROBLEM, "OMPI_COMM_WORLD_SIZE", NULL);
}

static void test_settings(void **state)
{
    rig_expect(gyre_check_settings, OK, "none of Gyre's variables is set", NULL);
    setenv("GYRE_LANES", "3", 1);
    setenv("GYRE_KEY", KEY, 1);
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_settings, OK, "2 of Gyre's variables set", NULL);
    assert_string_equal(finding->detail[0], "GYRE_LANES=3");
    assert_string_equal(finding->detail[1], "GYRE_KEY=(set)");
    setenv("GYRE_LANES", "9", 1);
    rig_expect(gyre_check_settings, PROBLEM, "2 of Gyre's", "GYRE_LANES is \"9\"");
    setenv("GYRE_ALGO", "rign", 1);
    finding = rig_expect(gyre_check_settings, PROBLEM, "3 of Gyre's", "GYRE_ALGO is \"rign\"");
    rig_has_words(finding->advice, "GYRE_LANES is \"9\"");
}

/* The first of this program to look at settings: each stranger is told once in a process. */
static void test_misspelt_settings(void **state)
{
    setenv("GYRE_TRANSPRT", "tcp", 1);
    setenv("GYRE_TEST_OTHERWISE", "1", 1);
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_settings, PROBLEM, "none of Gyre's",
                   "nothing reads GYRE_TRANSPRT (did you mean \"GYRE_TRANSPORT\"?)");
    assert_null(strstr(finding->advice, "OTHERWISE"));
}

static void test_kernels(void **state)
{
    rig_expect(gyre_check_kernels, OK, " for sums, ", NULL);
    setenv("GYRE_KERNELS", "avx9", 1);
    rig_expect(gyre_check_kernels, PROBLEM, "GYRE_KERNELS is \"avx9\"", NULL);
    setenv("GYRE_KERNELS", "scalar", 1);
#if defined(__x86_64__) || defined(__aarch64__)
    rig_expect(gyre_check_kernels, NOTE, "scalar for sums", "unset it");
#endif
}

static void test_blas(void **state)
{
    rig_expect(gyre_check_blas, OK, "OpenBLAS Zen, own avx2 if small; threads of a rank: 1", NULL);
    setenv("OPENBLAS_NUM_THREADS", "8", 1);
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    rig_expect(gyre_check_blas, OK, "a rank: 8, OPENBLAS_CORETYPE=Haswell", NULL);
    rig.hand = "own avx2";
    rig_expect(gyre_check_blas, NOTE, "own avx2; libopenblas.so.0 cannot", "libopenblas0-pthread");
    setenv("GYRE_BLAS", "own", 1);
    rig_expect(gyre_check_blas, OK, "own avx2, as GYRE_BLAS asks for", NULL);
    rig_refuse(&rig.blas, GYRE_INVALID, "GYRE_BLAS is \"openblas\", but");
    rig_expect(gyre_check_blas, PROBLEM, "GYRE_BLAS is \"openblas\", but", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_misspelt_settings), RIG_TEST(test_key),     RIG_TEST(test_launcher),
        RIG_TEST(test_settings),          RIG_TEST(test_kernels), RIG_TEST(test_blas),
    };
    return cmocka_run_group_tests_name("doctor's job", tests, file_room_open, file_room_close);
}
