/* Messages of a device's memory over the verbs driver: two wires in this process, on the stand-ins
 * for CUDA and for libibverbs. The CPU cannot touch that memory here, so whoever tries is ended;
 * what the card writes and reads it finds where CUDA's stand-in has the bytes.
 *
 *     AWAY     a device's, of which there is a dma-buf     written and read by the card
 *     REGION   the host's, which can be registered         likewise
 *     OTHER    the host's, which cannot                    goes through the rings
 *
 * Each to each, by lengths around a part of a message and with tails that would travel in a request
 * itself; more messages than there are places; what is refused, withdrawn, freed or lost. */
#include "unit/transport/link/verbs/verbs_ends.h"

#include "base/clock.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "transport/memory/copy_queue.h"
#include "rig/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum kind { AWAY, REGION, OTHER, KINDS };
enum { SHARE = 48 * 64 * 1024 }; /* bytes of each kind at each end */

static const struct gyre_device *cuda;
static struct gyre_region region[2]; /* of the device, one for each end */
static uint8_t *alias[2];            /* where this program finds its bytes */
static uint8_t host[2][2][SHARE];    /* end; REGION, OTHER */
static int sent[2][MESSAGES], got[2][MESSAGES];

/* -- memory ------------------------------------------------------------------------------------ */

static void *where(uint64_t address)
{
    for (int end = 0; end < 2; end++) {
        uint64_t base = (uintptr_t)region[end].base;
        if (region[end].base && address >= base && address - base < SHARE)
            return alias[end] + (address - base);
    }
    return NULL;
}

static uint8_t *memory_of(int end, enum kind kind)
{
    return kind == AWAY ? region[end].base : host[end][kind - REGION];
}

/* The same, to be touched. */
static uint8_t *bytes_of(int end, enum kind kind)
{
    return kind == AWAY ? alias[end] : host[end][kind - REGION];
}

static void fill(void)
{
    for (int end = 0; end < 2; end++)
        for (enum kind kind = AWAY; kind < KINDS; kind++)
            for (uint32_t i = 0; i < SHARE; i++)
                bytes_of(end, kind)[i] =
                    (uint8_t)(i * 2654435761u >> 24 ^ (unsigned)end * 91 ^ (unsigned)kind * 37);
}

/* -- two ends ---------------------------------------------------------------------------------- */

static struct ends *new_ends(bool failover)
{
    for (int end = 0; end < 2; end++)
        for (uint32_t i = 0; i < MESSAGES; i++)
            sent[end][i] = got[end][i] = NEVER;
    ends_devices();
    fake_verbs.away = where;
    ends_memory();
    for (int end = 0; end < 2; end++) {
        ends_region(host[end][0], SHARE, GYRE_MEMORY_HOST);
        ends_region(region[end].base, SHARE, GYRE_MEMORY_CUDA);
    }
    ends_lookup.device = cuda;
    ends_lookup.copy_queue = gyre_copy_queue_create(cuda, 0);
    fill();
    return ends_new("a+b", "a+b", "1", failover);
}

static void free_ends(struct ends *ends)
{
    ends_free(ends);
    gyre_copy_queue_destroy(ends_lookup.copy_queue);
}

static void look(struct ends *ends)
{
    for (int end = 0; end < 2; end++) {
        struct gyre_completion done[8];
        int count = gyre_driver_verbs.poll(ends->wire[end], gyre_now_ns(), done, 8);
        for (int i = 0; i < count; i++) {
            uint32_t number = (uint32_t)done[i].token % MESSAGES;
            int *slot = done[i].token >= MESSAGES ? &got[end][number] : &sent[end][number];
            assert_int_equal(*slot, NEVER);
            *slot = done[i].status;
        }
    }
}

/* A device's thread copies meanwhile, so time has to pass. */
static void until(struct ends *ends, const int *status)
{
    uint64_t limit = gyre_now_ns() + 60000 * GYRE_MS;
    while (*status == NEVER && gyre_now_ns() < limit)
        look(ends);
    assert_int_not_equal(*status, NEVER);
}

static int try_send(struct ends *ends, uint32_t number, enum kind from, uint64_t at,
                    uint64_t length)
{
    const struct gyre_match match = {.comm = 1, .sequence = number, .on_device = from == AWAY};
    return gyre_driver_verbs.send(ends->pipe[0], &match, memory_of(0, from) + at, length, number);
}

static void post_recv(struct ends *ends, uint32_t number, enum kind to, uint64_t at,
                      uint64_t length)
{
    const struct gyre_match match = {.comm = 1, .sequence = number, .on_device = to == AWAY};
    ends_accepted(ends, 1,
                  gyre_driver_verbs.recv(ends->pipe[1], &match, memory_of(1, to) + at, length,
                                         MESSAGES + number));
}

/* -- each to each ------------------------------------------------------------------------------ */

static int copies(void)
{
    return fakecuda_calls("cuMemcpyAsync");
}

/* A card's share costs no copy by the device; each end that cannot be reached so, one for each
 * MiB. */
