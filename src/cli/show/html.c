/* gyre show --html: the page goes to a file as a whole, or to standard output. Tested by
 * tests/program/cli/show.c. */
#include "cli/show/question.h"

#include "cli/show/page/page.h"
#include "data/files/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Writes the page into memory, which the caller frees. A page of a defect is a page. */
static int make_page(const struct gyre_show_question *q, char **text, size_t *length,
                     struct gyre_trouble *trouble)
{
    const struct gyre_page_schedule schedule[] = {{q->algorithm, q->slice}, {q->beside, q->slice}};
    FILE *out = open_memstream(text, length);
    if (out == NULL)
        return -ENOMEM;
    int status = gyre_page_write(out, schedule, q->beside != NULL ? 2 : 1, trouble);
    return fclose(out) != 0 ? -ENOMEM : status;
}

static int keep_page(const char *path, char *text, size_t length, struct gyre_trouble *trouble)
{
    const struct iovec part = {text, length};
    if (strcmp(path, "-") != 0)
        return gyre_file_replace(path, &part, 1, trouble);
    fwrite(text, 1, length, stdout);
    return 0;
}

int gyre_show_html(const struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    char *text = NULL;
    size_t length = 0;
    struct gyre_trouble defect = {0};
    const char *path = q->word[HTML];
    int proved = make_page(q, &text, &length, &defect);
    int status =
        proved == 0 || proved == GYRE_CORRUPT ? keep_page(path, text, length, trouble) : proved;
    if (status == 0 && strcmp(path, "-") != 0)
        printf("%s: %s by %s%s%s, %u ranks, %zu KB: open it in a browser\n", path,
               gyre_verb_word[q->slice.verb], q->algorithm->name, q->beside ? " and " : "",
               q->beside ? q->beside->name : "", q->slice.n, (length + 1023) / 1024);
    free(text);
    if (status == 0 && proved != 0)
        return gyre_trouble_set(trouble, proved, "%s", defect.text);
    return status;
}
