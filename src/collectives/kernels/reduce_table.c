/* The choice of kernels: the reference, overwritten by every set of variants that this CPU
 * supports, up to the set that GYRE_KERNELS names. The choice depends on the machine alone and
 * changes no bit of any result.
 *
 * Tested by tests/unit/collectives/kernels/reduce_test.c. */
#include "base/env.h"
#include "base/log.h"
#include "collectives/kernels/reduce_cuda.h"

#include <pthread.h>
#include <string.h>

#define WORDS_MAX 16

static pthread_once_t built = PTHREAD_ONCE_INIT;
static struct gyre_reduce_table host_table[WORDS_MAX]; /* built from sets 0 … i */
static int host_sets;

/* The index of the fastest set that may be used. */
static int read_cap(int *cap, struct gyre_trouble *trouble)
{
    const char *words[WORDS_MAX];
    int count = 0;
    while (count < WORDS_MAX && gyre_reduce_variants[count].name) {
        words[count] = gyre_reduce_variants[count].name;
        count++;
    }
    *cap = count - 1;
    return gyre_env_word("GYRE_KERNELS", words, count, cap, trouble);
}

int gyre_reduce_check(struct gyre_trouble *trouble)
{
    int cap;
    return read_cap(&cap, trouble);
}

/* Builds the table of each set. gyre_init() has refused a GYRE_KERNELS that names no set; a program
 * without gyre_init() gets a warning, and no limit. */
static void build_host_tables(void)
{
    struct gyre_trouble trouble = {0};
    int cap;
    if (read_cap(&cap, &trouble))
        gyre_log(GYRE_LOG_WARN, "%s; using the fastest", trouble.text);
    for (int i = 0; i <= cap; i++) {
        if (i)
            host_table[i] = host_table[i - 1];
        if (gyre_reduce_variants[i].supported())
            gyre_reduce_variants[i].init(&host_table[i]);
    }
    host_sets = cap + 1;
}

const struct gyre_reduce_table *gyre_reduce_table_for(enum gyre_memory_kind kind, uint64_t bytes)
{
    if (kind == GYRE_MEMORY_CUDA)
        return gyre_reduce_cuda_table();
    if (kind != GYRE_MEMORY_HOST)
        return NULL;
    pthread_once(&built, build_host_tables);
    int i = host_sets - 1;
    while (i > 0 && gyre_reduce_variants[i].least_bytes > bytes)
        i--;
    return &host_table[i];
}

const struct gyre_reduce_table *gyre_reduce_table(enum gyre_memory_kind kind)
{
    return gyre_reduce_table_for(kind, UINT64_MAX);
}

/* -- the user's function ----------------------------------------------------------------------- */

#define FOLD_BYTES 8192u /* between two calls of the function */

/* Folds into a buffer and then copies, because destinations may be sources. */
static void fold_user_piece(const struct gyre_fold_task *task, const struct gyre_user_op *user,
                            uint64_t at, uint64_t count)
{
    _Alignas(64) uint8_t sum[FOLD_BYTES];
    uint64_t element = gyre_type_size(user->type), bytes = count * element;
    memcpy(sum, (const uint8_t *)task->source[0] + at * element, bytes);
    for (uint32_t s = 1; s < task->sources; s++)
        user->fold(sum, (const uint8_t *)task->source[s] + at * element, count, user->type,
                   user->context);
    for (uint32_t d = 0; d < task->destinations; d++)
        memcpy((uint8_t *)task->destination[d] + at * element, sum, bytes);
}

void gyre_fold_by_user(const struct gyre_fold_task *task, void *native_queue)
{
    const struct gyre_user_op *user = task->context;
    uint64_t most = FOLD_BYTES / gyre_type_size(user->type);
    (void)native_queue;
    for (uint64_t at = 0; at < task->count; at += most)
        fold_user_piece(task, user, at, task->count - at < most ? task->count - at : most);
}
