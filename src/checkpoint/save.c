/* Saving, in the order that survives a crash at any point:
 *
 *     mkdir step-N.part-RANDOM ─▶ model, training, manifest, each written, synced, renamed
 *         ─▶ rename to step-N ─▶ sync DIR ─▶ remove what is too old
 *                 ▲ before this nobody sees it, after it everybody sees all of it
 *
 * The hashes are of what is read back from the files. A step that is there already changes places
 * with the new one in one call; where the file system cannot do that, the old one is moved away
 * first. Tested by tests/unit/checkpoint/crash_test.c. */
#include "checkpoint/inside.h"

#include "base/log.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct saving {
    const char *folder;
    const struct gyre_generation_content *content;
    struct gyre_trouble *trouble;
    char part[GYRE_GENERATION_PATH_MAX]; /* while it is written; empty before and after */
};

static int fail_saving(const struct saving *saving, const char *path, const char *what)
{
    int status = errno ? -errno : -EIO;
    return gyre_trouble_set(saving->trouble, status, "%s: cannot %s: %s", path, what,
                            strerror(-status));
}

/* -- before ------------------------------------------------------------------------------------ */

static int make_folder(const struct saving *saving)
{
    char name[GYRE_GENERATION_PATH_MAX];
    struct stat about;
    size_t length = strlen(saving->folder);
    while (length > 1 && saving->folder[length - 1] == '/') /* its own folder is before the name */
        length--;
    snprintf(name, sizeof name, "%.*s", (int)length, saving->folder);
    if (mkdir(name, 0777) == 0)
        return gyre_file_sync_folder(name, saving->trouble);
    if (errno != EEXIST)
        return fail_saving(saving, saving->folder, "make it");
    errno = ENOTDIR;
    if (stat(saving->folder, &about) || !S_ISDIR(about.st_mode))
        return fail_saving(saving, saving->folder, "save into it");
    return 0;
}

static bool generation_is_whole(const char *folder, uint64_t step, int *status)
{
    struct gyre_generation *checkpoint;
    *status = gyre_generation_open(&checkpoint, folder, step, NULL);
    gyre_generation_close(checkpoint);
    return *status == 0;
}

static int refuse_later(const struct saving *saving)
{
    uint64_t *steps, count, step = saving->content->step;
    int ignored, status = gyre_generation_list(saving->folder, &steps, &count, saving->trouble);
    for (uint64_t i = 0; i < count && steps[i] > step && !status; i++)
        if (generation_is_whole(saving->folder, steps[i], &ignored))
            status = gyre_trouble_set(saving->trouble, GYRE_INVALID,
                                      "%s holds step %" PRIu64 " already, which resuming would "
                                      "take: remove it, or save into another folder",
                                      saving->folder, steps[i]);
    free(steps);
    return status;
}

/* -- the files --------------------------------------------------------------------------------- */

static int write_tensors(const struct saving *saving, enum gyre_generation_part part,
                         struct gyre_manifest *manifest)
{
    static const struct gyre_stored_text as_pytorch = {"format", "pt"};
    const struct gyre_stored_list *list = &saving->content->part[part];
    char path[GYRE_GENERATION_PATH_MAX];
    struct gyre_file file;
    int status =
        gyre_path_inside(path, saving->part, gyre_generation_file_name[part], saving->trouble);
    if (!status)
        status = gyre_safetensors_write(path, list->tensor, list->count, &as_pytorch,
                                        part == GYRE_GENERATION_MODEL, saving->trouble);
    if (status || (status = gyre_file_map(path, &file, saving->trouble)))
        return status;
    manifest->file[part].bytes = file.length;
    status = gyre_sha256_text(file.data, file.length, manifest->file[part].sha256, saving->trouble);
    gyre_file_unmap(&file);
    return status;
}

static int write_files(const struct saving *saving)
{
    const struct gyre_generation_content *content = saving->content;
    struct gyre_manifest manifest = {.step = content->step,
                                     .world = content->world,
                                     .text = content->text,
                                     .texts = content->texts};
    char path[GYRE_GENERATION_PATH_MAX];
    int status = gyre_generation_hash_model(&content->part[GYRE_GENERATION_MODEL], manifest.model,
                                            saving->trouble);
    for (int i = 0; i < GYRE_GENERATION_PARTS && !status; i++)
        status = write_tensors(saving, (enum gyre_generation_part)i, &manifest);
    if (!status)
        status = gyre_path_inside(path, saving->part, GYRE_MANIFEST_NAME, saving->trouble);
    return status ? status : gyre_manifest_write(path, &manifest, saving->trouble);
}

/* -- the name ---------------------------------------------------------------------------------- */

