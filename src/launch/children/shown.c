/* Lines are known by their length and sum. A line that came through another launcher has its rank
 * before it: "[3] gyre train: …". Tested by tests/unit/launch/launch_test.c. */
#include "launch/children/shown.h"

#include "base/crc.h"

#include <string.h>

/* The characters of "[3] " at the beginning; 0: there are none. */
static size_t rank_before(const char *line, size_t length)
{
    size_t digits = 0;
    while (1 + digits < length && line[1 + digits] >= '0' && line[1 + digits] <= '9')
        digits++;
    bool is = length > digits + 2 && line[0] == '[' && digits && line[1 + digits] == ']' &&
              line[2 + digits] == ' ';
    return is ? digits + 3 : 0;
}

/* The same for "rank 3 (pid 77): no card" and "rank 4 (pid 78): no card". */
static uint64_t name_but_for_ranks(const char *line, size_t length)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < length; i++) {
        bool number = line[i] >= '0' && line[i] <= '9';
        bool named = (i >= 5 && memcmp(line + i - 5, "rank ", 5) == 0) ||
                     (i >= 4 && memcmp(line + i - 4, "pid ", 4) == 0);
        while (named && number && i + 1 < length && line[i + 1] >= '0' && line[i + 1] <= '9')
            i++;
        if (!named || !number)
            sum = gyre_crc32c(sum, line + i, 1);
    }
    return sum;
}

/* "gyre COMMAND: ", "gyre_init: " */
static bool is_failure(const char *line, size_t length)
{
    size_t at = 4;
    if (length < at || memcmp(line, "gyre", at) != 0)
        return false;
    while (at < length && ((line[at] >= 'a' && line[at] <= 'z') || strchr(" _", line[at])))
        at++;
    return at < length && line[at] == ':';
}

static bool is_among(const uint64_t *names, unsigned count, uint64_t name)
{
    for (unsigned i = 0; i < count; i++)
        if (names[i] == name)
            return true;
    return false;
}

static bool admit_failure(struct gyre_shown *shown, uint64_t name)
{
    if (is_among(shown->failure, shown->failures, name))
        return false;
    if (shown->failures == GYRE_SHOWN_FAILURES) {
        shown->left_out++;
        return false;
    }
    shown->failure[shown->failures++] = name;
    return true;
}

static uint64_t name_of(const char *line, size_t length)
{
    return is_failure(line, length) ? name_but_for_ranks(line, length)
                                    : (uint64_t)length << 32 | gyre_crc32c(0, line, length);
}

bool gyre_shown_admit(struct gyre_shown *shown, const char *line, size_t length)
{
    size_t before = rank_before(line, length);
    line += before;
    length -= before;
    if (is_failure(line, length) && !admit_failure(shown, name_of(line, length)))
        return false;
    shown->recent[shown->lines++ % GYRE_SHOWN_RECENT] = name_of(line, length);
    return true;
}

bool gyre_shown_recently(const struct gyre_shown *shown, const char *text)
{
    size_t length = strlen(text), before = rank_before(text, length);
    unsigned count = shown->lines < GYRE_SHOWN_RECENT ? shown->lines : GYRE_SHOWN_RECENT;
    return is_among(shown->recent, count, name_of(text + before, length - before));
}
