/* Lines between launchers.
 *
 * The buffer holds one incomplete line, or complete lines that have not been taken:
 *
 *     "signal 2\nfailed 3 rank 5 on b: ex"   gyre_launcher_line_next() cuts the first line off,
 *                                            then waits for the rest
 *
 * A line longer than the buffer cannot come from a launcher; the connection is treated as ended.
 *
 * Tested by tests/unit/launch/launch_test.c. */
#include "launch/children/launcher_line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void gyre_launcher_line_close(struct gyre_launcher_line *launcher_line)
{
    if (launcher_line->fd >= 0)
        close(launcher_line->fd);
    launcher_line->fd = -1;
}

void gyre_launcher_line_read(struct gyre_launcher_line *launcher_line)
{
    size_t room = sizeof launcher_line->line - 1 - launcher_line->length;
    ssize_t count =
        room ? read(launcher_line->fd, launcher_line->line + launcher_line->length, room) : 0;
    if (count < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (count <= 0)
        gyre_launcher_line_close(launcher_line);
    else
        launcher_line->length += (size_t)count;
}

/* Takes the first line into `line`; false while there is none. */
static bool cut_line(struct gyre_launcher_line *launcher_line, char *line)
{
    char *newline = memchr(launcher_line->line, '\n', launcher_line->length);
    if (!newline)
        return false;
    size_t length = (size_t)(newline - launcher_line->line);
    memcpy(line, launcher_line->line, length);
    line[length] = 0;
    launcher_line->length -= length + 1;
    memmove(launcher_line->line, newline + 1, launcher_line->length);
    return true;
}

/* Words without anything behind them; NONE: it is none of them. */
static enum gyre_word find_plain_word(const char *line)
{
    static const struct {
        const char *text;
        enum gyre_word word;
    } plain[] = {{"ended", GYRE_WORD_ENDED}, {"over", GYRE_WORD_OVER},
                 {"again", GYRE_WORD_AGAIN}, {"forget", GYRE_WORD_FORGET},
                 {"well", GYRE_WORD_WELL},   {"closing", GYRE_WORD_CLOSING},
                 {"leave", GYRE_WORD_LEAVE}, {"done", GYRE_WORD_DONE}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(line, plain[i].text))
            return plain[i].word;
    return GYRE_WORD_NONE;
}

static bool is_exit_code(int number)
{
    return number > 0 && number < 256;
}

/* A line with something behind its word; NONE: it is none. */
static struct gyre_heard read_word(const char *line)
{
    int number = 0, text = 0, node = 0, ranks = 0;
    if (sscanf(line, "signal %d", &number) == 1 && number > 0 && number < 65)
        return (struct gyre_heard){GYRE_WORD_SIGNAL, number, "", 0, 0};
    if (sscanf(line, "failed %d %n", &number, &text) == 1 && is_exit_code(number))
        return (struct gyre_heard){GYRE_WORD_FAILED, number, line + text, 0, 0};
    if (sscanf(line, "lost %d %d %d %n", &node, &ranks, &number, &text) == 3 &&
        is_exit_code(number) && node >= 0 && ranks >= 0)
        return (struct gyre_heard){GYRE_WORD_LOST, number, line + text, node, ranks};
    if (sscanf(line, "restart %d %d %n", &number, &ranks, &text) == 2 && number > 0 &&
        ranks >= number)
        return (struct gyre_heard){GYRE_WORD_RESTART, number, line + text, 0, ranks};
    if (sscanf(line, "back %d %d %n", &node, &ranks, &text) == 2 && node >= 0 && ranks > 0)
        return (struct gyre_heard){GYRE_WORD_BACK, 0, line + text, node, ranks};
    return (struct gyre_heard){find_plain_word(line), 0, "", 0, 0};
}

struct gyre_heard gyre_launcher_line_next(struct gyre_launcher_line *launcher_line)
{
    static char line[sizeof launcher_line->line];
    while (cut_line(launcher_line, line)) {
        struct gyre_heard heard = read_word(line);
        launcher_line->done |= heard.word == GYRE_WORD_OVER || heard.word == GYRE_WORD_AGAIN ||
                               heard.word == GYRE_WORD_DONE;
        if (heard.word != GYRE_WORD_NONE)
            return heard;
    }
    if (launcher_line->fd < 0 && !launcher_line->done) {
        launcher_line->done = true;
        return (struct gyre_heard){GYRE_WORD_GONE, 1, "", 0, 0};
    }
    return (struct gyre_heard){GYRE_WORD_NONE, 0, "", 0, 0};
}

void gyre_launcher_line_say(struct gyre_launcher_line *launcher_line, const char *format, ...)
{
    char line[sizeof launcher_line->line];
    va_list arguments;
    if (launcher_line->fd < 0 || launcher_line->mute)
        return;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    length = length < (int)sizeof line - 1 ? length : (int)sizeof line - 2;
    line[length++] = '\n';
    if (send(launcher_line->fd, line, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) != length)
        gyre_launcher_line_close(launcher_line);
}
