/* A world of 1: every call works, and nothing outside the process is touched.
 *
 * There is nobody to meet, so there is no socket, and nobody to prove anything to, so no key is
 * read or made: the tests run with a home that nothing can be written to, and one looks into a home
 * where something could. Calls that would open a socket are counted. */
#include "rig/clean_room.h"
#include "rig/test.h"

#include <gyre/gyre.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT 1000

static int sockets;

int __real_socket(int domain, int type, int protocol);
int __real_socketpair(int domain, int type, int protocol, int fd[2]);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_socketpair(int domain, int type, int protocol, int fd[2]);

int __wrap_socket(int domain, int type, int protocol)
{
    sockets++;
    return __real_socket(domain, type, protocol);
}

int __wrap_socketpair(int domain, int type, int protocol, int fd[2])
{
    sockets++;
    return __real_socketpair(domain, type, protocol, fd);
}

/* -- one communicator per test ----------------------------------------------------------------- */

static void forget_launchers(void)
{
    static const char *const prefixes[] = {"GYRE_",  "OMPI_",   "PMI",          "SLURM_",
                                           "LOCAL_", "MASTER_", "TORCHELASTIC_"};
    extern char **environ;
    for (char **at = environ; *at;) {
        char name[256];
        bool known = !strncmp(*at, "RANK=", 5) || !strncmp(*at, "WORLD_SIZE=", 11);
        for (unsigned p = 0; p < sizeof prefixes / sizeof prefixes[0]; p++)
            known |= !strncmp(*at, prefixes[p], strlen(prefixes[p]));
        if (known && snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at) > 0)
            unsetenv(name); /* moves the rest up */
        else
            at++;
    }
}

static struct gyre_comm *join(const struct gyre_options *options)
{
    struct gyre_comm *comm;
    int status = gyre_init(&comm, options);
    if (status)
        fail_msg("gyre_init: %s", gyre_error(NULL));
    return comm;
}

static int alone(void **state)
{
    sockets = 0;
    setenv("HOME", "/proc/self/fdinfo", 1); /* not even root writes there */
    *state = join(NULL);
    return 0;
}

static int leave(void **state)
{
    return gyre_finalize(*state);
}

/* -- tests ------------------------------------------------------------------------------------- */

static void knows_itself(void **state)
{
    struct gyre_comm *comm = *state;
    assert_int_equal(gyre_rank(comm), 0);
    assert_int_equal(gyre_size(comm), 1);
    assert_int_equal(gyre_local_rank(comm), 0);
    assert_int_equal(gyre_local_size(comm), 1);
    assert_int_equal(gyre_node(comm), 0);
    assert_int_equal(gyre_nodes(comm), 1);
    char link[32];
    assert_int_equal(gyre_link_name(comm, 0, link, sizeof link), 0);
    assert_string_equal(link, "none");
    assert_string_equal(gyre_error(comm), "");
}

static bool is_integer(int type)
{
    return type >= GYRE_I32 && type < GYRE_F8E4M3;
}

/* The result of any reduction over one rank is its input, bit by bit, whatever the bits. */
static void reduces_every_type_to_itself(void **state)
{
    static uint8_t in[COUNT * 8], out[COUNT * 8], was[COUNT * 8];
    for (int type = GYRE_F32; type <= GYRE_F8E5M2; type++)
        for (int op = GYRE_SUM; op <= (is_integer(type) ? GYRE_XOR : GYRE_PROD); op++) {
            size_t bytes = COUNT * gyre_type_size((enum gyre_type)type);
            for (size_t i = 0; i < sizeof in; i++)
                was[i] = in[i] = (uint8_t)(i * 37 + (size_t)(type * 5 + op));
            memset(out, 0xEE, sizeof out);
            assert_int_equal(gyre_all_reduce(*state, in, out, COUNT, (enum gyre_type)type, op), 0);
            assert_memory_equal(out, was, bytes);
            assert_true(bytes == sizeof out || out[bytes] == 0xEE);
            assert_int_equal(gyre_all_reduce(*state, in, in, COUNT, (enum gyre_type)type, op), 0);
            assert_memory_equal(in, was, sizeof in);
        }
}

static void combines_no_bits_of_floats(void **state)
{
    uint64_t number = 1;
    for (int type = GYRE_F32; type <= GYRE_F8E5M2; type++)
        for (int op = GYRE_AND; op <= GYRE_XOR && !is_integer(type); op++) {
            int status = gyre_all_reduce(*state, &number, &number, 1, (enum gyre_type)type, op);
            assert_int_equal(status, GYRE_INVALID);
            assert_non_null(strstr(gyre_error(*state), "is for integers"));
        }
    assert_int_equal(gyre_all_reduce(*state, &number, &number, 1, GYRE_I32, 8), GYRE_INVALID);
    assert_int_equal(gyre_all_reduce(*state, &number, &number, 1, 14, GYRE_SUM), GYRE_INVALID);
}

