/* CUDA memory that stays with its rank, over the stand-in: a peer that has no device, an import
 * that is refused, memory that has no handle, or too little of it, devices that copy from each
 * other wrongly, and a call that works in the host's. */
#include "program/cuda/share_rig.h"
#include "rig/test.h"

#include <gyre/ddp.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void run(share_readying before, share_playing body)
{
    struct rig rig = {.n = RANKS, .transport = "shm", .before = before, .body = body};
    assert_int_equal(rig_run(&rig, SECONDS), 0);
}

/* -- those who cannot -------------------------------------------------------------------------- */

static void none_in_rank_1(const struct rig *rig, int rank)
{
    share_two_devices(rig, rank);
    if (rank == 1)
        setenv("FAKECUDA_DEVICES", "none", 1);
}

/* Memory is usable where it cannot be shared, and says so to nobody but the log. */
static int use_alone(struct gyre_comm *comm, int *bad)
{
    void *memory;
    *bad += rig_check(gyre_alloc_device(comm, LENGTH, &memory) == 0, comm, "gyre_alloc_device");
    if (*bad)
        return -1;
    *bad += rig_check(share_write(comm, memory, 8, 5) == 0 && share_read(comm, memory, 8) == 5,
                      comm, "memory of one's own");
    return (int)share_id(comm, GYRE_MEMORY_CUDA, memory);
}

static int live_with_a_poor_peer(struct gyre_comm *comm, struct rig *rig)
{
    void *memory = comm;
    int sum = 1, bad = 0;
    (void)rig;
    if (gyre_rank(comm) != 1) {
        bad += rig_check(use_alone(comm, &bad) == 0, comm, "it is not shared");
    } else {
        bad += rig_check(gyre_alloc_device(comm, LENGTH, &memory) == GYRE_UNSUPPORTED, comm,
                         "a rank without a device");
        bad += rig_check(strstr(gyre_error(comm), "no CUDA driver") != NULL, comm, "the reason");
        bad += rig_check(memory == comm && gyre_domain_cuda(comm->domain) == -1, comm, "no device");
    }
    bad += rig_check(gyre_all_reduce(comm, &sum, &sum, 1, GYRE_I32, GYRE_SUM) == 0 && sum == RANKS,
                     comm, "host memory is served");
    return share_end(comm, bad);
}

static void peer_without_cuda(void **state)
{
    (void)state;
    run(none_in_rank_1, live_with_a_poor_peer);
}

static void refuse_once(const struct rig *rig, int rank)
{
    share_two_devices(rig, rank);
    if (rank == 2)
        setenv("FAKECUDA_FAIL", "cuMemImportFromShareableHandle:1:CUDA_ERROR_NOT_PERMITTED", 1);
}

static int share_twice(struct gyre_comm *comm, struct rig *rig)
{
    int bad = 0;
    (void)rig;
    if (gyre_rank(comm) == 0) {
        bad += rig_check(use_alone(comm, &bad) == 0, comm, "rank 2 could not map it");
        bad += rig_check(use_alone(comm, &bad) > 0, comm, "the next one it could");
    }
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    return share_end(comm, bad);
}

static void import_refused_once(void **state)
{
    (void)state;
    run(refuse_once, share_twice);
}

/* Neither a trial has one, whoever wishes it, nor the memory. */
static void no_handles(const struct rig *rig, int rank)
{
    char fail[512] = "";
    share_classic(rig, rank);
    for (int nth = 1; nth <= 8; nth++)
        snprintf(fail + strlen(fail), sizeof(fail) - strlen(fail),
                 "%scuIpcGetMemHandle:%d:CUDA_ERROR_NOT_SUPPORTED", nth > 1 ? "," : "", nth);
    setenv("FAKECUDA_FAIL", fail, 1);
}

static int keep_to_oneself(struct gyre_comm *comm, struct rig *rig)
{
    int bad = 0;
    (void)rig;
    bad += rig_check(use_alone(comm, &bad) == 0, comm, "no handle, no sharing");
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    return share_end(comm, bad);
}

