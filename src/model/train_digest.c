/* Who saw what: each rank counts its samples and hashes them with their content; together they prove
 * that each was seen once, or tell which were seen again. */
#include "model/train_parts.h"

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

static void tell(struct gyre_train *t, const uint64_t *all)
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
                t->epoch, rank, all[2 * rank], all[2 * rank + 1]);
    fprintf(t->terminal,
            "digest: epoch %" PRIu64 ": %" PRIu64 " of %" PRIu64 " samples were seen once, %" PRIu64
            " again, %" PRIu64 " never\n",
            t->epoch, once, t->data.samples, more, never);
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
        tell(t, all);
    free(all);
    memset(digest->seen, 0, t->data.samples);
    digest->samples = digest->hash = 0;
    return status;
}