/* What was at `path` is at saving->part afterwards. */
static int exchange_folders(struct saving *saving, const char *path)
{
    char old[GYRE_GENERATION_PATH_MAX];
    if (renameat2(AT_FDCWD, saving->part, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
        return 0;
    int status =
        gyre_generation_rest_path(old, saving->folder, saving->content->step, saving->trouble);
    if (status)
        return status;
    if (rename(path, old))
        return fail_saving(saving, path, "move the old one away");
    if (rename(saving->part, path)) {
        status = fail_saving(saving, path, "rename the new one to it");
        rename(old, path);
        return status;
    }
    strcpy(saving->part, old);
    return 0;
}

static int publish_checkpoint(struct saving *saving)
{
    char path[GYRE_GENERATION_PATH_MAX];
    int status =
        gyre_generation_path(path, saving->folder, saving->content->step, NULL, saving->trouble);
    if (status)
        return status;
    if (rename(saving->part, path) == 0)
        saving->part[0] = '\0';
    else if (errno != ENOTEMPTY && errno != EEXIST)
        return fail_saving(saving, path, "rename the new one to it");
    else if ((status = exchange_folders(saving, path)))
        return status;
    return gyre_file_sync_folder(path, saving->trouble);
}

/* -- after ------------------------------------------------------------------------------------- */

/* The one just saved is whole; of those before it enough are looked at to know what to keep. */
static void prune(const struct saving *saving, uint64_t keep)
{
    uint64_t *steps, count, whole = 1;
    if (gyre_generation_list(saving->folder, &steps, &count, NULL))
        return;
    for (uint64_t i = 0; i < count; i++) {
        int status = 0;
        if (steps[i] >= saving->content->step)
            continue;
        if (whole < keep)
            whole += generation_is_whole(saving->folder, steps[i], &status);
        else if (steps[i] != saving->content->spared)
            status = gyre_generation_remove(saving->folder, steps[i]);
        if (whole >= keep && status && status != -ENOTEMPTY)
            gyre_log(GYRE_LOG_WARN, "%s: cannot remove the checkpoint of step %" PRIu64 ": %s",
                     saving->folder, steps[i], strerror(-status));
    }
    free(steps);
}

static int explain(const struct saving *saving)
{
    const struct gyre_generation_content *content = saving->content;
    struct statvfs about;
    uint64_t bytes, total = 0;
    for (int part = 0; part < GYRE_GENERATION_PARTS; part++)
        for (uint64_t i = 0; i < content->part[part].count; i++) {
            const struct gyre_stored_tensor *tensor = &content->part[part].tensor[i];
            if (!gyre_stored_size(tensor->type, tensor->shape, tensor->dims, NULL, &bytes))
                total += bytes;
        }
    int status = saving->trouble->status;
    if ((status == -ENOSPC || status == -EDQUOT) && !statvfs(saving->folder, &about))
        gyre_trouble_wrap(saving->trouble, "%" PRIu64 " bytes are free",
                          (uint64_t)about.f_bavail * about.f_frsize);
    return gyre_trouble_wrap(saving->trouble,
                             "the checkpoint of step %" PRIu64 ", %" PRIu64
                             " bytes of tensors, is not saved",
                             content->step, total);
}

static int make_part(struct saving *saving)
{
    int status = make_folder(saving);
    if (status)
        return status;
    gyre_generation_sweep(saving->folder);
    status = refuse_later(saving);
    if (!status)
        status = gyre_generation_rest_path(saving->part, saving->folder, saving->content->step,
                                           saving->trouble);
    if (!status && mkdir(saving->part, 0777)) {
        status = fail_saving(saving, saving->part, "make it");
        saving->part[0] = 0;
    }
    return status;
}

static int save_generation(struct saving *saving)
{
    int status = make_part(saving);
    if (!status)
        status = write_files(saving);
    if (!status)
        status = publish_checkpoint(saving);
    if (saving->part[0])
        gyre_generation_remove_rest(saving->part);
    return status;
}

int gyre_generation_prepare(const char *folder, uint64_t step, struct gyre_trouble *trouble)
{
    struct gyre_trouble own = {0};
    struct gyre_generation_content content = {.step = step};
    struct saving saving = {
        .folder = folder, .content = &content, .trouble = trouble ? trouble : &own};
    int status = make_part(&saving);
    if (saving.part[0])
        gyre_generation_remove_rest(saving.part);
    return status;
}

int gyre_generation_save(const char *folder, const struct gyre_generation_content *content,
                         uint64_t keep, struct gyre_trouble *trouble)
{
    struct gyre_trouble own = {0};
    struct saving saving = {
        .folder = folder, .content = content, .trouble = trouble ? trouble : &own};
    if (content->world == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "a checkpoint of 0 ranks: at least 1 saved "
                                "it");
    if (save_generation(&saving))
        return explain(&saving);
    prune(&saving, keep);
    return 0;
}