static void carry(struct ends *ends, uint32_t number, enum kind from, enum kind to, uint64_t length,
                  bool late)
{
    int before = copies(), flushes = fakecuda_calls("cuFlushGPUDirectRDMAWrites");
    uint32_t announced = ends_inside(ends, 0)->announced;
    bool direct = from != OTHER && to != OTHER;
    int trips = (int)((length + (1 << 20) - 1) >> 20);
    memset(bytes_of(1, to), 0, length + 7);
    if (!late)
        post_recv(ends, number, to, 7, length);
    ends_accepted(ends, 0, try_send(ends, number, from, 0, length));
    for (int turn = 0; turn < 50; turn++)
        look(ends);
    if (late)
        post_recv(ends, number, to, 7, length);
    until(ends, &sent[0][number]);
    until(ends, &got[1][number]);
    assert_int_equal(sent[0][number] | got[1][number], 0);
    assert_memory_equal(bytes_of(1, to) + 7, bytes_of(0, from), length);
    if (ends_inside(ends, 0)->announced - announced != direct ||
        copies() - before != (direct ? 0 : trips * ((from == AWAY) + (to == AWAY))))
        fail_msg("%d to %d, %d bytes: %u by the card, %d copies", from, to, (int)length,
                 ends_inside(ends, 0)->announced - announced, copies() - before);
    if (direct && to == AWAY)
        assert_true(fakecuda_calls("cuFlushGPUDirectRDMAWrites") > flushes);
}

static void any_memory_to_any(void **state)
{
    static const uint64_t lengths[] = {16385, PART + 5, 2 * PART + 256, 5 * PART + 1,
                                       20 * PART + 9};
    uint32_t number = 0;
    (void)state;
    struct ends *ends = new_ends(false);
    for (uint32_t i = 0; i < COUNT(lengths); i++)
        for (enum kind from = AWAY; from < KINDS; from++)
            for (enum kind to = AWAY; to < KINDS; to++, number++)
                carry(ends, number, from, to, lengths[i], number % 2);
    assert_int_equal(fake_verbs.by_dmabuf, 4); /* two ends, two cards */
    free_ends(ends);
}

/* Beyond those that have a place pieces come, from a copy. */
static void more_messages_than_places(void **state)
{
    enum { COUNT_OF = 44, EACH = 64 * 1024 };
    (void)state;
    struct ends *ends = new_ends(false);
    memset(bytes_of(1, AWAY), 0, SHARE);
    for (uint32_t i = 0; i < COUNT_OF; i++)
        post_recv(ends, i, AWAY, (uint64_t)i * EACH, EACH);
    for (int turn = 0; turn < 50; turn++)
        look(ends);
    for (uint32_t i = 0; i < COUNT_OF; i++)
        ends_accepted(ends, 0, try_send(ends, i, AWAY, (uint64_t)i * EACH, EACH));
    for (uint32_t i = 0; i < COUNT_OF; i++) {
        until(ends, &got[1][i]);
        until(ends, &sent[0][i]);
        assert_int_equal(sent[0][i] | got[1][i], 0);
    }
    assert_memory_equal(bytes_of(1, AWAY), bytes_of(0, AWAY), COUNT_OF * EACH);
    assert_int_equal(ends_inside(ends, 0)->announced, GYRE_VERBS_PLACES);
    free_ends(ends);
}

/* -- what is refused --------------------------------------------------------------------------- */

static bool carries(struct ends *ends, int end, enum kind kind, uint64_t length)
{
    bool sends = gyre_driver_verbs.carries(ends->pipe[end], memory_of(end, kind), length, true);
    bool receives = gyre_driver_verbs.carries(ends->pipe[end], memory_of(end, kind), length, false);
    assert_int_equal(sends, receives);
    return sends;
}

static const struct refusal {
    const char *what;
    bool no_dmabuf, peer_memory, failover, no_region;
    const char *call; /* of CUDA, that fails */
    bool carried;
} refusals[] = {
    {"all is there", false, false, false, false, NULL, true},
    {"the library knows no dma-buf", true, false, false, false, NULL, false},
    {"but the kernel knows the device", true, true, false, false, NULL, true},
    {"CUDA gives no dma-buf", false, false, false, false, "cuMemGetHandleForAddressRange", false},
    {"likewise", false, true, false, false, "cuMemGetHandleForAddressRange", true},
    {"nobody can flush", false, true, false, false, "cuFlushGPUDirectRDMAWrites", false},
    {"a link may go on over TCP", false, false, true, false, NULL, false},
    {"memory whose life nobody knows", false, true, false, true, NULL, false},
};

/* The device's memory is not the library's own. */
static void remove_regions(void)
{
    struct gyre_shared removed;
    for (int end = 0; end < 2; end++)
        assert_true(gyre_lookup_remove(&ends_lookup, region[end].base, &removed));
}

