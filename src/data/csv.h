/* Tables of numbers in text: rows of fields between separators; one field is the label.
 *
 *     class,alcohol,ash        a header, where there is one
 *     0,14.23,2.43             a sample: its label (first, last, or by name) and its features
 *
 * Reading is strict: every row has as many fields as the first, and every field but a label is a
 * decimal number with a point whatever the locale. A text of trouble names line and column, both
 * counted from 1. */
#ifndef GYRE_DATA_CSV_H
#define GYRE_DATA_CSV_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct gyre_csv_options {
    bool header;       /* the first line holds names */
    bool find_header;  /* it does where it looks as if it did */
    char separator;    /* 0: ',' */
    const char *label; /* "first", "last" or a name of the header; NULL: no label */
    uint64_t bare;     /* a file whose rows have so many fields has no label; 0: any has one */
    bool texts;        /* labels are any text but an empty one; else numbers */
};

struct gyre_csv {
    uint64_t rows, columns; /* columns: without the label */
    double *values;         /* row after row */
    double *labels;         /* NULL: no label, or texts */
    char **label_texts;     /* numbers as %.17g writes them; NULL: no label, or numbers */
    char **names;           /* of the columns; NULL: no header */
    char *label_name;       /* NULL: no header or no label */
};

/* Opens, reads and closes a file; close takes a zeroed record too. A file may begin with a byte
 * order mark. Lines end with LF or CR LF; the last line may lack both. Names may be in quotes. */
int gyre_csv_open(struct gyre_csv *csv, const char *path, const struct gyre_csv_options *options,
                  struct gyre_trouble *trouble);
/* Reads a text from memory, which must not change meanwhile and is not needed afterwards. Texts of
 * trouble call it `name`. */
int gyre_csv_over(struct gyre_csv *csv, const char *name, const void *text, uint64_t length,
                  const struct gyre_csv_options *options, struct gyre_trouble *trouble);
void gyre_csv_close(struct gyre_csv *csv);

#endif
