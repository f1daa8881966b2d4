/* Checkpoints: a folder of generations, each whole or not there.
 *
 *     DIR/step-00000120/model.safetensors      the model's state_dict, as PyTorch loads it
 *                       training.safetensors   all else that training goes on from
 *                       manifest.json          written last: lengths, SHA-256s, step, ranks, texts
 *     DIR/step-00000100/…                      the one before it
 *
 * What is saved is given as lists of tensors, and read by the same lists: name, type and shape must
 * agree. One process at a time may save into a folder; any number may read, each for itself, also
 * while one saves. */
#ifndef GYRE_CHECKPOINT_CHECKPOINT_H
#define GYRE_CHECKPOINT_CHECKPOINT_H

#include "data/safetensors/safetensors.h"

#include <stdint.h>

#define GYRE_GENERATION_KEEP 2
#define GYRE_GENERATION_BEST "best" /* a text: the step of the generation to be used */
#define GYRE_SHA256_TEXT     65     /* 64 hexadecimal digits and NUL */

enum gyre_generation_part {
    GYRE_GENERATION_MODEL,
    GYRE_GENERATION_TRAINING,
    GYRE_GENERATION_PARTS
};

struct gyre_stored_list {
    const struct gyre_stored_tensor *tensor;
    uint64_t count;
};

struct gyre_generation_content {
    uint64_t step, world; /* steps done; ranks that did them, at least 1 */
    struct gyre_stored_list part[GYRE_GENERATION_PARTS];
    const struct gyre_stored_text *text; /* free words; each key once */
    uint64_t texts;
    uint64_t spared; /* the step of a generation that stays, however old it is; 0: none */
};

/* The one number at `value` as a tensor of shape [], to stand in a list. */
struct gyre_stored_tensor gyre_generation_whole(const char *name, const int64_t *value);
struct gyre_stored_tensor gyre_generation_real(const char *name, const double *value);

/* The SHA-256 of all names, types and shapes, in whatever order they are given. */
int gyre_generation_hash_model(const struct gyre_stored_list *model, char hash[GYRE_SHA256_TEXT],
                               struct gyre_trouble *trouble);

/* -- saving ------------------------------------------------------------------------------------ */

/* Could a later step than this be saved? Makes DIR if it is missing, and a folder in it, which it
 * removes. To be asked before hours of work and not after. */
int gyre_generation_prepare(const char *folder, uint64_t step, struct gyre_trouble *trouble);

/* Makes a generation, and DIR itself if it is missing (not the folders above). Returns once it is
 * on the disk; then removes what is older than the newest `keep` (at least 1) whole generations
 * and not spared, and only tells the log if that fails. After a failure, or a crash at any point,
 * the generations that were there still are; what a crash left half is removed by the next save. A
 * generation of the same step is replaced. Refused where DIR holds a whole one of a later step, for
 * resuming would take that one. */
int gyre_generation_save(const char *folder, const struct gyre_generation_content *content,
                         uint64_t keep, struct gyre_trouble *trouble);

/* -- which are there --------------------------------------------------------------------------- */

struct gyre_generation_found {
    uint64_t step;
    uint64_t world, bytes;       /* where it is whole; bytes of both files of tensors */
    struct gyre_trouble trouble; /* status 0: it is whole */
};

struct gyre_generation_report { /* the newest first */
    struct gyre_generation_found *generation;
    uint64_t count;
};

/* Checks every generation, which reads all their bytes. A folder without any is -ENOENT. */
int gyre_generation_look(const char *folder, struct gyre_generation_report *report,
                         struct gyre_trouble *trouble);
void gyre_generation_report_free(struct gyre_generation_report *report);

/* -- reading ----------------------------------------------------------------------------------- */

struct gyre_generation; /* open; never changes, so any thread may read it */

/* The newest generation whose manifest and hashes hold. Newer ones that are damaged are told with
 * file and reason: in `skipped` (to be freed, also after a failure), or where that is NULL in the
 * log. -ENOENT where there is no generation; where none can be used, GYRE_INVALID and why each. */
int gyre_generation_newest(struct gyre_generation **checkpoint, const char *folder,
                           struct gyre_generation_report *skipped, struct gyre_trouble *trouble);

/* Opens a generation to use its model, by any of its names: `path` is a folder of generations, a
 * generation, or the file of a generation's model. Of a folder the best one is opened, where the
 * newest whole one names it, else the newest whole one itself; a warning in the log tells of a best
 * one that is damaged or gone. Of any other file, or none, *checkpoint is NULL and the status 0. */
int gyre_generation_named(struct gyre_generation **checkpoint, const char *path,
                          struct gyre_trouble *trouble);
void gyre_generation_close(struct gyre_generation *checkpoint); /* takes NULL */

uint64_t gyre_generation_step(const struct gyre_generation *checkpoint);
uint64_t gyre_generation_world(const struct gyre_generation *checkpoint);
const char *gyre_generation_model_hash(const struct gyre_generation *checkpoint);
const char *gyre_generation_text(const struct gyre_generation *checkpoint, const char *key);
uint64_t gyre_generation_texts(const struct gyre_generation *checkpoint); /* in the order saved */
const struct gyre_stored_text *gyre_generation_text_at(const struct gyre_generation *checkpoint,
                                                       uint64_t i);
const struct gyre_safetensors *gyre_generation_file(const struct gyre_generation *checkpoint,
                                                    enum gyre_generation_part part);

/* Refused with the first difference where the checkpoint's model has not exactly these tensors. */
int gyre_generation_expect_model(const struct gyre_generation *checkpoint,
                                 const struct gyre_stored_list *model,
                                 struct gyre_trouble *trouble);

/* *data: the bytes of the tensor that has name, type and shape of `want`, until close. Refused with
 * both where it has others. */
int gyre_generation_find(const struct gyre_generation *checkpoint, enum gyre_generation_part part,
                         const struct gyre_stored_tensor *want, const void **data,
                         struct gyre_trouble *trouble);
int gyre_generation_get_whole(const struct gyre_generation *checkpoint, const char *name,
                              int64_t *value, struct gyre_trouble *trouble); /* of training */
int gyre_generation_get_real(const struct gyre_generation *checkpoint, const char *name,
                             double *value, struct gyre_trouble *trouble);

#endif
