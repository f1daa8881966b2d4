/* Reads CSV in two passes. The first only counts rows and fields, so a row with one too many or too
 * few is named before anything is allocated. The second stores. A file is read to private memory
 * first: through a mapping, whoever writes to the file would show the two passes different rows.
 *
 *     text ─▶ header? ─▶ count ─▶ allocate ─▶ numbers, each to the labels or to the values
 *
 * The form of a number is checked here; then strtod_l converts it in the C locale, rounded
 * correctly. */
#include "data/csv.h"

#include "base/disk/regular.h"
#include "base/printable.h"
#include "base/size.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 400 /* bytes of one field */
#define SHOWN_MAX  40
#define NO_LABEL   UINT64_MAX

static const char not_a_number[] = "is not a number";

struct csv_span {
    const char *at, *end;
};

struct table {
    const char *name;
    struct csv_span rest; /* the lines not taken yet */
    uint64_t line;        /* the number of the last line taken */
    uint64_t fields;      /* of each row */
    uint64_t label;       /* the label's field, or NO_LABEL */
    const struct gyre_csv_options *options;
    char separator;
    bool header; /* the first line holds names */
    locale_t locale;
    struct gyre_csv *csv;
    struct gyre_trouble *trouble;
};

/* -- lines and fields -------------------------------------------------------------------------- */

static bool next_line(struct table *table, struct csv_span *line)
{
    struct csv_span *rest = &table->rest;
    if (rest->at == rest->end)
        return false;
    const char *feed = memchr(rest->at, '\n', (size_t)(rest->end - rest->at));
    *line = (struct csv_span){rest->at, feed ? feed : rest->end};
    rest->at = feed ? feed + 1 : rest->end;
    if (line->end > line->at && line->end[-1] == '\r')
        line->end--;
    table->line++;
    return true;
}

static struct csv_span trimmed(struct csv_span field)
{
    while (field.at < field.end && (*field.at == ' ' || *field.at == '\t'))
        field.at++;
    while (field.end > field.at && (field.end[-1] == ' ' || field.end[-1] == '\t'))
        field.end--;
    return field;
}

/* The place behind the closing quote; "" stands for one " and closes nothing. */
static const char *skip_quoted(const char *at, const char *end)
{
    for (; at < end; at++)
        if (*at == '"' && (at + 1 == end || *++at != '"'))
            return at;
    return end;
}

/* The separator behind the field that begins at `at`; NULL: none. A separator within quotes does
 * not count. */
static const char *find_cut(const struct table *table, const char *at, const char *end)
{
    const char *begin = trimmed((struct csv_span){at, end}).at;
    if (begin < end && *begin == '"')
        at = skip_quoted(begin + 1, end);
    while (at < end && *at != table->separator)
        at++;
    return at < end ? at : NULL;
}

/* Takes a field from the line; false: the line has no more. An empty line is one field. */
static bool next_field(const struct table *table, struct csv_span *line, struct csv_span *field)
{
    if (!line->at)
        return false;
    const char *cut = find_cut(table, line->at, line->end);
    *field = trimmed((struct csv_span){line->at, cut ? cut : line->end});
    line->at = cut ? cut + 1 : NULL;
    return true;
}

static uint64_t count_fields(const struct table *table, struct csv_span line)
{
    uint64_t fields = 0;
    struct csv_span field;
    while (next_field(table, &line, &field))
        fields++;
    return fields;
}

static int refuse_field(const struct table *table, uint64_t column, struct csv_span field,
                        const char *what)
{
    size_t length = (size_t)(field.end - field.at);
    char whole[SHOWN_MAX + 5], text[SHOWN_MAX + 4], *zero;
    length = length < sizeof whole ? length : sizeof whole - 1;
    memcpy(whole, field.at, length);
    whole[length] = '\0';
    while ((zero = memchr(whole, '\0', length)))
        *zero = '?';
    gyre_printable(text, sizeof text, whole);
    return gyre_trouble_set(table->trouble, GYRE_INVALID,
                            "%s, line %" PRIu64 ", column %" PRIu64 ": \"%s\" %s", table->name,
                            table->line, column, text, what);
}

/* -- numbers ----------------------------------------------------------------------------------- */

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* Whether the field is [+-] digits [. digits] [e [+-] digits], with a digit before or behind the
 * point. */
static bool is_number(struct csv_span field)
{
    const char *at = field.at, *end = field.end;
    at += at < end && (*at == '+' || *at == '-');
    const char *whole = skip_digits(at, end);
    uint64_t digits = (uint64_t)(whole - at);
    at = whole;
    if (at < end && *at == '.') {
        const char *part = skip_digits(at + 1, end);
        digits += (uint64_t)(part - at - 1);
        at = part;
    }
    if (digits && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        const char *exponent = skip_digits(at, end);
        digits = (uint64_t)(exponent - at);
        at = exponent;
    }
    return digits && at == end;
}

