/* What the tests of gyre train share: the tool run as its users run it, in a folder of its own, and
 * what it wrote, read. Texts that are returned are good for the next three calls. */
#ifndef GYRE_TESTS_RIG_TRAIN_RIG_H
#define GYRE_TESTS_RIG_TRAIN_RIG_H

#include "rig/launch_rig.h"

#include "data/safetensors/safetensors.h"

#define STEPS_MOST  4000
#define EPOCHS_MOST 200

extern struct rig rig;

/* -- files ------------------------------------------------------------------------------------- */

const char *golden(const char *name); /* a file of tests/data/golden */
const char *in_folder(const char *name);
char *read_text(const char *path); /* to be freed */
void write_lines(const char *path, const char *lines);
/* IDX files of images of 28 x 28 that a ConvNet learns to tell apart. */
void write_digits(const char *images, const char *labels, unsigned count);
void compare_files(const char *a, const char *b); /* must be equal */
void clean(void);                                 /* empties the folder */

/* -- what a run left --------------------------------------------------------------------------- */

double read_number(const char *text, const char *name); /* of "name": in JSON */

/* What --metrics wrote. */
struct metrics {
    int steps, epochs;
    double step[STEPS_MOST], epoch[EPOCHS_MOST], tested[EPOCHS_MOST];
};

void read_metrics(const char *path, struct metrics *m);

const char *saved_model(const char *folder); /* of the newest checkpoint */
struct gyre_safetensors *open_tensors(const char *path);

/* -- running ----------------------------------------------------------------------------------- */

void expect_success(const char *const *words);

/* Makes a pipe for --metrics, which holds some thirty lines: a run stands still until it is read,
 * so it has not ended when it is signalled. */
int metrics_pipe(const char *path);

/* Reads the pipe until `text` has come, signals the run in `rig` and waits for its end. What was
 * read becomes the file `copy`; NULL: no file. */
void signal_behind(int pipe, const char *text, int number, const char *copy);

/* -- what it told on standard output, in `rig` ------------------------------------------------- */

void expect_told(const char *text);
const char *line_of(const char *start); /* the line that begins so, behind that */
void type(const char *start); /* runs that line as a shell does, in the folder; ends with 0 */

#endif
