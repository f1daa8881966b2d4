/* Host memory as a device: what peers can do with a region and, above all, what they cannot. A peer
 * is a child process that gets the descriptor by fork; parent and child take turns over pipes. */
#include "rig/device_suite.h"
#include "rig/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct gyre_device *cpu;

static struct gyre_region new_region(uint64_t length, enum gyre_share share)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    if (cpu->alloc(0, length, share, &region, &trouble))
        fail_msg("%s", trouble.text);
    return region;
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static struct stat stat_of(int fd)
{
    struct stat file;
    assert_int_equal(fstat(fd, &file), 0);
    return file;
}

/* -- regions ----------------------------------------------------------------------------------- */

static void test_table(void **state)
{
    assert_ptr_equal(gyre_device_of(GYRE_MEMORY_HOST), cpu);
    assert_int_equal(cpu->kind, GYRE_MEMORY_HOST);
    assert_int_equal(cpu->probe(NULL), 1);
    assert_null(gyre_device_of(GYRE_MEMORY_KINDS));
    assert_null(gyre_device_of((enum gyre_memory_kind) - 1));
}

/* A file of another process becomes a region once: its first owner has sealed it. */
static void test_a_file_is_adopted_once(void **state)
{
    struct gyre_region region, second;
    struct gyre_trouble trouble = {0};
    int fd = memfd_create("adopted", MFD_CLOEXEC | MFD_ALLOW_SEALING), outside = dup(fd),
        pipe_fd[2];
    char byte = 0;
    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_int_equal(pipe(pipe_fd), 0);
    assert_int_equal(gyre_cpu_adopt(fd, 4096, GYRE_SHARE_SEALED, &region, &trouble), GYRE_INVALID);
    assert_int_equal(gyre_cpu_adopt(pipe_fd[0], 4096, GYRE_SHARE_SEALED, &region, &trouble),
                     GYRE_INVALID);
    assert_int_equal(gyre_cpu_adopt(255, 4096, GYRE_SHARE_SEALED, &region, &trouble), GYRE_INVALID);
    assert_int_equal(gyre_cpu_adopt(fd, 8192, GYRE_SHARE_SEALED, &region, &trouble), 0);
    ((char *)region.base)[8191] = 7;
    assert_int_equal(pread(outside, &byte, 1, 8191), 1);
    assert_int_equal(byte, 7);
    assert_true(pwrite(outside, &byte, 1, 0) < 0);
    assert_true(gyre_cpu_adopt(outside, 8192, GYRE_SHARE_SEALED, &second, &trouble) < 0);
    cpu->free(&region);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    close(outside);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

/* The suite does not look at descriptors. */
static void test_regions_leave_no_descriptors(void **state)
{
    static const uint64_t lengths[] = {1, 4096, 1 << 20, 5 << 20};
    int before = open_descriptors();
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct gyre_region region = new_region(lengths[i], GYRE_SHARE_OPEN);
        for (uint64_t at = 0; at < region.length; at++)
            assert_int_equal(((char *)region.base)[at], 0);
        memset(region.base, 1, region.length);
        cpu->free(&region);
    }
    assert_int_equal(open_descriptors(), before);
}

static void test_size_is_for_ever(void **state)
{
    struct gyre_region region = new_region(10000, GYRE_SHARE_OPEN);
    int fd = region.fd;
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 1 << 20), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    cpu->free(&region);
}

static void test_bad_lengths(void **state)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    assert_int_equal(cpu->alloc(0, 0, GYRE_SHARE_OPEN, &region, NULL), GYRE_INVALID);
    assert_int_equal(cpu->alloc(0, UINT64_MAX, GYRE_SHARE_OPEN, &region, NULL), -ENOMEM);
    assert_int_equal(cpu->alloc(0, UINT64_C(1) << 50, GYRE_SHARE_OPEN, &region, &trouble), -ENOMEM);
    assert_non_null(strstr(trouble.text, "1073741824.0 MiB of shared memory do not fit: "));
    assert_null(region.base);
    cpu->free(&region);
}

/* -- importing --------------------------------------------------------------------------------- */

