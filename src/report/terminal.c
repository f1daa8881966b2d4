/* The lines that a run shows on the terminal.
 *
 *     epoch 3/100 ▕███▌       ▏  35 %  12,345 samples/s  loss 0.4321  exposed 12 %  ETA 0:42
 *
 * On a terminal this line is redrawn in place, at most ten times a second, and leaves out words
 * until it fits. Elsewhere the line is plain, without the bar, at most one in ten seconds. The bar
 * and the percentage are those of the epoch, the time left is that of the run. An epoch ends with a
 * plain line. Any other output erases the progress line first; the next step draws it again. */
#include "base/clock.h"
#include "base/printable.h"
#include "report/inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_NS (100 * GYRE_MS)
#define PLAIN_NS  (10 * GYRE_SECOND)

enum { LEAST_CELLS = 8, MOST_CELLS = 40, BAR_ENDS = 3 };

/* -- the words of the line --------------------------------------------------------------------- */

enum progress_word { EPOCH, BAR, PERCENT, RATE, LOSS, LEARNING, EXPOSED, LEFT, WORDS };

/* The words that stay where there is little room, the most needed first. */
static const enum progress_word by_need[] = {EPOCH, PERCENT, LOSS,     LEFT,
                                             BAR,   RATE,    LEARNING, EXPOSED};

struct progress {
    double share; /* of the epoch; -1: unknown */
    struct gyre_report_text word[WORDS];
    bool shown[WORDS];
    uint32_t cells;
    bool alarming; /* the loss is not finite */
};

static double epoch_share(const struct gyre_report_terminal *t, const struct gyre_step_record *r)
{
    uint64_t before = (r->epoch ? r->epoch - 1 : 0) * t->steps_per_epoch;
    if (t->steps_per_epoch == 0)
        return -1;
    return r->step <= before ? 0 : fmin(1, (double)(r->step - before) / (double)t->steps_per_epoch);
}

/* The seconds left of the whole run, at the pace since its first step; NaN: unknown. */
static double seconds_left(const struct gyre_report_terminal *t, const struct gyre_step_record *r,
                           uint64_t now_ns)
{
    uint64_t total = t->epochs * t->steps_per_epoch;
    double pace = r->seconds;
    if (total == 0)
        return NAN;
    if (r->step > t->first_step)
        pace = (double)(now_ns - t->first_ns) / 1e9 / (double)(r->step - t->first_step);
    return r->step < total ? pace * (double)(total - r->step) : 0;
}

static void say_epoch(struct gyre_report_text *text, uint64_t epoch, uint64_t epochs)
{
    gyre_report_add(text, "epoch %" PRIu64, epoch);
    if (epochs > 0)
        gyre_report_add(text, "/%" PRIu64, epochs);
}

static void say_share(struct gyre_report_text *text, const char *before, double share)
{
    gyre_report_add(text, "%s%.0f %%", before, 100 * share);
}

static void say_words(const struct gyre_report_terminal *t, const struct gyre_step_record *r,
                      uint64_t now_ns, struct progress *p)
{
    double wall = (double)(now_ns - t->epoch_ns) / 1e9, left = seconds_left(t, r, now_ns);
    memset(p, 0, sizeof *p);
    p->share = epoch_share(t, r);
    p->alarming = !isfinite(r->loss);
    say_epoch(&p->word[EPOCH], r->epoch, t->epochs);
    if (p->share >= 0) /* rounded down: 100 % is the end */
        gyre_report_add(&p->word[PERCENT], " %3.0f %%", floor(100 * p->share));
    if (wall > 0) {
        gyre_report_add(&p->word[RATE], "  ");
        gyre_report_add_count(&p->word[RATE], t->samples / wall);
        gyre_report_add(&p->word[RATE], " samples/s");
    }
    gyre_report_add(&p->word[LOSS], "  loss ");
    gyre_report_add_real(&p->word[LOSS], r->loss);
    gyre_report_add(&p->word[LEARNING], "  lr %.3g", r->learning_rate);
    if (t->seconds > 0)
        say_share(&p->word[EXPOSED], "  exposed ", t->exposed / t->seconds);
    if (left >= 0) {
        gyre_report_add(&p->word[LEFT], "  ETA ");
        gyre_report_add_duration(&p->word[LEFT], left);
    }
}

