/* Tables of numbers in text: rows of fields between separators, one of them the label.
 *
 *     class,alcohol,ash        a header, where there is one
 *     0,14.23,2.43             a sample: its label (first, last, or by name) and its features
 *
 * Read strictly: every row has as many fields as the first, every field is a decimal number with a
 * point whatever the locale, and nothing is guessed or left out. A text of trouble names line and
 * column, both counted from 1. */
#ifndef GYRE_DATA_CSV_H
#define GYRE_DATA_CSV_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct gyre_csv_options {
    bool header;       /* the first line holds names */
    char separator;    /* 0: ',' */
    const char *label; /* "first", "last" or a name of the header; NULL: there is none */
    bool classes;      /* labels are whole numbers from 0 to 2^31 - 1; else any number */
};

struct gyre_csv {
    uint64_t rows, columns; /* columns: without the label */
    double *values;         /* row after row */
    double *labels;         /* NULL without */
    char **names;           /* of the columns, NULL without a header */
    char *label_name;       /* NULL without a header or a label */
};

/* Opens, reads and closes a file; deinit takes a zeroed record too. A file may begin with a byte
 * order mark; lines end with LF or CR LF, the last one also without; names may be in quotes. */
int gyre_csv_open(struct gyre_csv *csv, const char *path, const struct gyre_csv_options *options,
                  struct gyre_trouble *trouble);
/* The same from memory, which is not needed afterwards; `name` is what texts call it. */
int gyre_csv_over(struct gyre_csv *csv, const char *name, const void *text, uint64_t length,
                  const struct gyre_csv_options *options, struct gyre_trouble *trouble);
void gyre_csv_close(struct gyre_csv *csv);

#endif
