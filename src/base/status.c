/* The names of statuses, and the record of a first failure.
 *
 * A trouble is written once. Code that fails because something else has failed calls
 * gyre_trouble_set() too and finds the record taken: the user reads the cause. Layers on the way up
 * may only put words in front:
 *
 *     set("connect to 10.0.0.7:4000: refused")    connect to 10.0.0.7:4000: refused
 *     set("rank 3 closed the link")               (the same: that was the echo)
 *     wrap("rank 2 joining job 1f02")             rank 2 joining job 1f02: connect to 10.0.0.7:4...
 */
#include "base/status.h"

#include "base/printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

const char *gyre_status_name(int status)
{
    switch (status) {
    case GYRE_OK:
        return "GYRE_OK";
    case GYRE_AGAIN:
        return "GYRE_AGAIN";
    case GYRE_PEER_LOST:
        return "GYRE_PEER_LOST";
    case GYRE_MISMATCH:
        return "GYRE_MISMATCH";
    case GYRE_TIMED_OUT:
        return "GYRE_TIMED_OUT";
    case GYRE_ABORTED:
        return "GYRE_ABORTED";
    case GYRE_REFUSED:
        return "GYRE_REFUSED";
    case GYRE_INVALID:
        return "GYRE_INVALID";
    case GYRE_CORRUPT:
        return "GYRE_CORRUPT";
    case GYRE_FORKED:
        return "GYRE_FORKED";
    case GYRE_UNSUPPORTED:
        return "GYRE_UNSUPPORTED";
    case GYRE_LAUNCHER_GONE:
        return "GYRE_LAUNCHER_GONE";
    }
    const char *text = status < 0 && status > -1000 ? strerrordesc_np(-status) : NULL;
    return text ? text : "unknown status";
}

/* Ends a text that did not fit in "...", so that nobody takes the cut for the end of the story, and
 * makes the whole printable: names and values in it come from files and peers. */
static void finish_text(char *text, int wanted)
{
    if (wanted >= GYRE_TROUBLE_MAX)
        memcpy(text + GYRE_TROUBLE_MAX - 4, "...", 4);
    gyre_printable_lines(text);
}

/* Names the limit of descriptors or of address space, whoever ran into it, where the text does
 * not. */
static void name_limit(struct gyre_trouble *trouble)
{
    struct rlimit space;
    size_t length = strlen(trouble->text), room = sizeof trouble->text - length;
    if (trouble->status == -EMFILE && !strstr(trouble->text, "ulimit -n"))
        snprintf(trouble->text + length, room, "; raise `ulimit -n`");
    else if (trouble->status == -ENOMEM && !strstr(trouble->text, "ulimit -v") &&
             !getrlimit(RLIMIT_AS, &space) && space.rlim_cur != RLIM_INFINITY)
        snprintf(trouble->text + length, room, "; `ulimit -v` allows %llu KiB",
                 (unsigned long long)space.rlim_cur / 1024);
}

int gyre_trouble_set(struct gyre_trouble *trouble, int status, const char *format, ...)
{
    if (!trouble || trouble->status)
        return status;
    trouble->status = status;
    trouble->ended = false;
    va_list arguments;
    va_start(arguments, format);
    finish_text(trouble->text, vsnprintf(trouble->text, sizeof trouble->text, format, arguments));
    va_end(arguments);
    name_limit(trouble);
    return status;
}

struct gyre_trouble *gyre_thread_trouble(void)
{
    static _Thread_local struct gyre_trouble trouble;
    return &trouble;
}

int gyre_refuse(const char *format, ...)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    va_list arguments;
    trouble->status = GYRE_INVALID;
    trouble->ended = false;
    va_start(arguments, format);
    finish_text(trouble->text, vsnprintf(trouble->text, sizeof trouble->text, format, arguments));
    va_end(arguments);
    return GYRE_INVALID;
}

int gyre_check_size(const char *options, size_t size, size_t known, struct gyre_trouble *trouble)
{
    if (size == known)
        return 0;
    trouble->status = 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "%s.size is %zu, this library knows %zu: set it to sizeof(struct %s)",
                            options, size, known, options);
}

int gyre_trouble_wrap(struct gyre_trouble *trouble, const char *format, ...)
{
    if (!trouble || !trouble->status)
        return 0;
    char told[GYRE_TROUBLE_MAX], front[GYRE_TROUBLE_MAX];
    memcpy(told, trouble->text, sizeof told);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(front, sizeof front, format, arguments);
    va_end(arguments);
    finish_text(trouble->text,
                snprintf(trouble->text, sizeof trouble->text, "%s: %s", front, told));
    return trouble->status;
}
