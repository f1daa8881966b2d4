/* Names of classes. A sorted list is the same whatever the order of the rows, so a file and a part
 * of it give a name the same number as long as each class is in both. */
#include "data/classes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory_for_classes(struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, -ENOMEM, "no memory for the names of classes");
}

/* -- order ------------------------------------------------------------------------------------- */

/* Whether a label is a whole number, as gyre_csv_open() writes those. */
static bool is_whole(const char *label, int64_t *value)
{
    const char *digits = label + (*label == '-');
    size_t length = strspn(digits, "0123456789");
    *value = strtoll(label, NULL, 10);
    return length > 0 && length <= 18 && !digits[length];
}

static bool is_real(const char *label)
{
    char *end;
    const char *digits = label + (*label == '-');
    strtod(label, &end);
    return *digits >= '0' && *digits <= '9' && !*end;
}

static int compare_labels(const void *a, const void *b)
{
    const char *const *one = a, *const *other = b;
    int64_t x, y;
    bool whole = is_whole(*one, &x), other_whole = is_whole(*other, &y);
    if (whole && other_whole)
        return (x > y) - (x < y);
    return whole || other_whole ? other_whole - whole : strcmp(*one, *other);
}

/* -- lists ------------------------------------------------------------------------------------- */

void gyre_classes_deinit(struct gyre_classes *classes)
{
    for (uint64_t i = 0; i < classes->count; i++)
        free(classes->name[i]);
    free(classes->name);
    *classes = (struct gyre_classes){0};
}

/* Takes copies of sorted names, each once. */
static int take_distinct(struct gyre_classes *classes, char *const *sorted, uint64_t count,
                         struct gyre_trouble *trouble)
{
    bool lost = !(classes->name = calloc(count + 1, sizeof *classes->name));
    for (uint64_t i = 0; !lost && i < count; i++) {
        if (i && compare_labels(&sorted[i - 1], &sorted[i]) == 0)
            continue;
        classes->name[classes->count] = strdup(sorted[i]);
        lost = !classes->name[classes->count];
        classes->count += !lost;
    }
    return lost ? no_memory_for_classes(trouble) : 0;
}

/* Whether the names are whole numbers of which the least is 0. */
static bool are_plain(const struct gyre_classes *classes)
{
    int64_t least, most;
    return is_whole(classes->name[0], &least) && least == 0 &&
           is_whole(classes->name[classes->count - 1], &most) && most <= INT32_MAX;
}

static int check_classes(const struct gyre_classes *classes, const char *source, uint64_t labels,
                         struct gyre_trouble *trouble)
{
    for (uint64_t i = 0; i < classes->count; i++) {
        const char *name = classes->name[i];
        int64_t value;
        if (!is_whole(name, &value) && is_real(name))
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s: the label \"%s\" is no class; numbers to approximate are "
                                    "for --loss mse",
                                    source, name);
    }
    if (classes->count > GYRE_CLASSES_MOST || (classes->count == labels && labels > 64))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: %llu rows have %llu different labels, such as \"%.40s\": is "
                                "another column the label? --label-column names it",
                                source, (unsigned long long)labels,
                                (unsigned long long)classes->count, classes->name[0]);
    return 0;
}

int gyre_classes_of(struct gyre_classes *classes, const char *source, char *const *label,
                    uint64_t labels, struct gyre_trouble *trouble)
{
    char **sorted = calloc(labels + 1, sizeof *sorted);
    *classes = (struct gyre_classes){0};
    if (!sorted)
        return no_memory_for_classes(trouble);
    memcpy(sorted, label, labels * sizeof *sorted);
    qsort(sorted, labels, sizeof *sorted, compare_labels);
    int status = take_distinct(classes, sorted, labels, trouble);
    free(sorted);
    if (!status && are_plain(classes))
        gyre_classes_deinit(classes);
    else if (!status)
        status = check_classes(classes, source, labels, trouble);
    if (status)
        gyre_classes_deinit(classes);
    return status;
}

bool gyre_classes_find(const struct gyre_classes *classes, const char *label, int64_t *number)
{
    if (!classes->count)
        return is_whole(label, number) && *number >= 0 && *number <= INT32_MAX;
    char **found =
        bsearch(&label, classes->name, classes->count, sizeof *classes->name, compare_labels);
    *number = found ? found - classes->name : 0;
    return found;
}

/* -- as a text --------------------------------------------------------------------------------- */

char *gyre_classes_text(const struct gyre_classes *classes)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    for (uint64_t i = 0; i < classes->count; i++)
        fprintf(out, "%s%s", i ? "\n" : "", classes->name[i]);
    if (!fclose(out))
        return text;
    free(text);
    return NULL;
}

int gyre_classes_read(struct gyre_classes *classes, const char *text, struct gyre_trouble *trouble)
{
    uint64_t lines = 1;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    *classes = (struct gyre_classes){.name = calloc(lines, sizeof *classes->name)};
    for (; classes->name && classes->count < lines; classes->count++) {
        size_t length = strcspn(text, "\n");
        if (!(classes->name[classes->count] = strndup(text, length)))
            break;
        text += length + (text[length] == '\n');
    }
    if (classes->count == lines)
        return 0;
    gyre_classes_deinit(classes);
    return no_memory_for_classes(trouble);
}

int gyre_classes_copy(struct gyre_classes *to, const struct gyre_classes *from,
                      struct gyre_trouble *trouble)
{
    char *text = from->count ? gyre_classes_text(from) : NULL;
    *to = (struct gyre_classes){0};
    if (!from->count)
        return 0;
    int status = text ? gyre_classes_read(to, text, trouble) : no_memory_for_classes(trouble);
    free(text);
    return status;
}
