/* Which kernels run: the reference, overwritten by every set of variants that this CPU supports, up
 * to the one that GYRE_KERNELS names. The choice depends on the machine alone and changes no bit of
 * any result. */
#include "base/env.h"
#include "base/log.h"
#include "collectives/kernels/reduce.h"

#include <pthread.h>

#define WORDS_MAX 16

static pthread_once_t built = PTHREAD_ONCE_INIT;
static struct gyre_reduce_table host_table;

/* The index of the fastest set that may be used; a cap that is no word of ours is told and counts
 * as none. */
static int fastest_allowed(void)
{
    const char *words[WORDS_MAX];
    int count = 0, cap;
    while (count < WORDS_MAX && gyre_reduce_variants[count].name) {
        words[count] = gyre_reduce_variants[count].name;
        count++;
    }
    struct gyre_trouble trouble = {0};
    cap = count - 1;
    if (gyre_env_word("GYRE_KERNELS", words, count, &cap, &trouble))
        gyre_log(GYRE_LOG_WARN, "%s; using the fastest", trouble.text);
    return cap;
}

static void build(void)
{
    int cap = fastest_allowed();
    for (int i = 0; i <= cap; i++)
        if (gyre_reduce_variants[i].supported())
            gyre_reduce_variants[i].init(&host_table);
}

const struct gyre_reduce_table *gyre_reduce_table(enum gyre_memory_kind kind)
{
    if (kind != GYRE_MEMORY_HOST)
        return NULL;
    pthread_once(&built, build);
    return &host_table;
}