static void memory_that_cannot_travel(void **state)
{
    (void)state;
    run(no_handles, keep_to_oneself);
}

static void too_little(const struct rig *rig, int rank)
{
    share_two_devices(rig, rank);
    setenv("FAKECUDA_MEMORY", "2097152", 1);
}

static int ask_wrongly(struct gyre_comm *comm, struct rig *rig)
{
    void *memory = comm;
    int bad = 0;
    (void)rig;
    bad += rig_check(gyre_alloc_device(comm, LENGTH, &memory) == -ENOMEM, comm, "too much");
    bad += rig_check(strstr(gyre_error(comm), "MiB are free") != NULL, comm, "how much there is");
    bad += rig_check(gyre_alloc_device(comm, 0, &memory) == GYRE_INVALID, comm, "0 bytes");
    bad += rig_check(gyre_alloc_device(comm, 1, NULL) == GYRE_INVALID, comm, "no place");
    bad += rig_check(gyre_alloc_device(NULL, 1, &memory) == GYRE_INVALID, comm, "no communicator");
    bad += rig_check(memory == comm, comm, "nothing was written");
    bad += rig_check(gyre_barrier(comm) == 0, comm, "the communicator is unharmed");
    return share_end(comm, bad);
}

static void wrong_requests(void **state)
{
    (void)state;
    run(too_little, ask_wrongly);
}

/* -- where all must do alike ------------------------------------------------------------------- */

/* A value on one rank's device, where the others have theirs on the host. All ranks are told, and
 * have lost nothing. */
static int train_on_it(struct gyre_comm *comm, struct rig *rig)
{
    static float here[4];
    void *away;
    struct gyre_ddp *ddp = NULL;
    (void)rig;
    int bad = rig_check(gyre_alloc_device(comm, LENGTH, &away) == 0, comm, "gyre_alloc_device");
    const struct gyre_ddp_parameter parameter = {.name = "weight",
                                                 .type = GYRE_F32,
                                                 .dimensions = 1,
                                                 .shape = {4},
                                                 .value = gyre_rank(comm) == 1 ? away : here};
    int status = bad ? 0 : gyre_ddp_create(&ddp, comm, &parameter, 1, NULL);
    bad += rig_check(status < 0 && !ddp &&
                         strstr(gyre_error(comm), "rank 1 has values on a CUDA "
                                                  "device where rank 0 has values"),
                     comm, "a value on a device");
    return share_end(comm, bad);
}

static void training_wants_values_on_one_kind(void **state)
{
    (void)state;
    run(share_two_devices, train_on_it);
}

/* -- copies that are wrong --------------------------------------------------------------------- */

static unsigned wrong; /* FAKECUDA_WRONG of the ranks below */

static void wrong_copies(const struct rig *rig, int rank)
{
    char text[8];
    const share_readying *before = rig->argument;
    (*before)(rig, rank);
    snprintf(text, sizeof(text), "%u", wrong);
    setenv("FAKECUDA_WRONG", text, 1);
}

/* Memory that others would copy wrongly stays with its rank, and sums of it are right all the
 * same. */
