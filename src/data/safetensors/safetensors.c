/* Reads safetensors.
 *
 * The same functions walk the header twice. The first walk checks the form and counts, the second
 * stores, in tables of exactly the right size:
 *
 *     copy of JSON ──▶ count ──▶ allocate ──▶ fill ──▶ sort by offset ──▶ check ──▶ index by name
 *
 * So a header can cause allocations of a small multiple of its own length, which is no more than
 * the file's. */
#include "data/safetensors/inside.h"

#include "base/bytes.h"
#include "base/printable.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- texts ------------------------------------------------------------------------------------- */

static int refuse_tensor(const char *file, const struct gyre_stored_tensor *tensor,
                         struct gyre_trouble *trouble, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int refuse_tensor(const char *file, const struct gyre_stored_tensor *tensor,
                         struct gyre_trouble *trouble, const char *format, ...)
{
    char what[256], text[GYRE_STORED_SHOWN];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return gyre_trouble_set(trouble, GYRE_INVALID, "%s: tensor \"%s\": %s", file,
                            gyre_printable(text, sizeof text, tensor->name), what);
}

/* -- tables ------------------------------------------------------------------------------------ */

static int by_offset(const void *a, const void *b)
{
    const struct gyre_stored_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int tensors_by_name(const void *a, const void *b)
{
    const struct gyre_stored_entry *const *x = a, *const *y = b;
    return strcmp((*x)->tensor.name, (*y)->tensor.name);
}

static int texts_by_key(const void *a, const void *b)
{
    const struct gyre_stored_text *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static int allocate_tensors(struct gyre_safetensors *file, const struct gyre_stored_pass *counted)
{
    file->entry = calloc(counted->count + 1, sizeof *file->entry);
    file->by_name = calloc(counted->count + 1, sizeof *file->by_name);
    file->text = calloc(counted->texts + 1, sizeof *file->text);
    file->shape = calloc(counted->dims + 1, sizeof *file->shape);
    return file->entry && file->by_name && file->text && file->shape ? 0 : -ENOMEM;
}

/* Checks that the bytes of each tensor begin where those of the one before end. */
static int check_places(struct gyre_safetensors *file, const char *name,
                        struct gyre_trouble *trouble)
{
    uint64_t at = 0, bytes;
    for (uint64_t i = 0; i < file->count; i++) {
        const struct gyre_stored_entry *entry = &file->entry[i];
        struct gyre_stored_tensor *tensor = &file->entry[i].tensor;
        if (entry->end < entry->begin)
            return refuse_tensor(name, tensor, trouble,
                                 "its bytes end at %" PRIu64 ", before they begin at %" PRIu64,
                                 entry->end, entry->begin);
        if (entry->begin != at)
            return refuse_tensor(name, tensor, trouble,
                                 "its bytes begin at %" PRIu64 ", which %s: expected %" PRIu64,
                                 entry->begin, entry->begin > at ? "leaves a hole" : "overlaps",
                                 at);
        if (gyre_stored_size(tensor->type, tensor->shape, tensor->dims, NULL, &bytes))
            return refuse_tensor(name, tensor, trouble,
                                 "%" PRIu32
                                 " dimensions of %s are not a whole number of bytes, or more "
                                 "than 64 bits can count",
                                 tensor->dims, gyre_stored_type_name(tensor->type));
        if (bytes != entry->end - entry->begin)
            return refuse_tensor(
                name, tensor, trouble, "%" PRIu64 " bytes where its shape and %s make %" PRIu64,
                entry->end - entry->begin, gyre_stored_type_name(tensor->type), bytes);
        at = entry->end;
        tensor->bytes = bytes;
        tensor->data = file->data + entry->begin;
    }
    if (at != file->data_length)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: %" PRIu64 " bytes behind the header, where its tensors take "
                                "%" PRIu64 ": the file is %s",
                                name, file->data_length, at,
                                at > file->data_length ? "cut short" : "too long");
    return 0;
}

static int check_names(struct gyre_safetensors *file, const char *name,
                       struct gyre_trouble *trouble)
{
    char text[GYRE_STORED_SHOWN];
    for (uint64_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->entry[i];
    qsort(file->by_name, file->count, sizeof *file->by_name, tensors_by_name);
    for (uint64_t i = 1; i < file->count; i++)
        if (tensors_by_name(&file->by_name[i - 1], &file->by_name[i]) == 0)
            return refuse_tensor(name, &file->by_name[i]->tensor, trouble, "stands there twice");
    qsort(file->text, file->texts, sizeof *file->text, texts_by_key);
    for (uint64_t i = 1; i < file->texts; i++)
        if (texts_by_key(&file->text[i - 1], &file->text[i]) == 0)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s: \"__metadata__\": the key \"%s\" stands there twice", name,
                                    gyre_printable(text, sizeof text, file->text[i].key));
    return 0;
}

/* -- opening ----------------------------------------------------------------------------------- */

static int check_length(const char *name, const uint8_t *bytes, uint64_t length, uint64_t *header,
                        struct gyre_trouble *trouble)
{
    if (length < 8)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: %" PRIu64 " bytes are too short for a safetensors file", name,
                                length);
    *header = gyre_get64(bytes);
    if (*header > GYRE_STORED_HEADER_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: a header of %" PRIu64 " bytes, at most %d are allowed: is it "
                                "a safetensors file?",
                                name, *header, GYRE_STORED_HEADER_MAX);
    if (*header > length - 8)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: a header of %" PRIu64 " bytes in a file of %" PRIu64
                                ": the file is cut short",
                                name, *header, length);
    return 0;
}

