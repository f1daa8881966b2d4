/* A report for people.
 *
 *     cores        ok        2 to use, all that are online
 *     ports        problem   GYRE_PORT_RANGE=29600-29601: no port of it is free
 *                            → end what holds them (ss -ltnp), or choose other ports
 *     └ check ───┘ └ state ─┘└ text: what was found, details, what to do
 *
 * A terminal gets colours and lines of its width; a pipe gets neither, so that a finding is one
 * line to grep. Tested by tests/unit/cli/doctor/report_test.c. */
#include "cli/doctor/report.h"

#include <string.h>

#define STATE_COLUMNS 10
#define LEAST_TEXT    30 /* columns; on narrower terminals lines run over */

struct page {
    FILE *out;
    bool colours;
    int width;
    int name_columns;
};

/* Bytes that begin a character. */
static int columns_of(const char *text, size_t length)
{
    int columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

static const char *colour_of(enum gyre_doctor_state state)
{
    static const char *const codes[] = {[GYRE_DOCTOR_OK] = "\033[32m",
                                        [GYRE_DOCTOR_NOTE] = "\033[33m",
                                        [GYRE_DOCTOR_PROBLEM] = "\033[1;31m",
                                        [GYRE_DOCTOR_ABSENT] = "\033[2m"};
    return codes[state];
}

/* Text from column `indent` on, `first` columns of which are used already; ends the line. */
static void put_wrapped(const struct page *page, const char *text, int indent)
{
    int room = page->width - indent, used = 0;
    while (*text) {
        size_t blanks = strspn(text, " "), word = strcspn(text + blanks, " ");
        int columns = (int)blanks + columns_of(text + blanks, word);
        if (page->width && room >= LEAST_TEXT && used && used + columns > room) {
            fprintf(page->out, "\n%*s", indent, "");
            text += blanks;
            blanks = 0;
            used = 0;
            columns = columns_of(text, word);
        }
        fprintf(page->out, "%.*s", (int)(blanks + word), text);
        used += columns;
        text += blanks + word;
    }
    fputc('\n', page->out);
}

static const char *finding_name(const struct gyre_doctor_finding *finding)
{
    return finding->subject ? finding->subject : finding->check;
}

static void put_finding(const struct page *page, const struct gyre_doctor_finding *finding)
{
    const char *word =
        finding->state == GYRE_DOCTOR_ABSENT ? "not here" : gyre_doctor_state_word(finding->state);
    int indent = page->name_columns + STATE_COLUMNS,
        columns = columns_of(finding_name(finding), strlen(finding_name(finding)));
    fprintf(page->out, "%s%*s", finding_name(finding), page->name_columns - columns, "");
    fprintf(page->out, "%s%s%s%*s", page->colours ? colour_of(finding->state) : "", word,
            page->colours ? "\033[0m" : "", STATE_COLUMNS - (int)strlen(word), "");
    put_wrapped(page, finding->found ? finding->found : "", indent);
    for (int i = 0; i < finding->details; i++) {
        fprintf(page->out, "%*s", indent + 2, "");
        put_wrapped(page, finding->detail[i] ? finding->detail[i] : "", indent + 2);
    }
    if (finding->advice) {
        fprintf(page->out, "%*s→ ", indent, "");
        put_wrapped(page, finding->advice, indent + 2);
    }
}

static void put_sum(const struct page *page, const struct gyre_doctor_report *report)
{
    int problems = gyre_doctor_count(report, GYRE_DOCTOR_PROBLEM),
        notes = gyre_doctor_count(report, GYRE_DOCTOR_NOTE);
    const char *between = " ";
    if (problems)
        fprintf(page->out, "\n%d problem%s:", problems, problems > 1 ? "s" : "");
    else
        fprintf(page->out, "\nno problem; %d note%s\n", notes, notes == 1 ? "" : "s");
    for (int i = 0; problems && i < report->findings; i++)
        if (report->finding[i].state == GYRE_DOCTOR_PROBLEM) {
            fprintf(page->out, "%s%s", between, finding_name(&report->finding[i]));
            between = ", ";
        }
    fputs(problems ? "\n" : "", page->out);
}

void gyre_doctor_print(const struct gyre_doctor_report *report,
                       const struct gyre_doctor_title *title, FILE *out, bool colours, int width)
{
    struct page page = {.out = out, .colours = colours, .width = width, .name_columns = 12};
    for (int i = 0; i < report->findings; i++) {
        const char *name = finding_name(&report->finding[i]);
        int columns = columns_of(name, strlen(name)) + 2;
        page.name_columns = columns > page.name_columns ? columns : page.name_columns;
    }
    fprintf(out, "gyre %s on %s, %s\n\n", title->version, title->host, title->system);
    for (int i = 0; i < report->findings; i++)
        put_finding(&page, &report->finding[i]);
    if (report->cut)
        fputs("\nno memory for all findings\n", out);
    put_sum(&page, report);
}
