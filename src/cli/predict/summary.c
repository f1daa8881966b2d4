/* What came of all samples, as a table. With labels it is the confusion matrix:
 *
 *     label \ class      0        1        2    recall
 *                 0     14        0        0  100.00 %
 *                 1      1       13        0   92.86 %
 *                 2      0        0        8  100.00 %
 *         precision  93.3 %  100.0 %  100.0 %
 *
 * Many classes get a line each instead. Tested by tests/program/train/predict.c. */
#include "cli/predict/inside.h"

#include "base/printable.h"

#include <inttypes.h>
#include <string.h>

#define MATRIX_MOST 16 /* classes */
#define CELL        9

static const char *shown_class(const struct gyre_predictor *p, uint64_t class,
                               char text[GYRE_CLASS_NAME])
{
    gyre_class_name(p, class, text);
    return gyre_printable_line(text);
}

static int widest_class(const struct gyre_predictor *p, int least)
{
    char name[GYRE_CLASS_NAME];
    for (uint64_t c = 0; c < p->outputs; c++) {
        int length = (int)strlen(shown_class(p, c, name));
        least = length > least ? length : least;
    }
    return least;
}

static void print_share(FILE *to, int width, double share)
{
    if (share < 0)
        fprintf(to, "  %*s", width, "-");
    else
        fprintf(to, "  %*.2f %%", width - 2, 100 * share);
}

static void print_matrix(FILE *to, const struct gyre_predictor *p, const struct gyre_confusion *c)
{
    int left = widest_class(p, (int)strlen("label \\ class")), cell = widest_class(p, CELL);
    char name[GYRE_CLASS_NAME];
    fprintf(to, "\n%*s", left, "label \\ class");
    for (uint64_t k = 0; k < c->classes; k++)
        fprintf(to, "  %*s", cell, shown_class(p, k, name));
    fprintf(to, "  %*s\n", CELL, "recall");
    for (uint64_t l = 0; l < c->classes; l++) {
        fprintf(to, "%*s", left, shown_class(p, l, name));
        for (uint64_t k = 0; k < c->classes; k++)
            fprintf(to, "  %*" PRIu64, cell, c->count[l * c->classes + k]);
        print_share(to, CELL, gyre_confusion_recall(c, l));
        fputc('\n', to);
    }
    fprintf(to, "%*s", left, "precision");
    for (uint64_t k = 0; k < c->classes; k++)
        print_share(to, cell, gyre_confusion_precision(c, k));
    fputc('\n', to);
}

static void print_lines(FILE *to, const struct gyre_predictor *p, const struct gyre_confusion *c)
{
    int left = widest_class(p, (int)strlen("class"));
    char name[GYRE_CLASS_NAME];
    fprintf(to, "\n%*s  %*s  %*s  %*s\n", left, "class", CELL, "samples", CELL, "precision", CELL,
            "recall");
    for (uint64_t k = 0; k < c->classes; k++) {
        fprintf(to, "%*s  %*" PRIu64, left, shown_class(p, k, name), CELL,
                gyre_confusion_labelled(c, k));
        print_share(to, CELL, gyre_confusion_precision(c, k));
        print_share(to, CELL, gyre_confusion_recall(c, k));
        fputc('\n', to);
    }
    fprintf(to, "--json has the whole confusion matrix\n");
}

static void print_taken(FILE *to, const struct gyre_predictor *p, const uint64_t *taken)
{
    int left = widest_class(p, (int)strlen("class"));
    char name[GYRE_CLASS_NAME];
    fprintf(to, "\n%*s  %*s\n", left, "class", CELL, "samples");
    for (uint64_t k = 0; k < p->outputs; k++)
        fprintf(to, "%*s  %*" PRIu64 "\n", left, shown_class(p, k, name), CELL, taken[k]);
}

void gyre_prediction_print(FILE *to, const struct gyre_predictor *p,
                           const struct gyre_prediction_sum *sum)
{
    const struct gyre_confusion *c = &sum->confusion;
    char model[sizeof p->architecture.layers + 16];
    fprintf(to, "%s of %s", gyre_architecture_name(&p->architecture, model, sizeof model),
            p->trained.path);
    if (p->trained.checkpoint)
        fprintf(to, ", step %" PRIu64, gyre_generation_step(p->trained.checkpoint));
    fprintf(to, "; %" PRIu64 " sample%s of %s", p->data.samples, p->data.samples == 1 ? "" : "s",
            p->data.source);
    if (p->data.label)
        fprintf(to, "; accuracy %.2f %%", 100 * (double)c->right / (double)c->samples);
    if (p->data.target)
        fprintf(to, "; mean squared error %.4g", sum->squares / (double)p->data.samples);
    fputc('\n', to);
    if (p->data.label)
        c->classes > MATRIX_MOST ? print_lines(to, p, c) : print_matrix(to, p, c);
    else if (p->classes)
        print_taken(to, p, sum->taken);
}