static void test_import_shares_pages(void **state)
{
    struct gyre_region region = new_region(3 << 20, GYRE_SHARE_OPEN), view;
    int before = open_descriptors();
    assert_int_equal(cpu->import(0, region.fd, 3 << 20, GYRE_SHARE_OPEN, &view, NULL), 0);
    ((char *)view.base)[1234567] = 'v';
    ((char *)region.base)[0] = 'r';
    assert_int_equal(((char *)region.base)[1234567], 'v');
    assert_int_equal(((char *)view.base)[0], 'r');
    assert_int_equal(view.fd, -1);
    assert_int_equal(view.length, 3 << 20);
    cpu->unimport(&view);
    assert_null(view.base);
    cpu->unimport(&view);
    assert_int_equal(open_descriptors(), before);
    cpu->free(&region);
}

static void expect_refusal(int fd, uint64_t length, enum gyre_share share, const char *words)
{
    struct gyre_region view;
    struct gyre_trouble trouble = {0};
    int status = cpu->import(0, fd, length, share, &view, &trouble);
    if (status != GYRE_INVALID || view.base || !strstr(trouble.text, words))
        fail_msg("import: status %d, \"%s\" (expected \"%s\")", status, trouble.text, words);
}

static void test_import_refuses_wrong_sizes(void **state)
{
    struct gyre_region region = new_region(8192, GYRE_SHARE_OPEN);
    expect_refusal(region.fd, 8193, GYRE_SHARE_OPEN, "8192 bytes where 8193 were announced");
    expect_refusal(region.fd, 4096, GYRE_SHARE_OPEN, "8192 bytes where 4096 were announced");
    expect_refusal(region.fd, 0, GYRE_SHARE_OPEN, "where 0 were announced");
    expect_refusal(region.fd, UINT64_MAX, GYRE_SHARE_OPEN, "were announced");
    cpu->free(&region);
}

/* A file of `length` bytes with these seals, as a peer that is not Gyre might send it. */
static int foreign_file(off_t length, int seals)
{
    int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, length), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void test_import_refuses_missing_seals(void **state)
{
    static const int all[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL};
    for (int missing = 0; missing < 3; missing++) {
        int seals = 0;
        for (int i = 0; i < 3; i++)
            seals |= i == missing ? 0 : all[i];
        int fd = foreign_file(4096, seals);
        expect_refusal(fd, 4096, GYRE_SHARE_OPEN, "seals");
        close(fd);
    }
    struct gyre_region region = new_region(4096, GYRE_SHARE_OPEN);
    expect_refusal(region.fd, 4096, GYRE_SHARE_SEALED, "seals");
    cpu->free(&region);
}

static void test_import_refuses_other_files(void **state)
{
    int end[2];
    char path[] = "/tmp/gyre-test-device-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    unlink(path);
    assert_int_equal(ftruncate(file, 4096), 0);
    expect_refusal(file, 4096, GYRE_SHARE_OPEN, "seals");
    close(file);
    assert_int_equal(pipe(end), 0);
    expect_refusal(end[0], 4096, GYRE_SHARE_OPEN, "were announced");
    close(end[0]);
    close(end[1]);
    struct gyre_region view;
    assert_int_equal(cpu->import(0, -1, 4096, GYRE_SHARE_OPEN, &view, NULL), -EBADF);
}

/* -- sealed regions ---------------------------------------------------------------------------- */

static void test_sealed_region_is_read_only_for_others(void **state)
{
    struct gyre_region region = new_region(8192, GYRE_SHARE_SEALED), view;
    ((char *)region.base)[5000] = 'x'; /* the owner may */
    assert_ptr_equal(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd, 0),
                     MAP_FAILED);
    assert_int_equal(errno, EPERM);
    assert_int_equal(pwrite(region.fd, "y", 1, 5000), -1);
    assert_int_equal(cpu->import(0, region.fd, 8192, GYRE_SHARE_SEALED, &view, NULL), 0);
    assert_int_equal(((char *)view.base)[5000], 'x');
    assert_int_equal(mprotect(view.base, 8192, PROT_READ | PROT_WRITE), -1);
    cpu->unimport(&view);
    cpu->free(&region);
}

static void write_to_import(const struct gyre_region *region)
{
    struct gyre_region view;
    signal(SIGSEGV, SIG_DFL);
    if (cpu->import(0, region->fd, region->length, GYRE_SHARE_SEALED, &view, NULL))
        _exit(1);
    *(volatile char *)view.base = 1;
    _exit(2);
}

