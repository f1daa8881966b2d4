/* The inside of a safetensors file, for the files of this room.
 *
 *   safetensors.c   opens and checks a file, and looks tensors up
 *   write.c         writes a file
 *   header.c        walks a header, to count and to fill
 *   type.c          the types of elements */
#ifndef GYRE_DATA_SAFETENSORS_INSIDE_H
#define GYRE_DATA_SAFETENSORS_INSIDE_H

#include "data/safetensors/safetensors.h"

#include "data/files/file.h"
#include "data/files/json.h"

#include <stdbool.h>

struct gyre_stored_entry {
    struct gyre_stored_tensor tensor;
    uint64_t begin, end; /* as in the header */
};

struct gyre_safetensors {
    struct gyre_file mapped; /* empty over memory of the caller */
    const uint8_t *data;     /* behind the header */
    uint64_t data_length;
    struct gyre_stored_entry *entry; /* in the order of their bytes */
    const struct gyre_stored_entry **by_name;
    struct gyre_stored_text *text;
    uint64_t *shape; /* of all tensors, one behind the other */
    char *strings;
    uint64_t count, texts;
};

/* One walk through the header. Without `fill` the walk checks the form and counts; with `fill` it
 * also stores everything in the file's tables. Both need room for strings. */
struct gyre_stored_pass {
    struct gyre_json json;
    struct gyre_safetensors *file;
    bool fill, has_texts;
    uint64_t count, texts, dims, used;
};

int gyre_stored_pass(struct gyre_stored_pass *pass);

#endif