/* `odd` is the end of the sentence about a field that is no number. */
static int read_csv_number(const struct table *table, uint64_t column, struct csv_span field,
                           const char *odd, double *value)
{
    char text[NUMBER_MAX + 1];
    size_t length = (size_t)(field.end - field.at);
    if (!is_number(field))
        return refuse_field(table, column, field, odd);
    if (length > NUMBER_MAX)
        return refuse_field(table, column, field, "has more than 400 characters");
    memcpy(text, field.at, length);
    text[length] = '\0';
    *value = strtod_l(text, NULL, table->locale);
    return isfinite(*value) ? 0 : refuse_field(table, column, field, "is too large");
}

/* -- the header -------------------------------------------------------------------------------- */

/* Copies a name without its quotes; "" within quotes is one ". */
static char *copy_name(struct csv_span field)
{
    bool quoted = field.end - field.at >= 2 && *field.at == '"' && field.end[-1] == '"';
    char *name = malloc((size_t)(field.end - field.at) + 1), *to = name;
    if (!name)
        return NULL;
    for (const char *at = field.at + quoted; at < field.end - quoted; at++) {
        *to++ = *at;
        at += quoted && *at == '"' && at + 1 < field.end - quoted && at[1] == '"';
    }
    *to = '\0';
    return name;
}

static int no_memory_for_table(const struct table *table)
{
    return gyre_trouble_set(table->trouble, -ENOMEM, "%s: out of memory", table->name);
}

static bool is_name(const char *name, struct csv_span field)
{
    char *copy = copy_name(field);
    bool same = copy && strcmp(copy, name) == 0;
    free(copy);
    return same;
}

static int refuse_label(const struct table *table, const char *what)
{
    return gyre_trouble_set(table->trouble, GYRE_INVALID, "%s, line %" PRIu64 ": %s \"%s\"%s",
                            table->name, table->line, what, table->options->label,
                            table->header ? "" : ", for the file has no header");
}

/* Finds the label's field; `line` is the first line. */
static int find_label(struct table *table, struct csv_span line)
{
    const char *label = table->options->label;
    struct csv_span field;
    uint64_t found = 0;
    table->label = NO_LABEL;
    if (table->options->bare && table->fields == table->options->bare)
        return 0;
    if (label && strcmp(label, "first") == 0)
        table->label = 0;
    else if (label && strcmp(label, "last") == 0)
        table->label = table->fields - 1;
    if (!label || table->label != NO_LABEL)
        return 0;
    for (uint64_t i = 0; table->header && next_field(table, &line, &field); i++)
        if (is_name(label, field)) {
            table->label = i;
            found++;
        }
    return found == 1 ? 0 : refuse_label(table, found ? "several columns are" : "no column is");
}

static int keep_names(const struct table *table, struct csv_span line)
{
    struct gyre_csv *csv = table->csv;
    struct csv_span field;
    uint64_t column = 0;
    csv->names = calloc(csv->columns + 1, sizeof *csv->names);
    if (!csv->names)
        return no_memory_for_table(table);
    for (uint64_t i = 0; next_field(table, &line, &field); i++) {
        char **name = i == table->label ? &csv->label_name : &csv->names[column++];
        if (!(*name = copy_name(field)))
            return no_memory_for_table(table);
    }
    return 0;
}

/* Whether a line holds names: none of its fields is a number, or the numbers of three or more are
 * those of their columns, as a table without names is written by some programs. */
static bool looks_like_header(const struct table *table, struct csv_span line)
{
    uint64_t numbers = 0, in_place = 0, fields = 0;
    for (struct csv_span field; next_field(table, &line, &field); fields++) {
        char place[24];
        int length = snprintf(place, sizeof place, "%" PRIu64, fields);
        numbers += is_number(field);
        in_place += field.end - field.at == length && !memcmp(field.at, place, (size_t)length);
    }
    return !numbers || (numbers >= 3 && numbers == in_place && numbers < fields);
}

/* -- rows -------------------------------------------------------------------------------------- */

static int count_rows(struct table table, uint64_t *rows)
{
    struct csv_span line;
    while (next_line(&table, &line)) {
        uint64_t fields = count_fields(&table, line);
        if (fields != table.fields)
            return gyre_trouble_set(table.trouble, GYRE_INVALID,
                                    "%s, line %" PRIu64 ": %" PRIu64
                                    " fields, where the first line has %" PRIu64,
                                    table.name, table.line, fields, table.fields);
        ++*rows;
    }
    if (!*rows)
        return gyre_trouble_set(table.trouble, GYRE_INVALID, "%s: there are no rows", table.name);
    return 0;
}

