/* What a report says: on a terminal, through a small screen that obeys it; elsewhere, as plain
 * lines.
 *
 * The screen knows what the progress line uses: letters, carriage return, newline, erase to the end
 * of the line, colours. A letter beyond the right edge is remembered as an offence. */
#include "unit/report/report_rig.h"

#include <fcntl.h>
#include <math.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>

enum { ROWS = 64, MOST_COLUMNS = 256 };

struct screen {
    int columns;
    int row, column, widest;
    char cell[ROWS][MOST_COLUMNS]; /* '#' for a letter beyond ASCII */
    int bytes, redraws, colours;
};

static int end_escape(struct screen *screen, const char *text)
{
    int length = 2 + (int)strspn(text + 2, "0123456789;");
    assert_int_equal(text[1], '[');
    if (text[length] == 'K')
        memset(screen->cell[screen->row] + screen->column, ' ',
               (size_t)(MOST_COLUMNS - screen->column));
    else
        assert_int_equal(text[length], 'm');
    screen->colours += text[length] == 'm';
    screen->redraws += text[length] == 'K';
    return length + 1;
}

static void put_cell(struct screen *screen, char letter)
{
    assert_in_range(screen->column, 0, MOST_COLUMNS - 2);
    screen->cell[screen->row][screen->column++] = letter;
    screen->widest = screen->column > screen->widest ? screen->column : screen->widest;
}

static void show(struct screen *screen, const char *text)
{
    memset(screen->cell, ' ', sizeof screen->cell);
    screen->bytes = (int)strlen(text);
    while (*text) {
        if (*text == '\033') {
            text += end_escape(screen, text);
            continue;
        }
        if (*text == '\r')
            screen->column = 0;
        else if (*text == '\n')
            screen->column = 0, screen->row++;
        else if ((*text & 0xc0) != 0x80) /* a continuation byte moves nothing */
            put_cell(screen, *text < 0 ? '#' : *text);
        assert_in_range(screen->row, 0, ROWS - 1);
        text++;
    }
}

static const char *row(struct screen *screen, int number)
{
    char *text = screen->cell[number];
    int length = MOST_COLUMNS - 1;
    while (length > 0 && text[length - 1] == ' ')
        length--;
    text[length] = '\0';
    return text;
}

/* -- a terminal -------------------------------------------------------------------------------- */

struct stage {
    int master, slave;
    struct gyre_report *report;
    char text[1 << 16];
    size_t length;
};

static void raise_curtain(struct stage *stage, int columns, uint64_t epochs, uint64_t steps)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    struct gyre_report_options options = to_files();
    struct termios raw;
    memset(stage, 0, sizeof *stage);
    assert_int_equal(openpty(&stage->master, &stage->slave, NULL, NULL, &size), 0);
    assert_int_equal(tcgetattr(stage->slave, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(stage->slave, TCSANOW, &raw), 0);
    options.epochs = epochs;
    options.steps_per_epoch = steps;
    options.terminal = stage->slave;
    stage->report = opened(&options);
}

/* Closes the report and shows what it said; the last byte tells that all has come. Until then
 * nobody reads, and a terminal holds 8 KiB. */
static void drop_curtain(struct stage *stage, struct screen *screen)
{
    assert_int_equal(gyre_report_close(stage->report, NULL), 0);
    assert_int_equal(write(stage->slave, "\x04", 1), 1);
    while (!memchr(stage->text, '\x04', stage->length)) {
        ssize_t got = read(stage->master, stage->text + stage->length,
                           sizeof stage->text - 1 - stage->length);
        assert_true(got > 0);
        stage->length += (size_t)got;
    }
    stage->text[stage->length - 1] = '\0';
    close(stage->slave);
    close(stage->master);
    memset(screen, 0, sizeof *screen);
    show(screen, stage->text);
}

static void take_step(struct gyre_report *report, uint64_t step, uint64_t now_ns)
{
    struct gyre_step_record record = step_at(step);
    assert_int_equal(gyre_report_step(report, &record, now_ns, NULL), 0);
}

/* Steps 1 to `last`, one each 50 ms: 10 an epoch, so 20 epochs take 10 s. */
static void take_steps(struct gyre_report *report, uint64_t last)
{
    for (uint64_t step = 1; step <= last; step++)
        take_step(report, step, BEGAN_NS + step * 50 * GYRE_MS);
}

static void end_epoch(struct gyre_report *report, uint64_t epoch, uint64_t now_ns)
{
    struct gyre_epoch_record record = epoch_at(epoch);
    assert_int_equal(gyre_report_epoch(report, &record, now_ns, NULL), 0);
}