static void test_writing_to_a_sealed_import_is_fatal(void **state)
{
    int status;
    struct gyre_region region = new_region(4096, GYRE_SHARE_SEALED);
    pid_t child = fork();
    if (child == 0)
        write_to_import(&region);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) <= 2);
    assert_int_equal(*(char *)region.base, 0);
    cpu->free(&region);
}

/* -- detaching --------------------------------------------------------------------------------- */

struct turns {
    int to_child[2], to_parent[2];
};

static void give_turn(int fd)
{
    assert_int_equal(write(fd, "!", 1), 1);
}

static void await_turn(int fd)
{
    char word;
    assert_int_equal(read(fd, &word, 1), 1);
}

/* Writes through the child's own mapping each time it is told to; ends by telling what it sees. */
static void late_writer(const struct gyre_region *region, const struct turns *turns)
{
    struct gyre_region view;
    if (cpu->import(0, region->fd, region->length, GYRE_SHARE_OPEN, &view, NULL))
        _exit(1);
    volatile char *bytes = view.base;
    for (char value = 1; value <= 2; value++) {
        await_turn(turns->to_child[0]);
        for (uint64_t at = 0; at < region->length; at += 1000)
            bytes[at] = value;
        give_turn(turns->to_parent[1]);
    }
    _exit(bytes[1000] == 2 ? 0 : 2);
}

