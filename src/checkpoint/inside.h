/* A checkpoint's inside, for the files of this room. A file calls only those below it.
 *
 *   checkpoint.c   the newest generation that opens; a look at all of them
 *   save.c         a new generation; older ones removed
 *   tensor.c       tensors of an open generation, by name, type and shape
 *   generation.c   one generation, opened and checked
 *   manifest.c     manifest.json
 *   folder.c       names in the folder, and what may be removed
 */
#ifndef GYRE_CHECKPOINT_INSIDE_H
#define GYRE_CHECKPOINT_INSIDE_H

#include "checkpoint/checkpoint.h"

#include "data/files/file.h"

#include <stdbool.h>
#include <stddef.h>

#define GYRE_GENERATION_PATH_MAX 4096
#define GYRE_MANIFEST_NAME       "manifest.json"
#define GYRE_MANIFEST_VERSION    1

extern const char *const gyre_generation_file_name[GYRE_GENERATION_PARTS];

int gyre_sha256_text(const void *bytes, size_t length, char text[GYRE_SHA256_TEXT],
                     struct gyre_trouble *trouble);

/* -- names in the folder (folder.c) ------------------------------------------------- */

/* "FOLDER/NAME". -ENAMETOOLONG told. */
int gyre_path_inside(char path[GYRE_GENERATION_PATH_MAX], const char *folder, const char *name,
                     struct gyre_trouble *trouble);

/* "FOLDER/step-00000120/FILE"; without FILE where that is NULL. -ENAMETOOLONG told. */
int gyre_generation_path(char path[GYRE_GENERATION_PATH_MAX], const char *folder, uint64_t step,
                         const char *file, struct gyre_trouble *trouble);
/* A name beside it that nobody has and that the next save removes. */
int gyre_generation_rest_path(char path[GYRE_GENERATION_PATH_MAX], const char *folder,
                              uint64_t step, struct gyre_trouble *trouble);

/* The steps of all generations, newest first, to be freed. None, or no folder, is count 0. */
int gyre_generation_list(const char *folder, uint64_t **steps, uint64_t *count,
                         struct gyre_trouble *trouble);

/* Removes a generation's folder; one that holds anything that saving did not write stays as it is
 * (-ENOTEMPTY). */
int gyre_generation_remove(const char *folder, uint64_t step);
int gyre_generation_remove_rest(const char *path);
void gyre_generation_sweep(const char *folder); /* all rests of saves that did not end */

/* -- the manifest (manifest.c) ------------------------------------------------------ */

struct gyre_manifest {
    uint64_t step, world;
    char model[GYRE_SHA256_TEXT];
    struct gyre_manifest_file {
        uint64_t bytes;
        char sha256[GYRE_SHA256_TEXT];
    } file[GYRE_GENERATION_PARTS];
    const struct gyre_stored_text *text;
    uint64_t texts;
    void *owned; /* what was read: texts and their strings */
};

int gyre_manifest_write(const char *path, const struct gyre_manifest *manifest,
                        struct gyre_trouble *trouble);
/* Deinit after success and failure. */
int gyre_manifest_read(const char *path, struct gyre_manifest *manifest,
                       struct gyre_trouble *trouble);
void gyre_manifest_deinit(struct gyre_manifest *manifest);

/* -- one generation (generation.c) ------------------------------------------------------------- */

/* From its own folder. */
int gyre_generation_open_at(struct gyre_generation **checkpoint, const char *path,
                            struct gyre_trouble *trouble);
/* From the folder of generations. Refused where the manifest says another step. */
int gyre_generation_open(struct gyre_generation **checkpoint, const char *folder, uint64_t step,
                         struct gyre_trouble *trouble);
uint64_t gyre_generation_bytes(const struct gyre_generation *checkpoint);
/* Whether a failure to open says nothing about the generation: out of memory, of descriptors. */
bool gyre_generation_unknown(int status);

#endif
