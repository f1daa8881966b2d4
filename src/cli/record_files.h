/* Files of records in a folder, such as dumps and traces: each is opened, and its reader says
 * whether it can be used.
 *
 *     while ((fd = gyre_record_files_next(&files)) >= 0)
 *         gyre_record_files_end(&files, … what is wrong with it, or NULL …);
 */
#ifndef GYRE_CLI_RECORD_FILES_H
#define GYRE_CLI_RECORD_FILES_H

#include "base/status.h"

#include <dirent.h>
#include <stdint.h>

struct gyre_record_files {
    const char *path, *ending;   /* of the folder; and of the names */
    const char *word, *variable; /* what a file is, and the variable that makes a job write it */
    DIR *folder;
    int fd;                  /* of the file that is open; -1: none */
    char name[256];          /* its name */
    uint32_t taken, refused; /* files */
    char text[256];          /* the first thing that was wrong with a file */
};

/* Opens the folder. The caller has set path, ending, word and variable. */
int gyre_record_files_open(struct gyre_record_files *files, struct gyre_trouble *trouble);

/* Opens the next file. -1: there is none. What cannot be opened is counted as refused. */
int gyre_record_files_next(struct gyre_record_files *files);

/* Closes the file. `fault`: what is wrong with it; NULL: nothing. */
void gyre_record_files_end(struct gyre_record_files *files, const char *fault);

/* Closes the folder. GYRE_INVALID: no file could be used. */
int gyre_record_files_close(struct gyre_record_files *files, struct gyre_trouble *trouble);

#endif
