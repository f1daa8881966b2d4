/* A confusion matrix: rows are labels, columns what they were taken for. */
#include "trained/confusion.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

int gyre_confusion_init(struct gyre_confusion *confusion, uint64_t classes,
                        struct gyre_trouble *trouble)
{
    size_t row;
    bool fits = !__builtin_mul_overflow(classes, sizeof *confusion->count, &row) &&
                !__builtin_mul_overflow(classes, row, &(size_t){0});
    uint64_t *count = fits ? calloc(classes, row) : NULL;
    *confusion = (struct gyre_confusion){.classes = classes, .count = count};
    if (count)
        return 0;
    return gyre_trouble_set(trouble, -ENOMEM, "no memory for a confusion matrix of %llu classes",
                            (unsigned long long)classes);
}

void gyre_confusion_deinit(struct gyre_confusion *confusion)
{
    free(confusion->count);
    *confusion = (struct gyre_confusion){0};
}

void gyre_confusion_add(struct gyre_confusion *confusion, uint64_t label, uint64_t class)
{
    confusion->count[label * confusion->classes + class]++;
    confusion->samples++;
    confusion->right += label == class;
}

uint64_t gyre_confusion_labelled(const struct gyre_confusion *confusion, uint64_t label)
{
    uint64_t sum = 0;
    for (uint64_t c = 0; c < confusion->classes; c++)
        sum += confusion->count[label * confusion->classes + c];
    return sum;
}

uint64_t gyre_confusion_taken(const struct gyre_confusion *confusion, uint64_t class)
{
    uint64_t sum = 0;
    for (uint64_t l = 0; l < confusion->classes; l++)
        sum += confusion->count[l * confusion->classes + class];
    return sum;
}

static double class_share(const struct gyre_confusion *confusion, uint64_t class, uint64_t of)
{
    return of ? (double)confusion->count[class * (confusion->classes + 1)] / (double)of : -1;
}

double gyre_confusion_precision(const struct gyre_confusion *confusion, uint64_t class)
{
    return class_share(confusion, class, gyre_confusion_taken(confusion, class));
}

double gyre_confusion_recall(const struct gyre_confusion *confusion, uint64_t class)
{
    return class_share(confusion, class, gyre_confusion_labelled(confusion, class));
}

/* 2 right / (labelled + taken), which is the harmonic mean without a division by 0 in it. */
double gyre_confusion_f1(const struct gyre_confusion *confusion, uint64_t class)
{
    uint64_t both =
        gyre_confusion_labelled(confusion, class) + gyre_confusion_taken(confusion, class);
    double half = class_share(confusion, class, both);
    return half < 0 ? -1 : 2 * half;
}
