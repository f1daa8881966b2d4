/* Options of gyre_init() that are kept for later: a job that begins with one rank looks for its
 * meeting place when it first takes newcomers in. Tested by tests/program/failures/grow_places.c.
 */
#include "transport/job/job.h"
#include "transport/net/crypto.h"

#include <stdlib.h>
#include <string.h>

struct kept_options {
    struct gyre_options options; /* the first member: its address is this struct's */
    struct gyre_store store;
    uint8_t key[GYRE_KEY_BYTES];
    char text[]; /* root, then job */
};

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *copy_text(char *to, const char *text)
{
    return text ? memcpy(to, text, text_bytes(text)) : NULL;
}

struct gyre_options *gyre_job_keep_options(const struct gyre_options *options)
{
    const size_t root = text_bytes(options->root), job = text_bytes(options->job);
    struct kept_options *kept = malloc(sizeof *kept + root + job);
    if (!kept)
        return NULL;
    kept->options = (struct gyre_options){.size = sizeof kept->options,
                                          .rank = -1,
                                          .local_rank = options->local_rank,
                                          .root = copy_text(kept->text, options->root),
                                          .job = copy_text(kept->text + root, options->job)};
    if (options->store) {
        kept->store = *options->store;
        kept->options.store = &kept->store;
    }
    if (options->key) {
        memcpy(kept->key, options->key, sizeof kept->key);
        kept->options.key = kept->key;
    }
    return &kept->options;
}

void gyre_job_forget_options(struct gyre_options *kept)
{
    struct kept_options *whole = (struct kept_options *)kept;
    if (whole)
        gyre_wipe(whole->key, sizeof whole->key);
    free(whole);
}
