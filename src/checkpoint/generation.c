/* Reading: a generation is open when every byte of it is known to be what was saved.
 *
 *     step-00000120   manifest ─▶ lengths ─▶ SHA-256 of files ─▶ tables of tensors ─▶ model hash
 *          │ no: told, and
 *          ▼
 *     step-00000100   …
 *
 * What is hashed is the mapping that is read afterwards, so nobody can put another file in between.
 * Tested by tests/unit/checkpoint/checkpoint_test.c. */
#include "checkpoint/inside.h"

#include "data/files/json_out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gyre_generation {
    struct gyre_manifest manifest;
    struct gyre_file mapped[GYRE_GENERATION_PARTS];
    struct gyre_safetensors *file[GYRE_GENERATION_PARTS];
};

/* -- the model's hash -------------------------------------------------------------------------- */

static int items_by_name(const void *a, const void *b)
{
    const struct gyre_stored_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* "name" TYPE [2,3] and a new line, for each tensor in the order of names. */
static void put_shapes(struct gyre_json_out *out, const struct gyre_stored_tensor **tensor,
                       uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        gyre_json_put_string(out, tensor[i]->name);
        gyre_json_put_text(out, " ");
        gyre_json_put_text(out, gyre_stored_type_name(tensor[i]->type));
        gyre_json_put_text(out, " [");
        for (uint32_t k = 0; k < tensor[i]->dims; k++) {
            gyre_json_put_text(out, k ? "," : "");
            gyre_json_put_whole(out, tensor[i]->shape[k]);
        }
        gyre_json_put_text(out, "]\n");
    }
}

/* Sorts the pointers. */
static int hash_shapes(const struct gyre_stored_tensor **tensor, uint64_t count, char *hash,
                       struct gyre_trouble *trouble)
{
    struct gyre_json_out out = {0};
    qsort(tensor, count, sizeof *tensor, items_by_name);
    put_shapes(&out, tensor, count);
    char *text = malloc(out.used + 1);
    if (!text)
        return gyre_trouble_set(trouble, -ENOMEM, "out of memory for a model's hash");
    out = (struct gyre_json_out){.to = text};
    put_shapes(&out, tensor, count);
    int status = gyre_sha256_text(text, out.used, hash, trouble);
    free(text);
    return status;
}

int gyre_generation_hash_model(const struct gyre_stored_list *model, char hash[GYRE_SHA256_TEXT],
                               struct gyre_trouble *trouble)
{
    const struct gyre_stored_tensor **tensor = calloc(model->count + 1, sizeof *tensor);
    if (!tensor)
        return gyre_trouble_set(trouble, -ENOMEM, "out of memory for a model's hash");
    for (uint64_t i = 0; i < model->count; i++)
        tensor[i] = &model->tensor[i];
    int status = hash_shapes(tensor, model->count, hash, trouble);
    free(tensor);
    return status;
}

static int hash_file(const struct gyre_safetensors *file, char *hash, struct gyre_trouble *trouble)
{
    uint64_t count = gyre_safetensors_count(file);
    const struct gyre_stored_tensor **tensor = calloc(count + 1, sizeof *tensor);
    if (!tensor)
        return gyre_trouble_set(trouble, -ENOMEM, "out of memory for a model's hash");
    for (uint64_t i = 0; i < count; i++)
        tensor[i] = gyre_safetensors_at(file, i);
    int status = hash_shapes(tensor, count, hash, trouble);
    free(tensor);
    return status;
}

/* -- one generation ---------------------------------------------------------------------------- */

static int check_file(const char *path, const struct gyre_file *file,
                      const struct gyre_manifest_file *should, struct gyre_trouble *trouble)
{
    char sha256[GYRE_SHA256_TEXT];
    if (file->length != should->bytes)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: %" PRIu64 " bytes, the manifest says %" PRIu64 ": it is %s",
                                path, file->length, should->bytes,
                                file->length < should->bytes ? "cut short" : "too long");
    int status = gyre_sha256_text(file->data, file->length, sha256, trouble);
    if (!status && strcmp(sha256, should->sha256) != 0)
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "%s: is damaged: its SHA-256 is %.16s…, the manifest says %.16s…",
                                  path, sha256, should->sha256);
    return status;
}

static int open_part(struct gyre_generation *checkpoint, const char *generation, int part,
                     struct gyre_trouble *trouble)
{
    char path[GYRE_GENERATION_PATH_MAX];
    struct gyre_file *file = &checkpoint->mapped[part];
    int status = gyre_path_inside(path, generation, gyre_generation_file_name[part], trouble);
    if (!status)
        status = gyre_file_map(path, file, trouble);
    if (!status)
        status = check_file(path, file, &checkpoint->manifest.file[part], trouble);
    if (!status)
        status =
            gyre_safetensors_over(&checkpoint->file[part], path, file->data, file->length, trouble);
    return status;
}