static void broadcasts_to_itself(void **state)
{
    int64_t in[3] = {1, -2, INT64_MAX}, out[3] = {0};
    assert_int_equal(gyre_broadcast(*state, in, out, 3, GYRE_I64, 0), 0);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(gyre_broadcast(*state, in, in, 3, GYRE_I64, 0), 0);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(gyre_broadcast(*state, in, out, 3, GYRE_I64, 1), GYRE_INVALID);
    assert_non_null(strstr(gyre_error(*state), "root 1"));
}

static void takes_no_elements_and_odd_addresses(void **state)
{
    uint8_t in[64 + 8] = {0}, out[64 + 8] = {0};
    assert_int_equal(gyre_all_reduce(*state, in, out, 0, GYRE_F64, GYRE_SUM), 0);
    assert_int_equal(gyre_broadcast(*state, in, out, 0, GYRE_F64, 0), 0);
    for (size_t skew = 1; skew < 8; skew++) {
        memset(in, (int)skew, sizeof in);
        memset(out, 0, sizeof out);
        assert_int_equal(gyre_all_reduce(*state, in + skew, out + skew, 7, GYRE_F64, GYRE_MAX), 0);
        assert_memory_equal(out + skew, in + skew, 56);
        assert_int_equal(out[skew - 1], 0);
        assert_int_equal(out[skew + 56], 0);
    }
}

static void finish(struct gyre_work *work, bool by_test)
{
    assert_non_null(work);
    if (!by_test) {
        assert_int_equal(gyre_work_wait(work, -1), 0);
        return;
    }
    int status;
    while ((status = gyre_work_test(work)) == GYRE_AGAIN)
        continue;
    assert_int_equal(status, 0);
}

static void gives_handles(void **state)
{
    for (int turn = 0; turn < 2; turn++) {
        struct gyre_work *work[3];
        int32_t in = 7 + turn, reduced = 0, sent = 0;
        assert_int_equal(
            gyre_all_reduce_start(*state, &in, &reduced, 1, GYRE_I32, GYRE_SUM, &work[0]), 0);
        assert_int_equal(gyre_broadcast_start(*state, &in, &sent, 1, GYRE_I32, 0, &work[1]), 0);
        assert_int_equal(gyre_barrier_start(*state, &work[2]), 0);
        for (int w = 2; w >= 0; w--)
            finish(work[w], turn == w % 2);
        assert_int_equal(reduced, in);
        assert_int_equal(sent, in);
    }
    assert_int_equal(gyre_barrier(*state), 0);
}

/* Far more than are in flight at once: handles are used again. */
static void handles_do_not_run_out(void **state)
{
    for (int i = 0; i < 1000; i++) {
        struct gyre_work *work;
        assert_int_equal(gyre_barrier_start(*state, &work), 0);
        finish(work, i % 2);
    }
}

static void gives_memory(void **state)
{
    void *memory;
    assert_int_equal(gyre_alloc(*state, 12345, &memory), 0);
    assert_int_equal((uintptr_t)memory % 4096, 0);
    for (int i = 0; i < 12345; i++)
        assert_int_equal(((uint8_t *)memory)[i], 0);
    assert_int_equal(gyre_register(*state, memory, 12345), 0);
    assert_int_equal(gyre_all_reduce(*state, memory, memory, 12345, GYRE_U8, GYRE_AVG), 0);
    assert_int_equal(gyre_unregister(*state, memory), 0);
    assert_int_equal(gyre_free(*state, memory), 0);
    assert_int_equal(gyre_free(*state, memory), GYRE_INVALID);
    assert_int_equal(gyre_alloc(*state, 1, &memory), 0); /* left to gyre_finalize() */
}

static void refuses_nonsense(void **state)
{
    float in[8] = {0}, out[8];
    struct gyre_comm *second;
    assert_int_equal(gyre_all_reduce(*state, in, in + 1, 7, GYRE_F32, GYRE_SUM), GYRE_INVALID);
    assert_int_equal(gyre_all_reduce(*state, NULL, out, 8, GYRE_F32, GYRE_SUM), GYRE_INVALID);
    assert_int_equal(gyre_all_reduce(*state, in, out, 8, (enum gyre_type)14, GYRE_SUM),
                     GYRE_INVALID);
    assert_int_equal(gyre_all_reduce(*state, in, out, UINT64_MAX / 2, GYRE_F32, GYRE_SUM),
                     GYRE_INVALID);
    assert_int_equal(gyre_init(&second, NULL), GYRE_INVALID);
    assert_null(second);
    assert_non_null(strstr(gyre_error(NULL), "this process has a communicator already"));
    assert_int_equal(gyre_rank(NULL), -1); /* who asks before it has joined */
    assert_int_equal(gyre_size(NULL), -1);
    assert_int_equal(gyre_barrier(NULL), GYRE_INVALID);
    assert_non_null(strstr(gyre_error(NULL), "NULL"));
    assert_int_equal(gyre_all_reduce(*state, in, out, 8, GYRE_F32, GYRE_SUM), 0); /* unharmed */
}