static const char epoch_line[] = "epoch 1/20  loss 0.4321  accuracy 87.65 %  test loss 0.5000  "
                                 "test accuracy 81.00 %  12,346 samples/s  exposed 12 %  1:02";

/* -- the progress line ------------------------------------------------------------------------- */

static void the_line_fits_and_keeps_what_is_needed(void **state)
{
    static const struct {
        int columns;
        const char *line;
    } screens[] = {
        {5, ""},
        {20, "epoch 1/20  50 %"},
        {39, "epoch 1/20  50 %  loss 0.6000"},
        {40, "epoch 1/20  50 %  loss 0.6000  ETA 0:10"},
        {80, "epoch 1/20 ######    #  50 %  12,800 samples/s  loss 0.6000  lr 0.001  ETA 0:10"},
        {200, "epoch 1/20 #####################                    #  50 %  12,800 samples/s  "
              "loss 0.6000  lr 0.001  exposed 12 %  ETA 0:10"},
    };
    struct stage stage;
    struct screen screen;
    (void)state;
    for (int i = 0; i < 6; i++) {
        raise_curtain(&stage, screens[i].columns, 20, 10);
        take_steps(stage.report, 5);
        drop_curtain(&stage, &screen);
        assert_string_equal(row(&screen, 0), screens[i].line);
        assert_true(screen.widest < screens[i].columns);
        assert_int_equal(screen.row, 1); /* what was reached stays, and the prompt comes below */
    }
}

static void a_terminal_that_shrinks_is_noticed(void **state)
{
    struct winsize small = {.ws_row = 24, .ws_col = 40};
    struct stage stage;
    struct screen screen;
    (void)state;
    raise_curtain(&stage, 120, 20, 10);
    take_step(stage.report, 1, BEGAN_NS + 50 * GYRE_MS);
    assert_int_equal(ioctl(stage.slave, TIOCSWINSZ, &small), 0);
    take_step(stage.report, 2, BEGAN_NS + 150 * GYRE_MS);
    drop_curtain(&stage, &screen);
    assert_true(screen.widest > 40);
    assert_true(strlen(row(&screen, 0)) < 40);
}

static void the_line_is_redrawn_ten_times_a_second(void **state)
{
    struct stage stage;
    struct screen screen;
    (void)state;
    raise_curtain(&stage, 80, 1, 2000);
    for (uint64_t step = 1; step <= 2000; step++)
        take_step(stage.report, step, BEGAN_NS + step * GYRE_MS);
    drop_curtain(&stage, &screen);
    assert_int_equal(screen.redraws, 19); /* and the first, which erases nothing */
}

/* What stands behind "ETA ", in seconds. */
static long time_left(const char *line)
{
    const char *at = strstr(line, "ETA ");
    long part[3] = {0}, seconds = 0;
    assert_non_null(at);
    int parts = sscanf(at + 4, "%ld:%ld:%ld", &part[0], &part[1], &part[2]);
    for (int i = 0; i < parts; i++)
        seconds = seconds * 60 + part[i];
    return seconds;
}

/* From any step on, also of a resumed run: what is left at a steady pace is what it will take. */
static void time_left_is_right_at_a_steady_pace(void **state)
{
    static const uint64_t firsts[] = {1, 4001};
    struct stage stage;
    struct screen screen;
    (void)state;
    for (int i = 0; i < 2; i++)
        for (uint64_t steps = 1; steps < 1000; steps *= 7) {
            raise_curtain(&stage, 80, 100, 100);
            uint64_t now = BEGAN_NS;
            for (uint64_t step = firsts[i]; step < firsts[i] + steps; step++)
                take_step(stage.report, step, now += 5 * GYRE_MS);
            gyre_report_note(stage.report, "drawn again");
            take_step(stage.report, firsts[i] + steps, now += 5 * GYRE_MS);
            drop_curtain(&stage, &screen);
            long left = (long)(10000 - firsts[i] - steps) * 5;
            assert_in_range(time_left(row(&screen, 1)) * 1000, left - 500, left + 500);
        }
}

static void the_bar_is_of_the_epoch(void **state)
{
    struct stage stage;
    struct screen screen;
    (void)state;
    for (uint64_t step = 1; step <= 30; step++) {
        char share[16];
        raise_curtain(&stage, 80, 20, 10);
        take_step(stage.report, step, BEGAN_NS + step * 50 * GYRE_MS);
        drop_curtain(&stage, &screen);
        snprintf(share, sizeof share, " %3d %% ", (int)((step - 1) % 10 + 1) * 10);
        assert_non_null(strstr(row(&screen, 0), share));
    }
}