static int open_manifest(struct gyre_generation *checkpoint, const char *generation,
                         struct gyre_trouble *trouble)
{
    char path[GYRE_GENERATION_PATH_MAX];
    int status = gyre_path_inside(path, generation, GYRE_MANIFEST_NAME, trouble);
    return status ? status : gyre_manifest_read(path, &checkpoint->manifest, trouble);
}

static int check_model(const struct gyre_generation *checkpoint, const char *generation,
                       struct gyre_trouble *trouble)
{
    char hash[GYRE_SHA256_TEXT];
    int status = hash_file(checkpoint->file[GYRE_GENERATION_MODEL], hash, trouble);
    if (!status && strcmp(hash, checkpoint->manifest.model) != 0)
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "%s: the tensors of the model make the hash %.16s…, the manifest "
                                  "says %.16s…",
                                  generation, hash, checkpoint->manifest.model);
    return status;
}

int gyre_generation_open_at(struct gyre_generation **checkpoint, const char *path,
                            struct gyre_trouble *trouble)
{
    struct gyre_generation *opened = calloc(1, sizeof *opened);
    *checkpoint = NULL;
    if (!opened)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: out of memory", path);
    int status = open_manifest(opened, path, trouble);
    for (int part = 0; part < GYRE_GENERATION_PARTS && !status; part++)
        status = open_part(opened, path, part, trouble);
    if (!status)
        status = check_model(opened, path, trouble);
    if (status)
        gyre_generation_close(opened);
    else
        *checkpoint = opened;
    return status;
}

int gyre_generation_open(struct gyre_generation **checkpoint, const char *folder, uint64_t step,
                         struct gyre_trouble *trouble)
{
    char path[GYRE_GENERATION_PATH_MAX];
    *checkpoint = NULL;
    int status = gyre_generation_path(path, folder, step, NULL, trouble);
    if (!status)
        status = gyre_generation_open_at(checkpoint, path, trouble);
    if (status || (*checkpoint)->manifest.step == step)
        return status;
    status = gyre_trouble_set(trouble, GYRE_INVALID,
                              "%s/%s: says step %" PRIu64 ", its folder says %" PRIu64, path,
                              GYRE_MANIFEST_NAME, (*checkpoint)->manifest.step, step);
    gyre_generation_close(*checkpoint);
    *checkpoint = NULL;
    return status;
}

void gyre_generation_close(struct gyre_generation *checkpoint)
{
    if (!checkpoint)
        return;
    for (int part = 0; part < GYRE_GENERATION_PARTS; part++) {
        gyre_safetensors_close(checkpoint->file[part]);
        gyre_file_unmap(&checkpoint->mapped[part]);
    }
    gyre_manifest_deinit(&checkpoint->manifest);
    free(checkpoint);
}

uint64_t gyre_generation_bytes(const struct gyre_generation *checkpoint)
{
    return checkpoint->mapped[0].length + checkpoint->mapped[1].length;
}

bool gyre_generation_unknown(int status)
{
    return status == -ENOMEM || status == -EMFILE || status == -ENFILE;
}

/* -- looking ----------------------------------------------------------------------------------- */

uint64_t gyre_generation_step(const struct gyre_generation *checkpoint)
{
    return checkpoint->manifest.step;
}

uint64_t gyre_generation_world(const struct gyre_generation *checkpoint)
{
    return checkpoint->manifest.world;
}

const char *gyre_generation_model_hash(const struct gyre_generation *checkpoint)
{
    return checkpoint->manifest.model;
}

uint64_t gyre_generation_texts(const struct gyre_generation *checkpoint)
{
    return checkpoint->manifest.texts;
}

const struct gyre_stored_text *gyre_generation_text_at(const struct gyre_generation *checkpoint,
                                                       uint64_t i)
{
    return &checkpoint->manifest.text[i];
}

const char *gyre_generation_text(const struct gyre_generation *checkpoint, const char *key)
{
    for (uint64_t i = 0; i < checkpoint->manifest.texts; i++)
        if (strcmp(checkpoint->manifest.text[i].key, key) == 0)
            return checkpoint->manifest.text[i].value;
    return NULL;
}

const struct gyre_safetensors *gyre_generation_file(const struct gyre_generation *checkpoint,
                                                    enum gyre_generation_part part)
{
    return checkpoint->file[part];
}