/* Descriptors of this process that are sockets. */
static int open_sockets(void)
{
    DIR *fds = opendir("/proc/self/fd");
    int found = 0;
    assert_non_null(fds);
    for (struct dirent *fd; (fd = readdir(fds));) {
        char path[300], to[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", fd->d_name);
        found += readlink(path, to, sizeof to - 1) > 0 && !strncmp(to, "socket:", 7);
    }
    closedir(fds);
    return found;
}

static void opens_no_socket(void **state)
{
    int before = open_sockets(); /* standard output may be one */
    struct gyre_comm *comm;
    assert_int_equal(gyre_finalize(*state), 0);
    assert_int_equal(open_sockets(), before);
    *state = comm = join(NULL);
    assert_int_equal(gyre_barrier(comm), 0);
    assert_int_equal(sockets, 0);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0); /* both counts work */
    assert_int_equal(sockets, 1);
    assert_int_equal(open_sockets(), before + 1);
    close(fd);
}

static void abort_ends_it(void **state)
{
    struct gyre_comm *comm = join(NULL);
    (void)state;
    assert_int_equal(gyre_abort(comm, "the loss is NaN"), 0);
    assert_int_equal(gyre_barrier(comm), GYRE_ABORTED);
    assert_non_null(strstr(gyre_error(comm), "the loss is NaN"));
    assert_int_equal(gyre_finalize(comm), GYRE_ABORTED);
}

static void makes_no_key_file(void **state)
{
    char home[] = "/tmp/gyre-test-one-XXXXXX";
    (void)state;
    assert_int_equal(clean_room_make(home), 0);
    setenv("HOME", home, 1);
    unsetenv("XDG_CONFIG_HOME");
    assert_int_equal(gyre_finalize(join(NULL)), 0);
    assert_int_equal(rmdir(home), 0); /* only an empty folder goes */
    setenv("HOME", "/proc/self/fdinfo", 1);
}

static void comes_by_options_and_again(void **state)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    (void)state;
    options.rank = 0;
    options.world = 1;
    for (int turn = 0; turn < 20; turn++) {
        struct gyre_comm *comm = join(&options);
        assert_int_equal(gyre_size(comm), 1);
        assert_int_equal(gyre_finalize(comm), 0);
    }
    options.rank = 1;
    struct gyre_comm *comm;
    assert_int_equal(gyre_init(&comm, &options), GYRE_INVALID);
    assert_null(comm);
}

static void refuses_settings_that_make_no_sense(void **state)
{
    static const char *const wrong[][3] = {
        {"GYRE_SLICE", "0", "GYRE_SLICE is \"0\": expected more than 0"},
        {"GYRE_JOIN_TIMEOUT", "0ms", "GYRE_JOIN_TIMEOUT is \"0ms\": expected more than 0"},
        {"GYRE_LOG", "inf",
         "GYRE_LOG is \"inf\": expected error, warn, info or debug (did you mean"},
        {"GYRE_KERNELS", "scalr", "GYRE_KERNELS is \"scalr\": expected scalar"},
    };
    struct gyre_comm *comm;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv(wrong[i][0], wrong[i][1], 1);
        assert_int_equal(gyre_init(&comm, NULL), GYRE_INVALID);
        unsetenv(wrong[i][0]);
        if (!strstr(gyre_error(NULL), wrong[i][2]))
            fail_msg("\"%s\" is not in \"%s\"", wrong[i][2], gyre_error(NULL));
    }
}

int main(void)
{
#define ALONE(test) cmocka_unit_test_setup_teardown(test, alone, leave)
    const struct CMUnitTest tests[] = {
        ALONE(knows_itself),
        ALONE(reduces_every_type_to_itself),
        ALONE(combines_no_bits_of_floats),
        ALONE(broadcasts_to_itself),
        ALONE(takes_no_elements_and_odd_addresses),
        ALONE(gives_handles),
        ALONE(handles_do_not_run_out),
        ALONE(gives_memory),
        ALONE(refuses_nonsense),
        ALONE(opens_no_socket),
        cmocka_unit_test(abort_ends_it),
        cmocka_unit_test(makes_no_key_file),
        cmocka_unit_test(comes_by_options_and_again),
        cmocka_unit_test(refuses_settings_that_make_no_sense),
    };
    forget_launchers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