static void nothing_is_guessed(void **state)
{
    struct stage stage;
    struct screen screen;
    (void)state;
    raise_curtain(&stage, 120, 0, 0);
    take_steps(stage.report, 1);
    drop_curtain(&stage, &screen);
    assert_string_equal(row(&screen, 0),
                        "epoch 1  12,800 samples/s  loss 3.0000  lr 0.001  exposed 12 %");
}

/* -- other lines ------------------------------------------------------------------------------- */

static void a_validation_stands_before_the_test(void **state)
{
    struct gyre_epoch_record record = epoch_at(1);
    struct stage stage;
    struct screen screen;
    (void)state;
    record.validated = true;
    record.validation_loss = 0.25;
    record.validation_accuracy = 0.75;
    raise_curtain(&stage, 100, 20, 10);
    assert_int_equal(gyre_report_epoch(stage.report, &record, BEGAN_NS, NULL), 0);
    drop_curtain(&stage, &screen);
    assert_non_null(strstr(row(&screen, 0), "  validation loss 0.2500  validation accuracy 75.00 %"
                                            "  test loss 0.5000  test accuracy 81.00 %"));
}

static void notes_and_epochs_stand_above_the_line(void **state)
{
    struct stage stage;
    struct screen screen;
    (void)state;
    raise_curtain(&stage, 100, 20, 10);
    take_steps(stage.report, 3);
    gyre_report_note(stage.report, "warning: rank %d is slow", 3);
    take_steps(stage.report, 10);
    end_epoch(stage.report, 1, BEGAN_NS + 500 * GYRE_MS);
    take_step(stage.report, 11, BEGAN_NS + 550 * GYRE_MS);
    drop_curtain(&stage, &screen);
    assert_string_equal(row(&screen, 0), "warning: rank 3 is slow");
    assert_string_equal(row(&screen, 1), epoch_line);
    assert_int_equal(strncmp(row(&screen, 2), "epoch 2/20 #", 12), 0);
    assert_int_equal(screen.row, 3);
}

static void colours_are_left_out_on_request(void **state)
{
    struct stage stage;
    struct screen screen;
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        plain ? setenv("NO_COLOR", "1", 1) : unsetenv("NO_COLOR");
        raise_curtain(&stage, 80, 20, 10);
        take_steps(stage.report, 3);
        gyre_report_note(stage.report, "warning: slow");
        drop_curtain(&stage, &screen);
        assert_int_equal(screen.colours > 0, !plain);
        assert_string_equal(row(&screen, 0), "warning: slow");
    }
    unsetenv("NO_COLOR");
}

static void other_terminals_get_ascii_or_lines(void **state)
{
    struct stage stage;
    struct screen screen;
    (void)state;
    setenv("LC_ALL", "C", 1);
    raise_curtain(&stage, 80, 20, 10);
    setenv("LC_ALL", "C.UTF-8", 1);
    take_steps(stage.report, 5);
    drop_curtain(&stage, &screen);
    assert_string_equal(row(&screen, 0), "epoch 1/20 [####     ]  50 %  12,800 samples/s  "
                                         "loss 0.6000  lr 0.001  ETA 0:10");
    setenv("TERM", "dumb", 1);
    raise_curtain(&stage, 80, 20, 10);
    setenv("TERM", "xterm", 1);
    take_steps(stage.report, 10);
    end_epoch(stage.report, 1, BEGAN_NS + 500 * GYRE_MS);
    drop_curtain(&stage, &screen);
    assert_string_equal(row(&screen, 0), epoch_line);
    assert_int_equal(screen.redraws + screen.colours, 0);
}

static void a_loss_that_is_none_is_seen(void **state)
{
    struct gyre_step_record record = step_at(1);
    struct stage stage;
    struct screen screen;
    (void)state;
    record.loss = -NAN;
    raise_curtain(&stage, 80, 20, 10);
    assert_int_equal(gyre_report_step(stage.report, &record, BEGAN_NS, NULL), 0);
    drop_curtain(&stage, &screen);
    assert_non_null(strstr(stage.text, "\033[31m  loss nan\033[0m"));
}

/* -- no terminal ------------------------------------------------------------------------------- */

