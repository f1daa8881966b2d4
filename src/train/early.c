/* What one process can refuse before it starts ranks: two hundred of them would say it late, and
 * after they had met. Tested by tests/program/train/refusals.c. */
#include "train/early.h"

#include "data/dataset.h"
#include "model/learning/loss.h"

#include <string.h>
#include <sys/stat.h>

#define LOOK_BYTES (16 << 20) /* of a file that may be read one time more */

int gyre_train_refuse_ranks(const struct gyre_train_options *options, int ranks, uint64_t samples,
                            struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "%d ranks are more than the %llu samples of %s: each rank needs one",
                            ranks, (unsigned long long)samples, options->data);
}

/* Of sources that are no file, made-up samples take as long to make as to train on, and two names
 * stand for large files. */
static bool is_cheap(const char *data)
{
    static const char *const large[] = {"random:", "mnist", "cifar10"};
    struct stat file;
    if (!stat(data, &file))
        return S_ISREG(file.st_mode) && file.st_size <= LOOK_BYTES;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        if (strncmp(data, large[i], strlen(large[i])) == 0)
            return false;
    return true;
}

int gyre_train_check_ranks(const struct gyre_train_options *options, int ranks,
                           struct gyre_trouble *trouble)
{
    struct gyre_dataset_options source = {.source = options->data,
                                          .labels = options->labels,
                                          .label_column = options->label_column,
                                          .targets = options->loss == GYRE_SQUARED_ERROR};
    struct gyre_trouble theirs = {0}; /* the ranks tell what is wrong with the data */
    struct gyre_dataset data = {0};
    int status = 0;
    if (is_cheap(options->data) && !gyre_dataset_open(&data, &source, &theirs) &&
        data.samples < (uint64_t)ranks)
        status = gyre_train_refuse_ranks(options, ranks, data.samples, trouble);
    gyre_dataset_close(&data);
    return status;
}
