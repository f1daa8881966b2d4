/* Safetensors files: named tensors behind a JSON header, the format of model weights.
 *
 *     ┌──────────┬───────────────────────────────────────────────┬──────────────────────┐
 *     │ u64: N   │ N bytes: {"w":{"dtype":"F32","shape":[2,3],   │ the tensors' bytes,  │
 *     │ (little  │           "data_offsets":[0,24]}, …}, padded  │ without holes        │
 *     │  endian) │           with blanks                         │                      │
 *     └──────────┴───────────────────────────────────────────────┴──────────────────────┘
 *
 * A file is read where it lies: the pointers of its tensors lead into the mapping. Numbers are
 * little endian, as they are in memory on every machine that Gyre is built for. What is not exactly
 * right is refused with a text that names file, tensor and value; nothing is guessed. */
#ifndef GYRE_DATA_SAFETENSORS_SAFETENSORS_H
#define GYRE_DATA_SAFETENSORS_SAFETENSORS_H

#include "base/status.h"
#include "data/safetensors/type.h"

#include <stdint.h>

#define GYRE_STORED_HEADER_MAX 100000000 /* bytes of JSON, the format's own limit */
#define GYRE_STORED_SHOWN      84        /* a name in a text, cut to fit */

/* What is read, and what is given to be written. */
struct gyre_stored_tensor {
    const char *name; /* UTF-8 */
    enum gyre_stored_type type;
    uint32_t dims; /* 0: a single value */
    const uint64_t *shape;
    const void
        *data;      /* read: at any alignment, for other writers may pad their headers otherwise */
    uint64_t bytes; /* read: of data; to be written: ignored, for it follows from the shape */
};

struct gyre_stored_text { /* of "__metadata__" */
    const char *key, *value;
};

/* Writes a name from a file, fit to be printed, to `text` of GYRE_STORED_SHOWN bytes; returns
 * it. */
const char *gyre_stored_shown(const char *name, char *text);

/* -- reading ----------------------------------------------------------------------------------- */

struct gyre_safetensors; /* an open file; never changes, so any thread may read it */

/* Maps the file. What the tensors point to is gone after close, which takes NULL. */
int gyre_safetensors_open(struct gyre_safetensors **file, const char *path,
                          struct gyre_trouble *trouble);
/* The same over memory that outlives it; `name` is what texts call it. */
int gyre_safetensors_over(struct gyre_safetensors **file, const char *name, const void *bytes,
                          uint64_t length, struct gyre_trouble *trouble);
void gyre_safetensors_close(struct gyre_safetensors *file);

/* Tensors in the order of their bytes; i < count. find: NULL if there is none of that name. */
uint64_t gyre_safetensors_count(const struct gyre_safetensors *file);
const struct gyre_stored_tensor *gyre_safetensors_at(const struct gyre_safetensors *file,
                                                     uint64_t i);
const struct gyre_stored_tensor *gyre_safetensors_find(const struct gyre_safetensors *file,
                                                       const char *name);
/* "__metadata__" in the order of the keys; i < texts. text: the value, NULL if there is none. */
uint64_t gyre_safetensors_texts(const struct gyre_safetensors *file);
const struct gyre_stored_text *gyre_safetensors_text_at(const struct gyre_safetensors *file,
                                                        uint64_t i);
const char *gyre_safetensors_text(const struct gyre_safetensors *file, const char *key);

/* -- writing ----------------------------------------------------------------------------------- */

/* Replaces `path` as gyre_file_replace() does, with exactly the bytes that the format's own library
 * writes: tensors of the widest types first, then by name; "__metadata__" (texts in the order
 * given) only where there are texts. Refuses a name that is given twice, is "__metadata__" or is
 * not UTF-8, and what no reader would take. */
int gyre_safetensors_write(const char *path, const struct gyre_stored_tensor *tensors,
                           uint64_t count, const struct gyre_stored_text *texts,
                           uint64_t text_count, struct gyre_trouble *trouble);

#endif