static int allocate_table(const struct table *table)
{
    struct gyre_csv *csv = table->csv;
    uint64_t count;
    if (!gyre_mul_u64(csv->rows, csv->columns + 1, &count))
        return no_memory_for_table(table);
    csv->values = calloc(count, sizeof *csv->values);
    if (table->label != NO_LABEL && table->options->texts)
        csv->label_texts = calloc(csv->rows, sizeof *csv->label_texts);
    else if (table->label != NO_LABEL)
        csv->labels = calloc(csv->rows, sizeof *csv->labels);
    bool labelled = csv->labels || csv->label_texts;
    return csv->values && labelled == (table->label != NO_LABEL) ? 0 : no_memory_for_table(table);
}

static int read_label_text(const struct table *table, struct csv_span field, char **text)
{
    double value;
    int status = 0;
    if (is_number(field)) {
        status = read_csv_number(table, table->label + 1, field, not_a_number, &value);
        *text = NULL;
        if (!status && asprintf(text, "%.17g", value) < 0)
            *text = NULL;
    } else {
        *text = copy_name(field);
    }
    if (!status && !*text)
        return no_memory_for_table(table);
    return status || **text ? status : refuse_field(table, table->label + 1, field, "is no label");
}

static int read_label(const struct table *table, struct csv_span field, uint64_t row)
{
    struct gyre_csv *csv = table->csv;
    if (csv->label_texts)
        return read_label_text(table, field, &csv->label_texts[row]);
    return read_csv_number(table, table->label + 1, field, not_a_number, &csv->labels[row]);
}

/* A column of names can only be the label. */
static int read_feature(const struct table *table, uint64_t column, struct csv_span field,
                        double *value)
{
    const char *odd = table->options->texts && field.at < field.end
                          ? "is not a number; if that column is the label, --label-column names it"
                          : not_a_number;
    return read_csv_number(table, column, field, odd, value);
}

static int read_row(const struct table *table, struct csv_span line, uint64_t row)
{
    struct gyre_csv *csv = table->csv;
    double *value = csv->values + row * csv->columns;
    struct csv_span field;
    int status = 0;
    for (uint64_t i = 0; !status && next_field(table, &line, &field); i++)
        status = i == table->label ? read_label(table, field, row)
                                   : read_feature(table, i + 1, field, value++);
    return status;
}

static int read_rows(struct table *table)
{
    struct csv_span line;
    int status = 0;
    for (uint64_t row = 0; !status && next_line(table, &line); row++)
        status = read_row(table, line, row);
    return status;
}

/* -- the whole --------------------------------------------------------------------------------- */

static int read_table(struct table *table)
{
    struct table whole = *table;
    struct csv_span line;
    if (!next_line(table, &line))
        return gyre_trouble_set(table->trouble, GYRE_INVALID, "%s: is empty", table->name);
    table->fields = count_fields(table, line);
    table->header =
        table->options->header || (table->options->find_header && looks_like_header(table, line));
    int status = find_label(table, line);
    if (!status) {
        table->csv->columns = table->fields - (table->label != NO_LABEL);
        whole.fields = table->fields;
        whole.label = table->label;
        if (table->header)
            status = keep_names(table, line);
        else
            *table = whole; /* the first line is a row */
    }
    if (!status)
        status = count_rows(*table, &table->csv->rows);
    if (!status)
        status = allocate_table(table);
    return status ? status : read_rows(table);
}

int gyre_csv_over(struct gyre_csv *csv, const char *name, const void *text, uint64_t length,
                  const struct gyre_csv_options *options, struct gyre_trouble *trouble)
{
    static const char mark[] = "\xef\xbb\xbf";
    struct table table = {.name = name,
                          .rest = {text, (const char *)text + length},
                          .options = options,
                          .separator = options->separator ? options->separator : ',',
                          .csv = csv,
                          .trouble = trouble};
    *csv = (struct gyre_csv){0};
    if (length >= 3 && memcmp(text, mark, 3) == 0)
        table.rest.at += 3;
    table.locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!table.locale)
        return no_memory_for_table(&table);
    int status = read_table(&table);
    freelocale(table.locale);
    if (status)
        gyre_csv_close(csv);
    return status;
}

int gyre_csv_open(struct gyre_csv *csv, const char *path, const struct gyre_csv_options *options,
                  struct gyre_trouble *trouble)
{
    char *text;
    uint64_t length;
    *csv = (struct gyre_csv){0};
    int status = gyre_regular_read(path, INT64_MAX, &text, &length, trouble);
    if (!status)
        status = gyre_csv_over(csv, path, text, length, options, trouble);
    free(text);
    return status;
}

void gyre_csv_close(struct gyre_csv *csv)
{
    for (uint64_t i = 0; csv->names && i < csv->columns; i++)
        free(csv->names[i]);
    free(csv->names);
    free(csv->label_name);
    free(csv->values);
    for (uint64_t i = 0; csv->label_texts && i < csv->rows; i++)
        free(csv->label_texts[i]);
    free(csv->label_texts);
    free(csv->labels);
    *csv = (struct gyre_csv){0};
}