static struct gyre_report *piped(int ends[2], bool quiet)
{
    struct gyre_report_options options = to_files();
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    options.epochs = 20;
    options.steps_per_epoch = 300;
    options.terminal = ends[1];
    options.quiet = quiet;
    return opened(&options);
}

static void read_pipe(int ends[2], char *text, size_t room)
{
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got = 1; got > 0; length += (size_t)got)
        got = read(ends[0], text + length, room - 1 - length);
    text[length] = '\0';
    close(ends[0]);
}

/* 300 steps of 100 ms: lines after 10 and 20 s, then the epoch's. */
static void report_an_epoch(struct gyre_report *report)
{
    for (uint64_t step = 1; step <= 300; step++) {
        struct gyre_step_record record = step_at(step);
        record.epoch = 1;
        assert_int_equal(
            gyre_report_step(report, &record, BEGAN_NS + step * 100 * GYRE_MS - 1, NULL), 0);
    }
    gyre_report_note(report, "warning: it is late");
    end_epoch(report, 1, BEGAN_NS + 30 * GYRE_SECOND);
    assert_int_equal(gyre_report_close(report, NULL), 0);
}

static void a_pipe_gets_plain_lines_now_and_then(void **state)
{
    char text[4096], expected[4096];
    int ends[2];
    (void)state;
    report_an_epoch(piped(ends, false));
    read_pipe(ends, text, sizeof text);
    snprintf(expected, sizeof expected,
             "epoch 1/20  33 %%  6,432 samples/s  loss 0.0297  lr 0.001  exposed 12 %%  ETA 9:50\n"
             "epoch 1/20  67 %%  6,416 samples/s  loss 0.0149  lr 0.001  exposed 12 %%  ETA 9:40\n"
             "warning: it is late\n%s\n",
             epoch_line);
    assert_string_equal(text, expected);
}

/* So that `gyre train | tee log` shows the warnings, and the log has none. */
static void warnings_have_a_way_of_their_own(void **state)
{
    struct gyre_report_options options = to_files();
    int lines[2], warnings[2];
    char text[4096];
    (void)state;
    assert_int_equal(pipe2(lines, O_CLOEXEC) | pipe2(warnings, O_CLOEXEC), 0);
    options.terminal = lines[1];
    options.warnings = warnings[1];
    struct gyre_report *report = opened(&options);
    gyre_report_note(report, "warning: it is late");
    gyre_report_note(report, "it was \x1b[2J late\xc2\x9b");
    assert_int_equal(gyre_report_close(report, NULL), 0);
    read_pipe(lines, text, sizeof text);
    assert_string_equal(text, "it was ?[2J late??\n");
    read_pipe(warnings, text, sizeof text);
    assert_string_equal(text, "warning: it is late\n");
}

static void quiet_leaves_notes(void **state)
{
    char text[4096];
    int ends[2];
    (void)state;
    report_an_epoch(piped(ends, true));
    read_pipe(ends, text, sizeof text);
    assert_string_equal(text, "warning: it is late\n");
}

static void nobody_reading_is_told_once(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_epoch_record record = epoch_at(1);
    int ends[2];
    (void)state;
    struct gyre_report *report = piped(ends, false);
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    assert_int_equal(gyre_report_epoch(report, &record, BEGAN_NS, &trouble), -EPIPE);
    assert_non_null(
        strstr(trouble.text, "writing the terminal at the end of epoch 1: Broken pipe"));
    assert_int_equal(gyre_report_epoch(report, &record, BEGAN_NS, &trouble), 0);
    assert_int_equal(gyre_report_close(report, &trouble), 0);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_fits_and_keeps_what_is_needed),
        cmocka_unit_test(a_terminal_that_shrinks_is_noticed),
        cmocka_unit_test(the_line_is_redrawn_ten_times_a_second),
        cmocka_unit_test(time_left_is_right_at_a_steady_pace),
        cmocka_unit_test(the_bar_is_of_the_epoch),
        cmocka_unit_test(nothing_is_guessed),
        cmocka_unit_test(a_validation_stands_before_the_test),
        cmocka_unit_test(notes_and_epochs_stand_above_the_line),
        cmocka_unit_test(colours_are_left_out_on_request),
        cmocka_unit_test(other_terminals_get_ascii_or_lines),
        cmocka_unit_test(a_loss_that_is_none_is_seen),
        cmocka_unit_test(a_pipe_gets_plain_lines_now_and_then),
        cmocka_unit_test(warnings_have_a_way_of_their_own),
        cmocka_unit_test(quiet_leaves_notes),
        cmocka_unit_test(nobody_reading_is_told_once),
    };
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
