/* Which generation is read: the newest that opens. Those before it in the list are told, whatever
 * was wrong with them; only where the machine itself ran out (of memory, of descriptors) is nothing
 * older taken, for then nobody knows whether the newest is whole. */
#include "checkpoint/inside.h"

#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int list_generations(const char *folder, uint64_t **steps, uint64_t *count,
                            struct gyre_checkpoint_report *report, struct gyre_trouble *trouble)
{
    *report = (struct gyre_checkpoint_report){0};
    int status = gyre_generation_list(folder, steps, count, trouble);
    if (status)
        return status;
    if (!*count)
        return gyre_trouble_set(trouble, -ENOENT,
                                "%s: no checkpoint is there: no folder step-… is in it", folder);
    report->generation = calloc(*count, sizeof *report->generation);
    if (report->generation)
        return 0;
    free(*steps);
    return gyre_trouble_set(trouble, -ENOMEM, "%s: out of memory", folder);
}

void gyre_checkpoint_report_free(struct gyre_checkpoint_report *report)
{
    free(report->generation);
    *report = (struct gyre_checkpoint_report){0};
}

/* The checkpoint stays NULL where the generation is not whole. */
static int try_one(const char *folder, uint64_t step, struct gyre_checkpoint **checkpoint,
                   struct gyre_checkpoint_report *report, struct gyre_trouble *trouble)
{
    struct gyre_checkpoint_generation *generation = &report->generation[report->count];
    *generation = (struct gyre_checkpoint_generation){.step = step};
    int status = gyre_generation_open(checkpoint, folder, step, &generation->trouble);
    if (gyre_generation_unknown(status))
        return gyre_trouble_set(trouble, status, "%s", generation->trouble.text);
    if (*checkpoint) {
        generation->world = gyre_checkpoint_world(*checkpoint);
        generation->bytes = gyre_generation_bytes(*checkpoint);
    }
    report->count++;
    return 0;
}

int gyre_checkpoint_look(const char *folder, struct gyre_checkpoint_report *report,
                         struct gyre_trouble *trouble)
{
    uint64_t *steps, count;
    struct gyre_checkpoint *checkpoint;
    int status = list_generations(folder, &steps, &count, report, trouble);
    if (status)
        return status;
    for (uint64_t i = 0; i < count && !status; i++) {
        status = try_one(folder, steps[i], &checkpoint, report, trouble);
        gyre_checkpoint_close(checkpoint);
    }
    free(steps);
    if (status)
        gyre_checkpoint_report_free(report);
    return status;
}

/* -- opening ----------------------------------------------------------------------------------- */

static int refuse_all(const char *folder, const struct gyre_checkpoint_report *report,
                      struct gyre_trouble *trouble)
{
    char text[GYRE_TROUBLE_MAX];
    size_t used = 0;
    for (uint64_t i = 0; i < report->count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.400s", i ? "; " : "",
                                 report->generation[i].trouble.text);
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "%s: none of its %" PRIu64 " checkpoints can be used: %s", folder,
                            report->count, text);
}

static void tell_skipped(const struct gyre_checkpoint_report *skipped)
{
    for (uint64_t i = 0; i < skipped->count; i++)
        gyre_log(GYRE_LOG_WARN, "passed over the checkpoint of step %" PRIu64 ": %s",
                 skipped->generation[i].step, skipped->generation[i].trouble.text);
}

int gyre_checkpoint_open(struct gyre_checkpoint **checkpoint, const char *folder,
                         struct gyre_checkpoint_report *skipped, struct gyre_trouble *trouble)
{
    struct gyre_checkpoint_report own;
    uint64_t *steps, count;
    *checkpoint = NULL;
    struct gyre_checkpoint_report *report = skipped ? skipped : &own;
    int status = list_generations(folder, &steps, &count, report, trouble);
    if (status)
        return status;
    for (uint64_t i = 0; i < count && !*checkpoint && !status; i++)
        status = try_one(folder, steps[i], checkpoint, report, trouble);
    free(steps);
    if (*checkpoint)
        report->count--; /* the one taken */
    else if (!status)
        status = refuse_all(folder, report, trouble);
    if (!skipped) {
        tell_skipped(report);
        gyre_checkpoint_report_free(report);
    }
    return status;
}
