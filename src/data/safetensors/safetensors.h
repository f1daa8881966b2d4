/* Safetensors files: named tensors behind a JSON header, the format of model weights.
 *
 *     ┌──────────┬───────────────────────────────────────────────┬──────────────────────┐
 *     │ u64: N   │ N bytes: {"w":{"dtype":"F32","shape":[2,3],   │ the tensors' bytes,  │
 *     │ (little  │           "data_offsets":[0,24]}, …}, padded  │ without holes        │
 *     │  endian) │           with blanks                         │                      │
 *     └──────────┴───────────────────────────────────────────────┴──────────────────────┘
 *
 * A file is read in place: the pointers of its tensors lead into the mapping. Numbers are little
 * endian, as in memory on every machine for which Gyre is built. A file that is not exactly right
 * is refused with a text that names file, tensor and value; nothing is guessed. */
#ifndef GYRE_DATA_SAFETENSORS_SAFETENSORS_H
#define GYRE_DATA_SAFETENSORS_SAFETENSORS_H

#include "base/status.h"
#include "data/safetensors/type.h"

#include <stdint.h>

#define GYRE_STORED_HEADER_MAX 100000000 /* bytes of JSON, the format's own limit */
#define GYRE_STORED_SHOWN      84        /* a name made printable, cut to fit */

/* A tensor, read or to be written. */
struct gyre_stored_tensor {
    const char *name; /* UTF-8 */
    enum gyre_stored_type type;
    uint32_t dims; /* 0: a single value */
    const uint64_t *shape;
    const void
        /* Read: at any alignment, because other writers may pad their headers otherwise. */
        *data;
    uint64_t bytes; /* read: of data; to be written: ignored, the shape says it */
};

struct gyre_stored_text { /* of "__metadata__" */
    const char *key, *value;
};

/* -- reading ----------------------------------------------------------------------------------- */

struct gyre_safetensors; /* an open file; never changes, so any thread may read it */

/* Maps and checks a file. The tensors' data are gone after close, which takes NULL. */
int gyre_safetensors_open(struct gyre_safetensors **file, const char *path,
                          struct gyre_trouble *trouble);
/* Opens a file in memory, which must outlive it. Texts of trouble call it `name`. */
int gyre_safetensors_over(struct gyre_safetensors **file, const char *name, const void *bytes,
                          uint64_t length, struct gyre_trouble *trouble);
void gyre_safetensors_close(struct gyre_safetensors *file);

/* The number of tensors; tensor i < count, in the order of their bytes; the tensor of a name, NULL:
 * there is none. */
uint64_t gyre_safetensors_count(const struct gyre_safetensors *file);
const struct gyre_stored_tensor *gyre_safetensors_at(const struct gyre_safetensors *file,
                                                     uint64_t i);
const struct gyre_stored_tensor *gyre_safetensors_find(const struct gyre_safetensors *file,
                                                       const char *name);
/* The number of entries of "__metadata__"; entry i < texts, in the order of the keys; the value of
 * a key, NULL: there is none. */
uint64_t gyre_safetensors_texts(const struct gyre_safetensors *file);
const struct gyre_stored_text *gyre_safetensors_text_at(const struct gyre_safetensors *file,
                                                        uint64_t i);
const char *gyre_safetensors_text(const struct gyre_safetensors *file, const char *key);

/* -- writing ----------------------------------------------------------------------------------- */

/* Replaces `path` as gyre_file_replace() does, with exactly the bytes that the format's own library
 * writes: tensors of the widest types first, then by name; "__metadata__" (texts in the given
 * order) only where there are texts. Refuses a name that is given twice, is "__metadata__" or is
 * not UTF-8, and a file that no reader would accept. */
int gyre_safetensors_write(const char *path, const struct gyre_stored_tensor *tensors,
                           uint64_t count, const struct gyre_stored_text *texts,
                           uint64_t text_count, struct gyre_trouble *trouble);

#endif
