/* What a rank of 8 holds beyond its buffers: at most 24 MiB, on the fullest rank.
 *
 * Held is RssAnon + RssShmem of /proc/self/status: private pages and shared ones that this process
 * has touched. Its buffers are taken off, and so are the peers' buffers as far as this rank has
 * mapped and touched them, for those pages are the peers': /proc/self/smaps tells the resident size
 * of every mapping, and the mappings of buffers are known by a length that nothing else has.
 *
 *     RssAnon + RssShmem  −  Σ Rss of mappings as long as a buffer  ≤  24 MiB
 *
 * Buffers from malloc() are private and touched whole; there the two are taken off as they are. */
#include "rig/comm_rig.h"
#include "rig/sanitized.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS     8
#define MOST      (4u << 20)
#define BUFFER    (MOST + 5 * 4096u) /* a length of its own */
#define LIMIT_KIB (24 * 1024L)

/* -- what the kernel tells --------------------------------------------------------------------- */

static long status_kib(const char *name)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && kib < 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            kib = atol(line + strlen(name));
    if (file)
        fclose(file);
    return kib;
}

/* Resident part of all mappings that are as long as a buffer; how many in *found. */
static long buffers_kib(int *found)
{
    char line[1024];
    bool buffer = false;
    long kib, sum = 0;
    FILE *file = fopen("/proc/self/smaps", "re");
    *found = 0;
    while (file && fgets(line, sizeof line, file)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            buffer = to - from == BUFFER;
            *found += buffer;
        } else if (buffer && sscanf(line, "Rss: %ld kB", &kib) == 1) {
            sum += kib;
        }
    }
    if (file)
        fclose(file);
    return sum;
}

/* -- a rank ------------------------------------------------------------------------------------ */

static int warm_up(struct gyre_comm *comm, void *input, void *output)
{
    int status = 0;
    memset(input, 1, BUFFER);
    memset(output, 1, BUFFER);
    for (uint64_t bytes = 8; bytes <= MOST && !status; bytes *= 2) {
        status = gyre_all_reduce(comm, input, output, bytes, GYRE_U8, GYRE_SUM);
        if (!status)
            status = gyre_all_reduce(comm, output, output, bytes / 4, GYRE_I32, GYRE_MAX);
        if (!status)
            status = gyre_broadcast(comm, input, output, bytes, GYRE_U8, 1);
    }
    return status ? status : gyre_barrier(comm);
}

/* What this rank holds goes to the test through the shared page. */
static int tell(struct gyre_comm *comm, struct rig *rig, long buffers)
{
    long held = status_kib("RssAnon:") + status_kib("RssShmem:");
    rig->shared->status[gyre_rank(comm)] = (int)(held - buffers);
    rig->shared->ready++;
    return gyre_finalize(comm);
}

static int with_gyre_memory(struct gyre_comm *comm, struct rig *rig)
{
    void *input, *output;
    int found;
    if (gyre_alloc(comm, BUFFER, &input) || gyre_alloc(comm, BUFFER, &output) ||
        warm_up(comm, input, output))
        return 2;
    long buffers = buffers_kib(&found);
    if (found < 2 || buffers < 2 * (long)(MOST >> 10)) {
        fprintf(stderr, "%d mappings of buffers with %ld KiB: cannot be\n", found, buffers);
        return 3;
    }
    return tell(comm, rig, buffers);
}

static int with_plain_memory(struct gyre_comm *comm, struct rig *rig)
{
    void *input = malloc(BUFFER), *output = malloc(BUFFER);
    if (!input || !output || warm_up(comm, input, output))
        return 2;
    int status = tell(comm, rig, 2 * (BUFFER >> 10));
    free(input);
    free(output);
    return status;
}

/* A rank that holds 25 MiB too many is found: `argument` says so. */
static int with_a_leak(struct gyre_comm *comm, struct rig *rig)
{
    char *leak = mmap(NULL, 25 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (leak == MAP_FAILED)
        return 4;
    memset(leak, 1, 25 << 20);
    return with_gyre_memory(comm, rig);
}

/* -- the limit --------------------------------------------------------------------------------- */

static long fullest_kib(const char *transport, int (*body)(struct gyre_comm *comm, struct rig *rig))
{
    struct rig rig = {.n = RANKS, .transport = transport, .body = body};
    int fullest = 0;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    assert_int_equal(rig.shared->ready, RANKS);
    for (int rank = 0; rank < RANKS; rank++)
        fullest = rig.shared->status[rank] > fullest ? rig.shared->status[rank] : fullest;
    munmap(rig.shared, sizeof *rig.shared);
    assert_true(fullest > 0);
    return fullest;
}

static void keep_to_the_limit(const char *what, const char *transport,
                              int (*body)(struct gyre_comm *comm, struct rig *rig))
{
    long fullest = fullest_kib(transport, body);
    print_message("%s: %.1f MiB beyond the buffers, fullest of %d ranks\n", what,
                  (double)fullest / 1024, RANKS);
    if (fullest > LIMIT_KIB)
        fail_msg("%s: %ld KiB are more than %ld", what, fullest, LIMIT_KIB);
}

static void gyre_memory_keeps_to_the_limit(void **state)
{
    (void)state;
    keep_to_the_limit("shm, gyre_alloc", "shm", with_gyre_memory);
}

static void plain_memory_keeps_to_the_limit(void **state)
{
    (void)state;
    keep_to_the_limit("shm, malloc", "shm", with_plain_memory);
}

static void tcp_keeps_to_the_limit(void **state)
{
    (void)state;
    keep_to_the_limit("tcp, gyre_alloc", "tcp", with_gyre_memory);
}

static void a_leak_is_seen(void **state)
{
    (void)state;
    assert_true(fullest_kib("shm", with_a_leak) > LIMIT_KIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gyre_memory_keeps_to_the_limit),
        cmocka_unit_test(plain_memory_keeps_to_the_limit),
        cmocka_unit_test(tcp_keeps_to_the_limit),
        cmocka_unit_test(a_leak_is_seen),
    };
#ifdef SANITIZED
    puts("skipped: a sanitizer's own memory cannot be told from ours");
    return 77;
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
