/* Which generation is read: the newest that opens. Those before it in the list are told, whatever
 * was wrong with them; only where the machine itself ran out (of memory, of descriptors) is nothing
 * older taken, for then nobody knows whether the newest is whole. Who wants a model to use gets the
 * one that the newest calls the best. */
#include "checkpoint/inside.h"

#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int list_generations(const char *folder, uint64_t **steps, uint64_t *count,
                            struct gyre_generation_report *report, struct gyre_trouble *trouble)
{
    *report = (struct gyre_generation_report){0};
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

void gyre_generation_report_free(struct gyre_generation_report *report)
{
    free(report->generation);
    *report = (struct gyre_generation_report){0};
}

/* The checkpoint stays NULL where the generation is not whole. */
static int try_one(const char *folder, uint64_t step, struct gyre_generation **checkpoint,
                   struct gyre_generation_report *report, struct gyre_trouble *trouble)
{
    struct gyre_generation_found *generation = &report->generation[report->count];
    *generation = (struct gyre_generation_found){.step = step};
    int status = gyre_generation_open(checkpoint, folder, step, &generation->trouble);
    if (gyre_generation_unknown(status))
        return gyre_trouble_set(trouble, status, "%s", generation->trouble.text);
    if (*checkpoint) {
        generation->world = gyre_generation_world(*checkpoint);
        generation->bytes = gyre_generation_bytes(*checkpoint);
    }
    report->count++;
    return 0;
}

int gyre_generation_look(const char *folder, struct gyre_generation_report *report,
                         struct gyre_trouble *trouble)
{
    uint64_t *steps, count;
    struct gyre_generation *checkpoint;
    int status = list_generations(folder, &steps, &count, report, trouble);
    if (status)
        return status;
    for (uint64_t i = 0; i < count && !status; i++) {
        status = try_one(folder, steps[i], &checkpoint, report, trouble);
        gyre_generation_close(checkpoint);
    }
    free(steps);
    if (status)
        gyre_generation_report_free(report);
    return status;
}

/* -- opening ----------------------------------------------------------------------------------- */

static int refuse_all(const char *folder, const struct gyre_generation_report *report,
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

static void tell_skipped(const struct gyre_generation_report *skipped)
{
    for (uint64_t i = 0; i < skipped->count; i++)
        gyre_log(GYRE_LOG_WARN, "passed over the checkpoint of step %" PRIu64 ": %s",
                 skipped->generation[i].step, skipped->generation[i].trouble.text);
}

int gyre_generation_newest(struct gyre_generation **checkpoint, const char *folder,
                           struct gyre_generation_report *skipped, struct gyre_trouble *trouble)
{
    struct gyre_generation_report own;
    uint64_t *steps, count;
    *checkpoint = NULL;
    struct gyre_generation_report *report = skipped ? skipped : &own;
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
        gyre_generation_report_free(report);
    }
    return status;
}

/* -- by any name ------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool has_manifest(const char *folder)
{
    char path[GYRE_GENERATION_PATH_MAX];
    return !gyre_path_inside(path, folder, GYRE_MANIFEST_NAME, NULL) && access(path, F_OK) == 0;
}

/* The folder of a file, where that is a generation's model. */
static bool folder_of_model(const char *path, char folder[GYRE_GENERATION_PATH_MAX])
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int length = slash ? (int)(slash - path) : 1;
    if (strcmp(name, gyre_generation_file_name[GYRE_GENERATION_MODEL]) != 0)
        return false;
    snprintf(folder, GYRE_GENERATION_PATH_MAX, "%.*s", length, slash ? path : ".");
    return has_manifest(folder);
}

/* Takes the one that the newest calls the best in its place, if that is whole. */
static int change_to_best(struct gyre_generation **newest, const char *folder,
                          struct gyre_trouble *trouble)
{
    const char *text = gyre_generation_text(*newest, GYRE_GENERATION_BEST);
    uint64_t step = text ? strtoull(text, NULL, 10) : 0;
    struct gyre_trouble why = {0};
    struct gyre_generation *best;
    if (!step || step == gyre_generation_step(*newest))
        return 0;
    int status = gyre_generation_open(&best, folder, step, &why);
    if (status && !gyre_generation_unknown(status)) {
        gyre_log(GYRE_LOG_WARN,
                 "passed over the best checkpoint, of step %" PRIu64 ", for the newest: %s", step,
                 why.text);
        return 0;
    }
    gyre_generation_close(*newest);
    *newest = best;
    return status ? gyre_trouble_set(trouble, status, "%s", why.text) : 0;
}

static int open_to_use(struct gyre_generation **checkpoint, const char *folder,
                       struct gyre_trouble *trouble)
{
    int status = gyre_generation_newest(checkpoint, folder, NULL, trouble);
    return status ? status : change_to_best(checkpoint, folder, trouble);
}

int gyre_generation_named(struct gyre_generation **checkpoint, const char *path,
                          struct gyre_trouble *trouble)
{
    char folder[GYRE_GENERATION_PATH_MAX];
    *checkpoint = NULL;
    if (is_folder(path))
        return has_manifest(path) ? gyre_generation_open_at(checkpoint, path, trouble)
                                  : open_to_use(checkpoint, path, trouble);
    return folder_of_model(path, folder) ? gyre_generation_open_at(checkpoint, folder, trouble) : 0;
}
