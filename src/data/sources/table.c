/* A CSV: its columns are x, one of them is y. Tested by tests/unit/data/dataset_test.c. */
#include "base/env.h"
#include "base/size.h"
#include "data/csv.h"
#include "data/sources/sources.h"

#include <stdlib.h>

static int take_features(struct gyre_dataset *set, struct gyre_csv *csv, bool wide,
                         struct gyre_trouble *trouble)
{
    uint64_t cells;
    bool fits = gyre_mul_u64(csv->rows, csv->columns, &cells) && cells < SIZE_MAX / sizeof(float);
    float *x = fits ? malloc((cells + 1) * sizeof *x) : NULL;
    set->owned[0] = x;
    if (!x)
        return gyre_source_no_memory(set->source, trouble);
    for (uint64_t i = 0; i < cells; i++)
        x[i] = (float)csv->values[i];
    set->samples = csv->rows;
    set->dims = 1;
    set->shape[0] = csv->columns;
    set->x = x;
    if (wide) {
        set->wide = csv->values;
        csv->values = NULL;
    }
    return 0;
}

static int take_targets(struct gyre_dataset *set, const struct gyre_csv *csv,
                        struct gyre_trouble *trouble)
{
    float *target = set->owned[1] = malloc(csv->rows * sizeof *target);
    if (!target)
        return gyre_source_no_memory(set->source, trouble);
    for (uint64_t i = 0; i < csv->rows; i++)
        target[i] = (float)csv->labels[i];
    set->width = 1;
    set->target = target;
    return 0;
}

/* -- classes ----------------------------------------------------------------------------------- */

static int refuse_class(const struct gyre_dataset *set, const struct gyre_csv *csv, uint64_t row,
                        struct gyre_trouble *trouble)
{
    const char *label = csv->label_texts[row];
    uint64_t line = row + 1 + (csv->names != NULL);
    if (!set->names.count)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s, line %llu: \"%.40s\" is no class: the model's count from 0",
                                set->source, (unsigned long long)line, label);
    const char *near =
        gyre_nearest_word(label, (const char *const *)set->names.name, (int)set->names.count);
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "%s, line %llu: \"%.40s\" is none of the %llu classes, %.40s to "
                            "%.40s%s%.40s%s",
                            set->source, (unsigned long long)line, label,
                            (unsigned long long)set->names.count, set->names.name[0],
                            set->names.name[set->names.count - 1], near ? "; did you mean \"" : "",
                            near ? near : "", near ? "\"?" : "");
}

static int take_classes(struct gyre_dataset *set, const struct gyre_csv *csv,
                        const struct gyre_classes *known, struct gyre_trouble *trouble)
{
    int64_t *label = set->owned[1] = malloc(csv->rows * sizeof *label);
    int status = label ? 0 : gyre_source_no_memory(set->source, trouble);
    if (!status)
        status =
            known ? gyre_classes_copy(&set->names, known, trouble)
                  : gyre_classes_of(&set->names, set->source, csv->label_texts, csv->rows, trouble);
    for (uint64_t row = 0; !status && row < csv->rows; row++)
        if (!gyre_classes_find(&set->names, csv->label_texts[row], &label[row]))
            status = refuse_class(set, csv, row, trouble);
    set->label = label;
    return status;
}

/* -- the whole --------------------------------------------------------------------------------- */

int gyre_source_table(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                      struct gyre_trouble *trouble)
{
    struct gyre_csv csv;
    struct gyre_csv_options how = {.find_header = true,
                                   .label = options->label_column ? options->label_column : "last",
                                   .bare = options->may_lack_y ? options->features : 0,
                                   .texts = !options->targets};
    int status = gyre_csv_open(&csv, options->source, &how, trouble);
    if (status)
        return status;
    status = take_features(set, &csv, options->wide, trouble);
    if (!status && csv.label_texts)
        status = take_classes(set, &csv, options->classes, trouble);
    else if (!status && csv.labels)
        status = take_targets(set, &csv, trouble);
    gyre_csv_close(&csv);
    return status;
}