/* -- fitting ----------------------------------------------------------------------------------- */

/* The columns of the terminal but the last: writing there makes some terminals go to the next
 * line. */
static uint32_t columns(const struct gyre_report_terminal *t)
{
    struct winsize size;
    if (ioctl(t->to->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        return size.ws_col - 1u;
    return 79;
}

static void fit_width(struct progress *p, uint32_t room, uint32_t cells_before)
{
    for (int i = 0; i < WORDS; i++) {
        enum progress_word word = by_need[i];
        size_t wanted = word == BAR ? BAR_ENDS + LEAST_CELLS : p->word[word].length;
        if (wanted > room || (word == BAR && p->share < 0))
            continue;
        p->shown[word] = true;
        room -= (uint32_t)wanted;
    }
    p->cells = p->shown[BAR] ? LEAST_CELLS + room : 0;
    if (p->cells > MOST_CELLS)
        p->cells = MOST_CELLS;
    if (cells_before < p->cells && p->cells - cells_before < 4 && cells_before >= LEAST_CELLS)
        p->cells = cells_before; /* one digit less does not move the bar */
}

/* -- drawing ----------------------------------------------------------------------------------- */

static void paint(const struct gyre_report_terminal *t, struct gyre_report_text *line,
                  const char *colour)
{
    if (t->colour)
        gyre_report_add(line, "\033[%sm", colour);
}

static void draw_bar(const struct gyre_report_terminal *t, const struct progress *p,
                     struct gyre_report_text *line)
{
    static const char *const eighth[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    uint32_t eighths = (uint32_t)(p->share * p->cells * 8), full = eighths / 8;
    uint32_t drawn = full;
    gyre_report_add(line, t->blocks ? " ▕" : " [");
    paint(t, line, "36");
    for (uint32_t i = 0; i < full; i++)
        gyre_report_add(line, t->blocks ? "█" : "#");
    if (t->blocks && eighths % 8 > 0) {
        gyre_report_add(line, "%s", eighth[eighths % 8]);
        drawn++;
    }
    paint(t, line, "0");
    gyre_report_add(line, "%*s%s", (int)(p->cells - drawn), "", t->blocks ? "▏" : "]");
}

static void add_screen_word(const struct gyre_report_terminal *t, const struct progress *p,
                            int word, struct gyre_report_text *line)
{
    bool alarm = word == LOSS && p->alarming;
    if (!p->shown[word])
        return;
    if (word == BAR) {
        draw_bar(t, p, line);
        return;
    }
    if (alarm)
        paint(t, line, "31");
    gyre_report_add(line, "%s", p->word[word].bytes);
    if (alarm)
        paint(t, line, "0");
}

static void erase(struct gyre_report_terminal *t, struct gyre_report_text *line)
{
    if (t->drawn)
        gyre_report_add(line, "\r\033[K");
    t->drawn = false;
}

static void send(struct gyre_report_terminal *t, const struct gyre_report_text *line)
{
    gyre_report_sink_write(t->to, line->bytes, line->length);
}

static void draw_screen(struct gyre_report_terminal *t, struct progress *p)
{
    struct gyre_report_text line = {0};
    fit_width(p, t->live ? columns(t) : UINT32_MAX, t->cells);
    p->shown[BAR] &= t->live;
    t->cells = p->cells;
    erase(t, &line);
    for (int i = 0; i < WORDS; i++)
        add_screen_word(t, p, i, &line);
    if (!t->live)
        gyre_report_add(&line, "\n");
    t->drawn = t->live;
    send(t, &line);
}

/* -- what is told ------------------------------------------------------------------------------ */

static bool unicode_expected(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && value[0])
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return true; /* nothing is set, as in most containers, whose terminals know UTF-8 */
}

void gyre_report_terminal_init(struct gyre_report_terminal *terminal, struct gyre_report_sink *to,
                               struct gyre_report_sink *warnings,
                               const struct gyre_report_options *options, uint64_t now_ns)
{
    const char *kind = getenv("TERM"), *plain = getenv("NO_COLOR");
    *terminal = (struct gyre_report_terminal){.to = to,
                                              .warnings = warnings,
                                              .quiet = options->quiet,
                                              .epochs = options->epochs,
                                              .steps_per_epoch = options->steps_per_epoch,
                                              .spoken_ns = now_ns};
    terminal->live = to->name && isatty(to->fd) && !(kind && strcmp(kind, "dumb") == 0);
    terminal->colour = terminal->live && !(plain && plain[0]);
    terminal->blocks = unicode_expected();
}

static void take_step_record(struct gyre_report_terminal *t, const struct gyre_step_record *r,
                             uint64_t now_ns)
{
    if (t->first_step == 0) {
        t->first_step = r->step;
        t->first_ns = now_ns;
    }
    if (t->epoch != r->epoch || t->epoch_ns == 0) {
        uint64_t step_ns = r->seconds > 0 ? (uint64_t)fmin(r->seconds * 1e9, (double)now_ns) : 0;
        t->epoch = r->epoch;
        t->epoch_ns = now_ns - step_ns;
        t->samples = t->seconds = t->exposed = 0;
    }
    t->samples += (double)r->samples;
    t->seconds += r->seconds;
    t->exposed += r->exposed_seconds;
}

static bool due(const struct gyre_report_terminal *t, uint64_t now_ns)
{
    if (t->live)
        return t->drawn_ns == 0 || now_ns - t->drawn_ns >= REDRAW_NS;
    return now_ns - t->spoken_ns >= PLAIN_NS;
}

void gyre_report_terminal_step(struct gyre_report_terminal *terminal,
                               const struct gyre_step_record *record, uint64_t now_ns)
{
    struct progress progress;
    take_step_record(terminal, record, now_ns);
    if (terminal->quiet || !due(terminal, now_ns))
        return;
    say_words(terminal, record, now_ns, &progress);
    draw_screen(terminal, &progress);
    terminal->drawn_ns = terminal->spoken_ns = now_ns;
}

static void say_result(struct gyre_report_text *line, const char *what, double loss,
                       double accuracy)
{
    gyre_report_add(line, "  %sloss ", what);
    gyre_report_add_real(line, loss);
    if (accuracy >= 0)
        gyre_report_add(line, "  %saccuracy %.2f %%", what, 100 * accuracy);
}

void gyre_report_terminal_epoch(struct gyre_report_terminal *terminal,
                                const struct gyre_epoch_record *record, uint64_t now_ns)
{
    struct gyre_report_text line = {0};
    if (terminal->quiet)
        return;
    erase(terminal, &line);
    say_epoch(&line, record->epoch, terminal->epochs);
    say_result(&line, "", record->loss, record->accuracy);
    if (record->validated)
        say_result(&line, "validation ", record->validation_loss, record->validation_accuracy);
    if (record->tested)
        say_result(&line, "test ", record->test_loss, record->test_accuracy);
    gyre_report_add(&line, "  ");
    gyre_report_add_count(&line, record->samples_per_second);
    gyre_report_add(&line, " samples/s");
    if (record->exposed_share >= 0)
        say_share(&line, "  exposed ", record->exposed_share);
    gyre_report_add(&line, "  ");
    gyre_report_add_duration(&line, record->seconds);
    gyre_report_add(&line, "\n");
    send(terminal, &line);
    terminal->spoken_ns = now_ns;
    terminal->drawn_ns = 0;
    terminal->epoch_ns = 0;
}

void gyre_report_terminal_note(struct gyre_report_terminal *terminal, const char *text)
{
    struct gyre_report_text line = {0};
    char rest[sizeof line.bytes];
    size_t word = strncmp(text, "warning:", 8) == 0 ? 8 : 0;
    erase(terminal, &line);
    if (word > 0) {
        paint(terminal, &line, "33");
        gyre_report_add(&line, "%.*s", (int)word, text);
        paint(terminal, &line, "0");
    }
    gyre_report_add(&line, "%s\n", gyre_printable(rest, sizeof rest, text + word));
    terminal->drawn_ns = 0;
    bool apart = word > 0 && !terminal->live && terminal->warnings->name;
    gyre_report_sink_write(apart ? terminal->warnings : terminal->to, line.bytes, line.length);
}

void gyre_report_terminal_end(struct gyre_report_terminal *terminal)
{
    struct gyre_report_text line = {0};
    if (terminal->drawn)
        gyre_report_add(&line, "\n"); /* a run that ends within an epoch leaves its progress line */
    send(terminal, &line);
    terminal->drawn = false;
}
