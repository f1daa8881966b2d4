/* Words between launchers.
 *
 * The buffer holds one line that is not complete yet, or complete lines that nobody has taken:
 *
 *     "signal 2\nfailed 3 rank 5 on b: ex"        gyre_ear_next() cuts the first line off, then
 *                                                 waits for the rest
 *
 * A line longer than the buffer cannot come from a launcher; the connection is treated as ended. */
#include "launch/launcher_line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void gyre_ear_close(struct gyre_ear *ear)
{
    if (ear->fd >= 0)
        close(ear->fd);
    ear->fd = -1;
}

void gyre_ear_read(struct gyre_ear *ear)
{
    size_t room = sizeof ear->line - 1 - ear->length;
    ssize_t count = room ? read(ear->fd, ear->line + ear->length, room) : 0;
    if (count < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (count <= 0)
        gyre_ear_close(ear);
    else
        ear->length += (size_t)count;
}

/* Takes the first line into `line`; false while there is none. */
static bool cut_line(struct gyre_ear *ear, char *line)
{
    char *newline = memchr(ear->line, '\n', ear->length);
    if (!newline)
        return false;
    size_t length = (size_t)(newline - ear->line);
    memcpy(line, ear->line, length);
    line[length] = 0;
    ear->length -= length + 1;
    memmove(ear->line, newline + 1, ear->length);
    return true;
}

struct gyre_heard gyre_ear_next(struct gyre_ear *ear)
{
    static char line[sizeof ear->line];
    int number = 0, text = 0;
    while (cut_line(ear, line)) {
        if (!strcmp(line, "done"))
            ear->done = true;
        else if (sscanf(line, "signal %d", &number) == 1 && number > 0 && number < 65)
            return (struct gyre_heard){GYRE_WORD_SIGNAL, number, ""};
        else if (sscanf(line, "failed %d %n", &number, &text) == 1 && number > 0 && number < 256)
            return (struct gyre_heard){GYRE_WORD_FAILED, number, line + text};
    }
    if (ear->fd < 0 && !ear->done) {
        ear->done = true;
        return (struct gyre_heard){GYRE_WORD_GONE, 1, ""};
    }
    return (struct gyre_heard){GYRE_WORD_NONE, 0, ""};
}

void gyre_ear_say(struct gyre_ear *ear, const char *format, ...)
{
    char line[sizeof ear->line];
    va_list arguments;
    if (ear->fd < 0 || ear->mute)
        return;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    length = length < (int)sizeof line - 1 ? length : (int)sizeof line - 2;
    line[length++] = '\n';
    if (send(ear->fd, line, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) != length)
        gyre_ear_close(ear);
}
