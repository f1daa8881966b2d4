/* Which set runs: the fastest that this CPU has, capped by GYRE_KERNELS, whose words are those of
 * the reductions (collectives/kernels/reduce.h). The choice changes no bit of any result. Tested by
 * tests/kernel/ops.c. */
#include "base/env.h"
#include "base/log.h"
#include "model/kernels/ops_sets.h"

#include <pthread.h>

static pthread_once_t chosen = PTHREAD_ONCE_INIT;
static const struct gyre_ops *best;
static int allowed;

static void choose_ops(void)
{
    static const char *const words[] = {"scalar",     "sse2", "avx2", "avx512",
                                        "avx512bf16", "neon", "sve"};
    static const int rank[] = {0, 0, 1, 2, 2, 0, 0, 2};
    const int count = sizeof words / sizeof *words;
    struct gyre_trouble trouble = {0};
    int word = count;
    if (gyre_env_word("GYRE_KERNELS", words, count, &word, &trouble))
        gyre_log(GYRE_LOG_WARN, "%s; using the fastest", trouble.text);
    allowed = rank[word];
    for (int i = 0; i <= allowed && gyre_ops_variants[i].ops; i++)
        if (gyre_ops_variants[i].supported())
            best = gyre_ops_variants[i].ops;
    best = gyre_ops_tuned(best);
}

int gyre_kernels_allowed(void)
{
    pthread_once(&chosen, choose_ops);
    return allowed;
}

const struct gyre_ops *gyre_ops(void)
{
    pthread_once(&chosen, choose_ops);
    return best;
}
