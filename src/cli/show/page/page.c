/* The file that a browser opens: the frame (page.html) with style, data and script in their places.
 * The build makes page_text.h of the sources beside this file (embed). Tested by
 * tests/program/cli/show.c, and in a browser by tests/program/cli/page.py. */
#include "cli/show/page/inside.h"

#include <page_text.h> /* made by the build */

#include <string.h>

const char *gyre_page_put_until(FILE *out, const char *frame, const char *mark)
{
    const char *at = strstr(frame, mark);
    fwrite(frame, 1, (size_t)(at - frame), out);
    return at + strlen(mark);
}

static int put_schedules(FILE *out, const struct gyre_page_schedule *schedule, unsigned count,
                         struct gyre_trouble *trouble)
{
    int status = 0;
    fputc('[', out);
    for (unsigned i = 0; i < count && (status == 0 || status == GYRE_CORRUPT); i++) {
        fputs(i > 0 ? ",\n" : "", out);
        int found = gyre_page_put_schedule(out, &schedule[i], trouble);
        status = found != 0 && (status == 0 || found != GYRE_CORRUPT) ? found : status;
    }
    fputc(']', out);
    return status;
}

int gyre_page_write(FILE *out, const struct gyre_page_schedule *schedule, unsigned count,
                    struct gyre_trouble *trouble)
{
    const char *frame = gyre_page_put_until(out, gyre_page_html, "@STYLE@");
    fputs(gyre_page_css, out);
    frame = gyre_page_put_until(out, frame, "@DATA@");
    int status = put_schedules(out, schedule, count, trouble);
    frame = gyre_page_put_until(out, frame, "@SCRIPT@");
    fputs(gyre_page_js, out);
    fputs(frame, out);
    return status;
}
