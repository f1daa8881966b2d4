/* Lines for people, on standard error.
 *
 * One call is one write(2) of at most PIPE_BUF bytes, so lines of many ranks on one pipe never mix.
 * There is no lock and no buffer that outlives the call: a line is out even if the next instruction
 * crashes. Level and host name are found once, at the first line; the rank may become known later.
 * errno is kept, so a failure can be logged before it is returned. */
#include "base/log.h"
#include "base/env.h"
#include "base/printable.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static char host[256];
static int level = GYRE_LOG_WARN;
static struct gyre_trouble level_trouble;
static atomic_flag told = ATOMIC_FLAG_INIT;    /* whether a wrong level has been told */
static _Atomic uint64_t identity = UINT64_MAX; /* the first rank above, the last below */

static int read_level(int *out, struct gyre_trouble *trouble)
{
    static const char *const words[] = {"error", "warn", "info", "debug"};
    return gyre_env_word("GYRE_LOG", words, 4, out, trouble);
}

static void prepare_log(void)
{
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        strcpy(host, "unknown-host");
    read_level(&level, &level_trouble);
}

static int prefix(char *line)
{
    uint64_t ranks = atomic_load_explicit(&identity, memory_order_relaxed);
    int first = (int)(ranks >> 32), last = (int)(uint32_t)ranks;
    if (first < 0)
        return sprintf(line, "gyre[%s]: ", host);
    return first == last ? sprintf(line, "gyre[rank %d @ %s]: ", first, host)
                         : sprintf(line, "gyre[ranks %d-%d @ %s]: ", first, last, host);
}

static void write_line(const char *line, size_t length)
{
    ssize_t written;
    do
        written = write(STDERR_FILENO, line, length);
    while (written < 0 && errno == EINTR);
}

static void log_arguments(const char *format, va_list arguments)
{
    char line[LINE_MAX_BYTES];
    size_t length = (size_t)prefix(line);
    size_t room = sizeof line - length - 1; /* of the text; the last byte is for the newline */
    int wanted = vsnprintf(line + length, room, format, arguments);
    if (wanted < 0)
        wanted = 0;
    if ((size_t)wanted >= room) {
        wanted = (int)room - 1;
        memcpy(line + length + wanted - 3, "...", 3);
    }
    gyre_printable_lines(line + length);
    length += (size_t)wanted;
    if (line[length - 1] != '\n')
        line[length++] = '\n';
    write_line(line, length);
}

/* Tells a wrong GYRE_LOG in one line, by the first thread that logs. */
static void tell_bad_level(void)
{
    if (level_trouble.status && !atomic_flag_test_and_set(&told))
        gyre_log(GYRE_LOG_ERROR, "%s", level_trouble.text);
}

void gyre_log(enum gyre_log_level line_level, const char *format, ...)
{
    int saved = errno;
    pthread_once(&prepared, prepare_log);
    tell_bad_level();
    if ((int)line_level <= level) {
        va_list arguments;
        va_start(arguments, format);
        log_arguments(format, arguments);
        va_end(arguments);
    }
    errno = saved;
}

int gyre_log_check(struct gyre_trouble *trouble)
{
    int wanted;
    int status = read_level(&wanted, trouble);
    if (status)
        atomic_flag_test_and_set(&told);
    return status;
}

void gyre_log_identity(int first, int last)
{
    uint64_t ranks = (uint64_t)(uint32_t)first << 32 | (uint32_t)last;
    atomic_store_explicit(&identity, ranks, memory_order_relaxed);
}

const char *gyre_host_name(void)
{
    pthread_once(&prepared, prepare_log);
    return host;
}
