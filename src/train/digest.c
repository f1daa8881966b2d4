/* Who saw what: each rank counts its samples and hashes them with their content; together they
 * prove that each was seen once, or tell which were seen again. What was seen before a run was
 * resumed is known from where it stood, and rank 0 counts it. Tested by
 * tests/program/train/train.c. */
#include "train/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void gyre_train_note_samples(struct gyre_train *t, const struct gyre_batch *batch)
{
    struct gyre_train_digest *digest = &t->digest;
    for (uint64_t i = 0; digest->seen && i < batch->samples; i++) {
        uint8_t *seen = &digest->seen[batch->index[i]];
        *seen += *seen < UINT8_MAX / 2;
        digest->hash += gyre_dataset_sample_hash(&t->data, batch->index[i]);
        digest->samples++;
    }
}

/* Samples are given out in one order, whatever the ranks; --tail drop leaves the last of it out. An
 * epoch without steps to its sum has ended and was told: of the next one nothing was seen. */
static uint64_t seen_before(const struct gyre_train *t)
{
    uint64_t uneven = t->data.samples % (uint64_t)t->n, all = t->data.samples;
    if (t->cursor >= all && !t->tally.steps)
        return 0;
    all -= t->options->tail == GYRE_TAIL_DROP ? uneven : 0;
    return t->cursor < all ? t->cursor : all;
}

int gyre_train_note_before(struct gyre_train *t)
{
    enum { AT_ONCE = 256 };
    struct gyre_sampler_options options = GYRE_SAMPLER_OPTIONS_INIT;
    struct gyre_sampler *sampler = NULL;
    uint64_t index[AT_ONCE], left = seen_before(t), count = 0;
    if (!t->digest.seen || t->rank || !left)
        return 0;
    t->digest.before = left;
    options.samples = t->data.samples;
    options.seed = (uint64_t)t->options->seed;
    options.shuffle = !t->options->no_shuffle;
    int status = gyre_sampler_create(&sampler, &options);
    if (!status)
        status = gyre_sampler_begin(sampler, t->epoch, 0);
    for (; !status && left; left -= count) {
        status =
            gyre_sampler_next(sampler, left < AT_ONCE ? left : AT_ONCE, index, AT_ONCE, &count);
        for (uint64_t i = 0; !status && i < count; i++)
            t->digest.seen[index[i]] = 1;
    }
    gyre_sampler_destroy(sampler);
    return status ? gyre_trouble_set(t->trouble, status, "%s", gyre_error(NULL)) : 0;
}

/* The first of those that were not seen, or not only once. */
static void tell_odd(const struct gyre_train *t, const char *how, bool again)
{
    enum { MOST = 12 };
    char text[MOST * 24] = "";
    size_t used = 0;
    int told = 0;
    for (uint64_t i = 0; i < t->data.samples && told <= MOST; i++) {
        if (again ? t->digest.seen[i] < 2 : t->digest.seen[i] != 0)
            continue;
        used += (size_t)(told++ < MOST ? snprintf(text + used, sizeof text - used, " %" PRIu64,
                                                  gyre_dataset_row(&t->data, i))
                                       : snprintf(text + used, sizeof text - used, " …"));
    }
    if (told)
        fprintf(t->terminal, "digest: epoch %" PRIu64 ": %s:%s\n", t->epoch + 1, how, text);
}

static void tell_digests(struct gyre_train *t, const uint64_t *all)
{
    uint64_t once = 0, more = 0, never = 0;
    for (uint64_t i = 0; i < t->data.samples; i++) {
        once += t->digest.seen[i] == 1;
        more += t->digest.seen[i] > 1;
        never += t->digest.seen[i] == 0;
    }
    for (int rank = 0; rank < t->n; rank++)
        fprintf(t->terminal,
                "digest: epoch %" PRIu64 ", rank %d: %" PRIu64 " samples, %016" PRIx64 "\n",
                t->epoch + 1, rank, all[2 * rank], all[2 * rank + 1]);
    if (t->digest.before)
        fprintf(t->terminal,
                "digest: epoch %" PRIu64 ": %" PRIu64 " samples were seen before it was resumed\n",
                t->epoch + 1, t->digest.before);
    fprintf(t->terminal,
            "digest: epoch %" PRIu64 ": %" PRIu64 " of %" PRIu64 " samples were seen once, %" PRIu64
            " again, %" PRIu64 " never\n",
            t->epoch + 1, once, t->data.samples, more, never);
    tell_odd(t, "seen again", true);
    tell_odd(t, "never seen", false);
}

int gyre_train_tell_digest(struct gyre_train *t)
{
    struct gyre_train_digest *digest = &t->digest;
    uint64_t mine[2] = {digest->samples, digest->hash};
    if (!digest->seen)
        return 0;
    uint64_t *all = calloc((size_t)t->n, sizeof mine);
    int status = gyre_train_agree(t, all ? 0 : -ENOMEM);
    if (!status)
        status = gyre_all_gather(t->comm, mine, all, 2, GYRE_U64);
    if (!status)
        status = gyre_all_reduce(t->comm, digest->seen, digest->seen, t->data.samples, GYRE_U8,
                                 GYRE_SUM);
    if (!status && t->terminal)
        tell_digests(t, all);
    free(all);
    memset(digest->seen, 0, t->data.samples);
    digest->samples = digest->hash = digest->before = 0;
    return gyre_train_explain(t, status);
}
