/* The memory of a large node, mapped by two ranks of it in this process. */
#include "transport/memory/node_memory.h"

#include "rig/test.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLACES = 70, RANKS = 100 };

struct pair {
    int fd;
    struct gyre_node_memory one, two; /* at places 1 and 66, of ranks 11 and 99 */
};

static void open_pair(struct pair *pair)
{
    pair->fd = memfd_create("node", MFD_CLOEXEC);
    assert_int_equal(ftruncate(pair->fd, (off_t)gyre_node_memory_bytes(PLACES)), 0);
    assert_int_equal(gyre_node_memory_map(&pair->one, pair->fd, PLACES, 1, RANKS, NULL), 0);
    assert_int_equal(gyre_node_memory_map(&pair->two, pair->fd, PLACES, 66, RANKS, NULL), 0);
    gyre_node_memory_seat(&pair->one, 66, 99);
    gyre_node_memory_seat(&pair->two, 1, 11);
}

static void close_pair(struct pair *pair)
{
    gyre_node_memory_unmap(&pair->one);
    gyre_node_memory_unmap(&pair->two);
    close(pair->fd);
}

static void what_one_writes_the_other_reads(void **state)
{
    struct pair pair;
    (void)state;
    open_pair(&pair);
    struct gyre_region out = gyre_node_memory_queue(&pair.one, 1, 66),
                       in = gyre_node_memory_queue(&pair.two, 1, 66);
    assert_int_equal(out.length, GYRE_QUEUE_BYTES);
    memset(out.base, 7, out.length);
    assert_memory_equal(in.base, out.base, out.length);
    close_pair(&pair);
}

/* Writes one byte in a child: whether a signal ended it. */
static bool faults(uint8_t *at)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile uint8_t *)at = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void a_row_is_written_by_its_rank_alone(void **state)
{
    struct pair pair;
    (void)state;
    open_pair(&pair);
    for (uint32_t to = 0; to < PLACES; to++) {
        uint8_t *mine = gyre_node_memory_queue(&pair.one, 1, to).base;
        assert_false(faults(mine) || faults(mine + GYRE_QUEUE_BYTES - 1));
    }
    for (uint32_t from = 0; from < PLACES; from++)
        if (from != 1)
            assert_true(faults(gyre_node_memory_queue(&pair.one, from, 1).base));
    close_pair(&pair);
}

/* Queues and bells lie apart, behind the proof and inside the file. */
static void nothing_overlaps(void **state)
{
    struct pair pair;
    (void)state;
    open_pair(&pair);
    uint8_t *last = pair.one.base + 4096;
    for (uint32_t place = 0; place < PLACES; place++) {
        uint8_t *bell = gyre_node_memory_bell(&pair.one, place);
        assert_true(bell >= last);
        last = bell + 64;
    }
    for (uint32_t from = 0; from < PLACES; from++)
        for (uint32_t to = 0; to < PLACES; to++) {
            uint8_t *queue = gyre_node_memory_queue(&pair.one, from, to).base;
            assert_true(queue >= last);
            last = queue + GYRE_QUEUE_BYTES;
        }
    assert_true(last <= pair.one.base + gyre_node_memory_bytes(PLACES));
    close_pair(&pair);
}

static void a_call_is_heard(void **state)
{
    struct pair pair;
    (void)state;
    open_pair(&pair);
    assert_int_equal(gyre_node_memory_calls(&pair.two), 0);
    gyre_node_memory_call(&pair.one, 66);
    assert_int_equal(gyre_node_memory_calls(&pair.two), 1);
    assert_int_equal(gyre_node_memory_calls(&pair.one), 0);
    for (uint32_t place = 0; place < PLACES; place++)
        assert_int_equal(gyre_node_memory_has_called(&pair.two, place), place == 1);
    gyre_node_memory_call(&pair.two, 1);
    assert_true(gyre_node_memory_has_called(&pair.one, 66));
    close_pair(&pair);
}

static void only_touched_pages_are_taken(void **state)
{
    struct pair pair;
    struct stat file;
    (void)state;
    open_pair(&pair);
    memset(gyre_node_memory_queue(&pair.two, 66, 1).base, 1, 4096);
    assert_int_equal(fstat(pair.fd, &file), 0);
    assert_true(file.st_size > PLACES * PLACES * (off_t)GYRE_QUEUE_BYTES);
    assert_true(file.st_blocks * 512 <= 8 * 4096);
    close_pair(&pair);
}

static void a_file_that_cannot_be_mapped_is_told(void **state)
{
    struct gyre_node_memory none = {0};
    struct gyre_trouble trouble = {0};
    (void)state;
    assert_true(gyre_node_memory_map(&none, -1, PLACES, 0, RANKS, &trouble) < 0);
    assert_non_null(strstr(trouble.text, "node of 70 ranks"));
    assert_null(none.base);
    gyre_node_memory_unmap(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_writes_the_other_reads),
        cmocka_unit_test(a_row_is_written_by_its_rank_alone),
        cmocka_unit_test(nothing_overlaps),
        cmocka_unit_test(a_call_is_heard),
        cmocka_unit_test(only_touched_pages_are_taken),
        cmocka_unit_test(a_file_that_cannot_be_mapped_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