static int walk_header_twice(struct gyre_safetensors *file, const char *name, const uint8_t *json,
                             uint64_t length, struct gyre_trouble *trouble)
{
    struct gyre_stored_pass count = {.file = file,
                                     .json = gyre_json_over(name, json, length, trouble)};
    struct gyre_stored_pass fill = count;
    fill.fill = true;
    file->strings = malloc(length + 1);
    int status = file->strings ? gyre_stored_pass(&count) : -ENOMEM;
    if (!status)
        status = allocate_tensors(file, &count);
    if (status)
        return gyre_trouble_set(trouble, status, "%s: out of memory for its header", name);
    gyre_stored_pass(&fill);
    file->count = fill.count;
    file->texts = fill.texts;
    return 0;
}

/* Both walks see one private copy: a mapped file can be written to meanwhile. */
static int read_header(struct gyre_safetensors *file, const char *name, const uint8_t *json,
                       uint64_t length, struct gyre_trouble *trouble)
{
    uint8_t *copy = malloc(length + 1);
    if (!copy)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: out of memory for its header", name);
    memcpy(copy, json, length);
    int status = walk_header_twice(file, name, copy, length, trouble);
    free(copy);
    return status;
}

static int read_header_and_tensors(struct gyre_safetensors *file, const char *name,
                                   const uint8_t *bytes, uint64_t length,
                                   struct gyre_trouble *trouble)
{
    uint64_t header = 0;
    int status = check_length(name, bytes, length, &header, trouble);
    if (!status)
        status = read_header(file, name, bytes + 8, header, trouble);
    if (status)
        return status;
    file->data = bytes + 8 + header;
    file->data_length = length - 8 - header;
    qsort(file->entry, file->count, sizeof *file->entry, by_offset);
    status = check_places(file, name, trouble);
    return status ? status : check_names(file, name, trouble);
}

int gyre_safetensors_over(struct gyre_safetensors **file, const char *name, const void *bytes,
                          uint64_t length, struct gyre_trouble *trouble)
{
    *file = calloc(1, sizeof **file);
    if (!*file)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: out of memory", name);
    int status = read_header_and_tensors(*file, name, bytes, length, trouble);
    if (status) {
        gyre_safetensors_close(*file);
        *file = NULL;
    }
    return status;
}

int gyre_safetensors_open(struct gyre_safetensors **file, const char *path,
                          struct gyre_trouble *trouble)
{
    struct gyre_file mapped;
    *file = NULL;
    int status = gyre_file_map(path, &mapped, trouble);
    if (!status)
        status = gyre_safetensors_over(file, path, mapped.data, mapped.length, trouble);
    if (status)
        gyre_file_unmap(&mapped);
    else
        (*file)->mapped = mapped;
    return status;
}

void gyre_safetensors_close(struct gyre_safetensors *file)
{
    if (!file)
        return;
    gyre_file_unmap(&file->mapped);
    free(file->entry);
    free(file->by_name);
    free(file->text);
    free(file->shape);
    free(file->strings);
    free(file);
}

/* -- looking ----------------------------------------------------------------------------------- */

uint64_t gyre_safetensors_count(const struct gyre_safetensors *file)
{
    return file->count;
}

const struct gyre_stored_tensor *gyre_safetensors_at(const struct gyre_safetensors *file,
                                                     uint64_t i)
{
    return &file->entry[i].tensor;
}

const struct gyre_stored_tensor *gyre_safetensors_find(const struct gyre_safetensors *file,
                                                       const char *name)
{
    const struct gyre_stored_entry wanted = {.tensor.name = name}, *key = &wanted;
    const struct gyre_stored_entry **found =
        bsearch(&key, file->by_name, file->count, sizeof *file->by_name, tensors_by_name);
    return found ? &(*found)->tensor : NULL;
}

uint64_t gyre_safetensors_texts(const struct gyre_safetensors *file)
{
    return file->texts;
}

const struct gyre_stored_text *gyre_safetensors_text_at(const struct gyre_safetensors *file,
                                                        uint64_t i)
{
    return &file->text[i];
}

const char *gyre_safetensors_text(const struct gyre_safetensors *file, const char *key)
{
    const struct gyre_stored_text wanted = {.key = key};
    const struct gyre_stored_text *found =
        bsearch(&wanted, file->text, file->texts, sizeof *file->text, texts_by_key);
    return found ? found->value : NULL;
}
