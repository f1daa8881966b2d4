/* The header of a safetensors file.
 *
 *     {"__metadata__": {KEY: VALUE, …}, NAME: {"dtype": …, "shape": […], "data_offsets": […]}, …}
 *
 * The functions below follow this shape, one level each, and are called twice: to count, then to
 * fill. Decoded strings lie one after the other in one block as long as the header, because no
 * string is longer decoded than in the JSON. A string that need not stay is decoded behind the last
 * one. Tested by tests/unit/data/safetensors/safetensors_test.c. */
#include "data/safetensors/inside.h"

#include "base/printable.h"

#include <stdio.h>
#include <string.h>

/* Sets the beginning of every text of trouble, until leave(). */
static void enter(struct gyre_stored_pass *pass, const char *what, const char *name)
{
    char text[GYRE_STORED_SHOWN];
    snprintf(pass->json.inside, sizeof pass->json.inside, "%s \"%s\": ", what,
             gyre_printable(text, sizeof text, name));
}

static void leave(struct gyre_stored_pass *pass)
{
    pass->json.inside[0] = '\0';
}

/* The place to which the next string is decoded. */
static char *here(const struct gyre_stored_pass *pass)
{
    return pass->file->strings + pass->used;
}

/* Keeps the string that was decoded to here(). */
static const char *keep_name(struct gyre_stored_pass *pass)
{
    const char *kept = here(pass);
    pass->used += strlen(kept) + 1;
    return kept;
}

/* -- one tensor -------------------------------------------------------------------------------- */

static int read_dtype(struct gyre_stored_pass *pass, struct gyre_stored_entry *entry)
{
    char text[GYRE_STORED_SHOWN];
    int status = gyre_json_string(&pass->json, here(pass));
    if (status)
        return status;
    entry->tensor.type = gyre_stored_type_named(here(pass));
    if (entry->tensor.type == GYRE_STORED_TYPES)
        return gyre_json_refuse(&pass->json, "the dtype \"%s\" is unknown",
                                gyre_printable(text, sizeof text, here(pass)));
    return 0;
}

static int read_shape(struct gyre_stored_pass *pass, struct gyre_stored_entry *entry)
{
    uint64_t extent;
    bool more;
    int status = gyre_json_open(&pass->json, '[');
    entry->tensor.shape = pass->fill ? pass->file->shape + pass->dims : NULL;
    while (!status && !(status = gyre_json_more(&pass->json, ']', &more)) && more) {
        status = gyre_json_whole(&pass->json, &extent);
        if (!status && pass->fill)
            pass->file->shape[pass->dims] = extent;
        pass->dims += !status;
        entry->tensor.dims += !status;
    }
    return status;
}

static int read_offsets(struct gyre_stored_pass *pass, struct gyre_stored_entry *entry)
{
    uint64_t offset[2] = {0};
    int count = 0;
    bool more;
    int status = gyre_json_open(&pass->json, '[');
    while (!status && !(status = gyre_json_more(&pass->json, ']', &more)) && more) {
        if (count == 2)
            return gyre_json_refuse(&pass->json, "\"data_offsets\" are more than begin and end");
        status = gyre_json_whole(&pass->json, &offset[count++]);
    }
    if (!status && count < 2)
        return gyre_json_refuse(&pass->json, "\"data_offsets\" are %d, expected begin and end",
                                count);
    entry->begin = offset[0];
    entry->end = offset[1];
    return status;
}

static const struct {
    const char *name;
    int (*read)(struct gyre_stored_pass *pass, struct gyre_stored_entry *entry);
} fields[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};

enum { FIELDS = sizeof fields / sizeof *fields };

static int read_tensor_field(struct gyre_stored_pass *pass, struct gyre_stored_entry *entry,
                             unsigned *seen)
{
    int status = gyre_json_key(&pass->json, here(pass)), i = 0;
    if (status)
        return status;
    while (i < FIELDS && strcmp(here(pass), fields[i].name) != 0)
        i++;
    if (i == FIELDS)
        return gyre_json_skip(&pass->json); /* as the format's own library does */
    if (*seen & 1u << i)
        return gyre_json_refuse(&pass->json, "\"%s\" stands there twice", fields[i].name);
    *seen |= 1u << i;
    return fields[i].read(pass, entry);
}

static int read_tensor(struct gyre_stored_pass *pass, const char *name)
{
    struct gyre_stored_entry entry = {.tensor.name = name};
    unsigned seen = 0;
    bool more;
    enter(pass, "tensor", name);
    int status = gyre_json_open(&pass->json, '{');
    while (!status && !(status = gyre_json_more(&pass->json, '}', &more)) && more)
        status = read_tensor_field(pass, &entry, &seen);
    for (int i = 0; i < FIELDS && !status; i++)
        if (!(seen & 1u << i))
            status = gyre_json_refuse(&pass->json, "\"%s\" is missing", fields[i].name);
    if (!status && pass->fill)
        pass->file->entry[pass->count] = entry;
    pass->count += !status;
    leave(pass);
    return status;
}

/* -- the whole --------------------------------------------------------------------------------- */

static int read_text(struct gyre_stored_pass *pass)
{
    struct gyre_stored_text text;
    int status = gyre_json_key(&pass->json, here(pass));
    if (status)
        return status;
    text.key = keep_name(pass);
    status = gyre_json_string(&pass->json, here(pass));
    if (status)
        return status;
    text.value = keep_name(pass);
    if (pass->fill)
        pass->file->text[pass->texts] = text;
    pass->texts++;
    return 0;
}

static int read_texts(struct gyre_stored_pass *pass)
{
    bool more;
    if (pass->has_texts)
        return gyre_json_refuse(&pass->json, "\"__metadata__\" stands there twice");
    pass->has_texts = true;
    enter(pass, "texts", "__metadata__");
    int status = gyre_json_open(&pass->json, '{');
    while (!status && !(status = gyre_json_more(&pass->json, '}', &more)) && more)
        status = read_text(pass);
    leave(pass);
    return status;
}

static int read_member(struct gyre_stored_pass *pass)
{
    int status = gyre_json_key(&pass->json, here(pass));
    if (status)
        return status;
    if (strcmp(here(pass), "__metadata__") == 0)
        return read_texts(pass);
    return read_tensor(pass, keep_name(pass));
}

int gyre_stored_pass(struct gyre_stored_pass *pass)
{
    bool more;
    int status = gyre_json_open(&pass->json, '{');
    while (!status && !(status = gyre_json_more(&pass->json, '}', &more)) && more)
        status = read_member(pass);
    return status ? status : gyre_json_end(&pass->json);
}