static int distrust(struct gyre_comm *comm, struct rig *rig)
{
    enum { COUNT = 100000 };
    static int32_t numbers[COUNT];
    void *first, *second;
    int rank = gyre_rank(comm), bad = 0;
    (void)rig;
    bad += rig_check(!gyre_alloc_device(comm, LENGTH, &first), comm, "gyre_alloc_device");
    bad += rig_check(!gyre_barrier(comm), comm, "a barrier"); /* peers have tried, too */
    int tried = fakecuda_calls("cuMemcpyAsync");
    bad += rig_check(!gyre_alloc_device(comm, LENGTH, &second), comm, "gyre_alloc_device");
    bad += rig_check(tried == fakecuda_calls("cuMemcpyAsync"), comm, "it is tried once");
    bad += rig_check(!share_id(comm, GYRE_MEMORY_CUDA, first) &&
                         !share_id(comm, GYRE_MEMORY_CUDA, second),
                     comm, "the memory is not shared");
    for (int i = 0; i < COUNT; i++)
        numbers[i] = rank + i;
    bad += share_copy(comm, first, numbers, sizeof(numbers));
    bad += rig_check(!gyre_all_reduce(comm, first, second, COUNT, GYRE_I32, GYRE_SUM), comm,
                     "gyre_all_reduce");
    bad += share_copy(comm, numbers, second, sizeof(numbers));
    for (int i = 0; i < COUNT && !bad; i++)
        bad += rig_check(numbers[i] == RANKS * (RANKS - 1) / 2 + RANKS * i, comm, "the sum");
    return share_end(comm, bad);
}

/* No rank has called gyre_alloc_device(): the first sum of memory that no peer maps finds out. */
static int distrust_at_first_sum(struct gyre_comm *comm, struct rig *rig)
{
    enum { COUNT = 100000 };
    static int32_t numbers[COUNT];
    struct gyre_region memory;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    int rank = gyre_rank(comm);
    (void)rig;
    int bad = rig_check(!cuda->alloc(gyre_device(comm), LENGTH, GYRE_SHARE_OPEN, &memory, NULL),
                        comm, "memory");
    if (bad)
        return bad;
    for (int i = 0; i < COUNT; i++)
        numbers[i] = rank + i;
    for (int round = 1; round <= 2 && !bad; round++) {
        bad += share_copy(comm, memory.base, numbers, sizeof(numbers));
        bad +=
            rig_check(!gyre_all_reduce(comm, memory.base, memory.base, COUNT, GYRE_I32, GYRE_SUM),
                      comm, "gyre_all_reduce");
    }
    bad += share_copy(comm, numbers, memory.base, sizeof(numbers));
    cuda->free(&memory);
    for (int i = 0; i < COUNT && !bad; i++)
        bad += rig_check(numbers[i] == RANKS * (RANKS - 1) / 2 + RANKS * i, comm, "the sum");
    return share_end(comm, bad);
}

/* How often ranks wrote the words to standard error while the job ran. */
static int run_and_count(struct rig *rig, const char *words)
{
    static char output[1 << 16];
    int kept = dup(STDERR_FILENO), file = memfd_create("stderr", MFD_CLOEXEC), count = 0;
    fcntl(file, F_SETFL, O_APPEND); /* lines of ranks that write at once all stay */
    dup2(file, STDERR_FILENO);
    int bad = rig_run(rig, SECONDS);
    dup2(kept, STDERR_FILENO);
    ssize_t length = pread(file, output, sizeof(output) - 1, 0);
    output[length > 0 ? length : 0] = '\0';
    close(file);
    close(kept);
    for (const char *at = output; (at = strstr(at, words)); at++)
        count++;
    if (bad || count != rig->n)
        fail_msg("%d times, not %d:\n%s", count, rig->n, output);
    return count;
}

/* One line of each rank. */
static void wrong_copies_are_found(void **state)
{
    static const share_readying modes[] = {share_two_devices, share_classic};
    (void)state;
    for (int i = 0; i < 4; i++)
        for (wrong = 1; wrong <= 3; wrong++) {
            struct rig rig = {.n = RANKS,
                              .transport = "shm",
                              .before = wrong_copies,
                              .body = i < 2 ? distrust : distrust_at_first_sum,
                              .argument = (void *)(uintptr_t)&modes[i % 2]};
            assert_int_equal(run_and_count(&rig, "and another are wrong"), RANKS);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer_without_cuda),
        cmocka_unit_test(import_refused_once),
        cmocka_unit_test(memory_that_cannot_travel),
        cmocka_unit_test(wrong_requests),
        cmocka_unit_test(wrong_copies_are_found),
        cmocka_unit_test(training_wants_values_on_one_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