/* Then whoever posts messages copies to the host first, and a send of it is refused here. */
static void what_is_refused_is_not_carried(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(refusals); i++) {
        const struct refusal *it = &refusals[i];
        struct ends *ends = new_ends(it->failover);
        fake_verbs.no_dmabuf = it->no_dmabuf;
        fake_verbs.peer_memory = it->peer_memory;
        if (it->no_region)
            remove_regions();
        if (it->call)
            fakecuda_fail(it->call, 1, CUDA_ERROR_NOT_SUPPORTED);
        if (carries(ends, 0, AWAY, PART) != it->carried)
            fail_msg("%s", it->what);
        assert_false(carries(ends, 0, AWAY, 16384));
        if (!it->carried)
            assert_int_equal(try_send(ends, 0, AWAY, 0, PART), GYRE_INVALID);
        fakecuda_fail(NULL, 0, CUDA_SUCCESS);
        free_ends(ends);
    }
}

/* -- what goes wrong --------------------------------------------------------------------------- */

static void says(const struct ends *ends, int end, int status, const char *words)
{
    struct gyre_trouble why = {0};
    assert_int_equal(gyre_driver_verbs.state(ends->pipe[end], &why), status);
    if (!strstr(why.text, words))
        fail_msg("\"%s\" does not say \"%s\"", why.text, words);
}

static void what_cannot_be_shown_to_the_device_fails(void **state)
{
    (void)state;
    struct ends *ends = new_ends(false);
    carry(ends, 0, AWAY, AWAY, PART, false);
    post_recv(ends, 1, AWAY, 0, PART);
    fakecuda_fail("cuFlushGPUDirectRDMAWrites", 1, CUDA_ERROR_NOT_SUPPORTED);
    ends_accepted(ends, 0, try_send(ends, 1, AWAY, 0, PART));
    until(ends, &got[1][1]);
    assert_int_equal(got[1][1], GYRE_UNSUPPORTED);
    says(ends, 1, GYRE_UNSUPPORTED, "a message of a device's memory could not be copied");
    free_ends(ends);
}

/* While the device copies it aboard a message is past recall; then it is not. */
static void what_is_laden_may_be_withdrawn_later(void **state)
{
    (void)state;
    struct ends *ends = new_ends(false);
    fakecuda_hold(true);
    post_recv(ends, 0, OTHER, 0, PART);
    ends_accepted(ends, 0, try_send(ends, 0, AWAY, 0, PART));
    for (int turn = 0; turn < 100; turn++)
        look(ends);
    assert_int_equal(sent[0][0], NEVER);
    assert_int_equal(gyre_driver_verbs.cancel(ends->pipe[0], 0), -ENOENT);
    fakecuda_hold(false);
    until(ends, &got[1][0]);
    assert_int_equal(got[1][0], 0);
    assert_memory_equal(bytes_of(1, OTHER), bytes_of(0, AWAY), PART);
    free_ends(ends);
}

/* A receive that the card may write into ends when that is over; here its message never begins. */
static void a_placed_receive_may_be_withdrawn(void **state)
{
    (void)state;
    struct ends *ends = new_ends(false);
    post_recv(ends, 0, AWAY, 0, PART);
    for (int turn = 0; turn < 50; turn++)
        look(ends);
    assert_int_equal(gyre_driver_verbs.cancel(ends->pipe[1], MESSAGES), 0);
    until(ends, &got[1][0]);
    assert_int_equal(got[1][0], -ECANCELED);
    memset(bytes_of(1, AWAY), 0, PART);
    ends_accepted(ends, 0, try_send(ends, 0, AWAY, 0, PART)); /* pieces, which nobody keeps */
    until(ends, &sent[0][0]);
    for (uint32_t i = 0; i < PART; i++)
        assert_int_equal(bytes_of(1, AWAY)[i], 0);
    free_ends(ends);
}

static void a_device_that_is_lost_is_named(void **state)
{
    (void)state;
    struct ends *ends = new_ends(false);
    fakecuda_fail("copy", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    post_recv(ends, 0, OTHER, 0, PART);
    ends_accepted(ends, 0, try_send(ends, 0, AWAY, 0, PART));
    until(ends, &sent[0][0]);
    assert_int_equal(sent[0][0], -EIO);
    says(ends, 0, -EIO, "a message of a device's memory could not be copied");
    free_ends(ends);
    fakecuda_heal();
}

static int set_up(void **state)
{
    struct gyre_trouble trouble = {0};
    (void)state;
    cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    for (int end = 0; end < 2; end++) {
        if (cuda->alloc(0, SHARE, GYRE_SHARE_OPEN, &region[end], &trouble)) {
            fprintf(stderr, "%s\n", trouble.text);
            return -1;
        }
        alias[end] = mmap(NULL, SHARE, PROT_READ | PROT_WRITE, MAP_SHARED, region[end].fd, 0);
        if (alias[end] == MAP_FAILED)
            return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int end = 0; end < 2; end++) {
        munmap(alias[end], SHARE);
        cuda->free(&region[end]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_memory_to_any),
        cmocka_unit_test(more_messages_than_places),
        cmocka_unit_test(what_is_refused_is_not_carried),
        cmocka_unit_test(what_cannot_be_shown_to_the_device_fails),
        cmocka_unit_test(what_is_laden_may_be_withdrawn_later),
        cmocka_unit_test(a_placed_receive_may_be_withdrawn),
        cmocka_unit_test(a_device_that_is_lost_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
