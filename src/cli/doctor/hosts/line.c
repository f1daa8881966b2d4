/* Lines, cut from a stream. A line longer than the buffer is no line of ours: the other side counts
 * as ended. */
#include "cli/doctor/hosts/line.h"

#include "base/clock.h"

#include <gyre/gyre.h>

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void gyre_doctor_line_open(struct gyre_doctor_line *line, int in, int out)
{
    line->in = in;
    line->out = out;
    line->have = line->taken = 0;
}

void gyre_doctor_line_close(struct gyre_doctor_line *line)
{
    if (line->out >= 0 && line->out != line->in)
        close(line->out);
    if (line->in >= 0)
        close(line->in);
    line->in = line->out = -1;
}

bool gyre_doctor_say(struct gyre_doctor_line *line, const char *format, ...)
{
    char text[GYRE_DOCTOR_LINE_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof text - 2)
        length = (int)sizeof text - 2;
    for (int i = 0; i < length; i++)
        text[i] = text[i] == '\n' ? ' ' : text[i];
    text[length++] = '\n';
    for (int at = 0; at < length;) {
        ssize_t put = write(line->out, text + at, (size_t)(length - at));
        if (put < 0 && errno != EINTR)
            return false;
        at += put > 0 ? (int)put : 0;
    }
    return true;
}

static const char *newline(const struct gyre_doctor_line *line)
{
    return memchr(line->bytes + line->taken, '\n', line->have - line->taken);
}

bool gyre_doctor_has_line(const struct gyre_doctor_line *line)
{
    return newline(line);
}

static int read_more(struct gyre_doctor_line *line, uint64_t deadline_ns)
{
    const uint64_t now = gyre_now_ns();
    const int left_ms = now < deadline_ns ? (int)((deadline_ns - now) / GYRE_MS) + 1 : 0;
    struct pollfd wait = {.fd = line->in, .events = POLLIN};
    memmove(line->bytes, line->bytes + line->taken, line->have - line->taken);
    line->have -= line->taken;
    line->taken = 0;
    if (line->in < 0 || line->have == sizeof line->bytes)
        return GYRE_PEER_LOST;
    if (poll(&wait, 1, left_ms) == 0) /* looks once more, also where this process came late */
        return GYRE_TIMED_OUT;
    ssize_t got = read(line->in, line->bytes + line->have, sizeof line->bytes - line->have);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
        return GYRE_PEER_LOST;
    line->have += got > 0 ? (size_t)got : 0;
    return 0;
}

int gyre_doctor_hear(struct gyre_doctor_line *line, char text[GYRE_DOCTOR_LINE_MAX],
                     uint64_t deadline_ns)
{
    const char *end;
    int status;
    while (!(end = newline(line)))
        if ((status = read_more(line, deadline_ns)))
            return status;
    size_t length = (size_t)(end - (line->bytes + line->taken));
    size_t kept = length < GYRE_DOCTOR_LINE_MAX ? length : GYRE_DOCTOR_LINE_MAX - 1;
    memcpy(text, line->bytes + line->taken, kept);
    text[kept] = 0;
    line->taken += length + 1;
    return 0;
}