static void detach_from_writer(uint64_t length)
{
    int status;
    struct turns turns;
    struct gyre_region region = new_region(length, GYRE_SHARE_OPEN);
    assert_int_equal(pipe(turns.to_child) | pipe(turns.to_parent), 0);
    pid_t child = fork();
    if (child == 0)
        late_writer(&region, &turns);
    give_turn(turns.to_child[1]);
    await_turn(turns.to_parent[0]);
    void *base = region.base;
    int before = open_descriptors();
    assert_int_equal(cpu->detach(&region, NULL), 0);
    assert_int_equal(open_descriptors(), before);
    assert_ptr_equal(region.base, base);
    give_turn(turns.to_child[1]); /* the late write */
    await_turn(turns.to_parent[0]);
    for (uint64_t at = 0; at < length; at++)
        if (((char *)base)[at] != (at % 1000 == 0))
            fail_msg("byte %llu is %d", (unsigned long long)at, ((char *)base)[at]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    cpu->free(&region);
    for (int i = 0; i < 2; i++)
        close(turns.to_child[i]), close(turns.to_parent[i]);
}

static void test_detach_hides_a_writer(void **state)
{
    detach_from_writer(4096);
    detach_from_writer(7 << 20);
}

static void test_detached_region_can_be_shared_again(void **state)
{
    struct gyre_region region = new_region(9000, GYRE_SHARE_OPEN), view, old;
    assert_int_equal(cpu->import(0, region.fd, 9000, GYRE_SHARE_OPEN, &old, NULL), 0);
    memset(region.base, 7, 9000);
    assert_int_equal(cpu->detach(&region, NULL), 0);
    assert_int_equal(cpu->import(0, region.fd, 9000, GYRE_SHARE_OPEN, &view, NULL), 0);
    ((char *)view.base)[8999] = 8;
    assert_int_equal(((char *)region.base)[8999], 8);
    assert_int_equal(((char *)old.base)[8999], 7);
    cpu->unimport(&view);
    cpu->unimport(&old);
    cpu->free(&region);
}

static void test_detached_region_stays_sealed(void **state)
{
    struct gyre_region region = new_region(4096, GYRE_SHARE_SEALED);
    memset(region.base, 5, 4096);
    assert_int_equal(cpu->detach(&region, NULL), 0);
    assert_int_equal(((char *)region.base)[4095], 5);
    ((char *)region.base)[0] = 6;
    assert_true(fcntl(region.fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE);
    cpu->free(&region);
}

/* Parts without pages stay without pages: a detached region is not larger than it was. */
static void test_detach_keeps_holes(void **state)
{
    uint64_t length = UINT64_C(64) << 20;
    struct gyre_region region = new_region(length, GYRE_SHARE_OPEN);
    char *bytes = region.base;
    bytes[5 << 20] = 'a';
    bytes[length - 1] = 'z';
    blkcnt_t blocks = stat_of(region.fd).st_blocks;
    assert_int_equal(cpu->detach(&region, NULL), 0);
    assert_int_equal(stat_of(region.fd).st_blocks, blocks);
    assert_true(bytes[5 << 20] == 'a' && bytes[length - 1] == 'z' && bytes[6 << 20] == 0);
    cpu->free(&region);
}

/* -- limits ------------------------------------------------------------------------------------ */

/* The status of an allocation of `length` bytes under a limit, in a child; its text goes to *text.
 */
static int alloc_under(int resource, rlim_t limit, uint64_t length, char *text, size_t room)
{
    int end[2], wait_status;
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    assert_int_equal(pipe(end), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit both = {limit, limit};
        setrlimit((__rlimit_resource_t)resource, &both);
        cpu->alloc(0, length, GYRE_SHARE_OPEN, &region, &trouble);
        _exit(write(end[1], &trouble, sizeof trouble) != sizeof trouble);
    }
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_int_equal(wait_status, 0);
    assert_int_equal(read(end[0], &trouble, sizeof trouble), sizeof trouble);
    snprintf(text, room, "%s", trouble.text);
    close(end[0]);
    close(end[1]);
    return trouble.status;
}

/* Bytes of addresses that are taken already. */
static rlim_t addresses_taken(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void test_limits_are_named(void **state)
{
    rlim_t nearly = addresses_taken() + (16 << 20); /* what sanitizers take on the way still fits */
    char text[GYRE_TROUBLE_MAX];
    assert_int_equal(alloc_under(RLIMIT_FSIZE, 65536, 100000, text, sizeof text), -ENOMEM);
    assert_non_null(strstr(text, "raise `ulimit -f`"));
    assert_int_equal(alloc_under(RLIMIT_FSIZE, 1 << 21, 3 << 20, text, sizeof text), -ENOMEM);
    assert_non_null(strstr(text, "raise `ulimit -f`"));
    assert_int_equal(alloc_under(RLIMIT_NOFILE, 0, 4096, text, sizeof text), -EMFILE);
    assert_non_null(strstr(text, "raise `ulimit -n`"));
    assert_int_equal(alloc_under(RLIMIT_NOFILE, 64, 4096, text, sizeof text), 0);
    assert_int_equal(alloc_under(RLIMIT_AS, nearly, 64 << 20, text, sizeof text), -ENOMEM);
    assert_non_null(strstr(text, "raise `ulimit -v`"));
}

/* -- queue ------------------------------------------------------------------------------------- */

static void doubling(const struct gyre_fold_task *task, void *native_queue)
{
    for (uint64_t i = 0; i < task->count; i++)
        ((int *)task->destination[0])[i] = 2 * ((const int *)task->source[0])[i];
}

static void test_work_is_done_when_posted(void **state)
{
    struct gyre_device_queue *queue;
    uint64_t token;
    int from = 21, to = 0;
    void *destination = &to;
    const void *source = &from;
    struct gyre_fold_task task = {&destination, &source, 1, 1, 1, 0, false};
    assert_int_equal(cpu->queue_create(0, &queue, NULL), 0);
    assert_int_equal(cpu->copy(queue, &to, &from, sizeof to, 1), 1);
    assert_int_equal(to, 21);
    assert_int_equal(cpu->reduce(queue, doubling, &task, 2), 1);
    assert_int_equal(to, 42);
    assert_int_equal(cpu->query(queue, &token, 1), 0);
    cpu->queue_destroy(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_regions_leave_no_descriptors),
        cmocka_unit_test(test_size_is_for_ever),
        cmocka_unit_test(test_bad_lengths),
        cmocka_unit_test(test_import_shares_pages),
        cmocka_unit_test(test_import_refuses_wrong_sizes),
        cmocka_unit_test(test_import_refuses_missing_seals),
        cmocka_unit_test(test_import_refuses_other_files),
        cmocka_unit_test(test_sealed_region_is_read_only_for_others),
        cmocka_unit_test(test_writing_to_a_sealed_import_is_fatal),
        cmocka_unit_test(test_detach_hides_a_writer),
        cmocka_unit_test(test_detached_region_can_be_shared_again),
        cmocka_unit_test(test_detached_region_stays_sealed),
        cmocka_unit_test(test_detach_keeps_holes),
        cmocka_unit_test(test_a_file_is_adopted_once),
        cmocka_unit_test(test_limits_are_named),
        cmocka_unit_test(test_work_is_done_when_posted),
    };
    cpu = gyre_device_of(GYRE_MEMORY_HOST);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + device_suite_run("the contract, by the CPU", cpu, doubling);
}
