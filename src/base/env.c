/* Reads numbers, sizes, times and words that people typed.
 *
 * Sizes and times are one grammar, digits[.digits][unit], with two tables of units. The value is
 * computed in integers, so "1.5G" is exact and "99999999999T" is an overflow and not a surprise.
 * Every refusal is one sentence of the shape
 *
 *     GYRE_TIMEOUT is "5 sec": expected a time such as 250ms, 5s, 30min or 2h (a bare number ...)
 */
#include "base/env.h"
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX 48 /* a longer text has no near word */

struct unit {
    const char *name;
    uint64_t scale;
};

static const struct unit size_units[] = {
    {"", 1},
    {"b", 1},
    {"k", UINT64_C(1) << 10},
    {"kb", UINT64_C(1) << 10},
    {"kib", UINT64_C(1) << 10},
    {"m", UINT64_C(1) << 20},
    {"mb", UINT64_C(1) << 20},
    {"mib", UINT64_C(1) << 20},
    {"g", UINT64_C(1) << 30},
    {"gb", UINT64_C(1) << 30},
    {"gib", UINT64_C(1) << 30},
    {"t", UINT64_C(1) << 40},
    {"tb", UINT64_C(1) << 40},
    {"tib", UINT64_C(1) << 40},
    {NULL, 0},
};

static const struct unit time_units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}, {NULL, 0},
};

/* -- integers ---------------------------------------------------------------------------------- */

int gyre_parse_int(const char *name, const char *text, int64_t least, int64_t most, int64_t *out,
                   struct gyre_trouble *trouble)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool whole = end != text && *end == '\0' && !isspace((unsigned char)*text);
    if (!whole || errno == ERANGE || value < least || value > most)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is \"%s\": expected a whole number from %" PRId64
                                " to %" PRId64,
                                name, text, least, most);
    *out = value;
    return 0;
}

/* -- digits[.digits][unit] --------------------------------------------------------------------- */

enum quantity { QUANTITY_GOOD, QUANTITY_MALFORMED, QUANTITY_TOO_LARGE };

static uint64_t scale_of(const struct unit *units, const char *name)
{
    for (; units->name; units++)
        if (strcasecmp(units->name, name) == 0)
            return units->scale;
    return 0;
}

/* The part behind the point, in units, rounded down. Digits beyond the ninth do not count. */
static uint64_t read_fraction(const char **at, uint64_t scale)
{
    uint64_t digits = 0, power = 1;
    for (; isdigit((unsigned char)**at); (*at)++) {
        if (power == 1000000000)
            continue;
        digits = digits * 10 + (uint64_t)(**at - '0');
        power *= 10;
    }
    return (uint64_t)((unsigned __int128)digits * scale / power);
}

static enum quantity read_integer(const char **at, uint64_t *value)
{
    if (!isdigit((unsigned char)**at))
        return QUANTITY_MALFORMED;
    for (*value = 0; isdigit((unsigned char)**at); (*at)++)
        if (!gyre_mul_u64(*value, 10, value) ||
            !gyre_add_u64(*value, (uint64_t)(**at - '0'), value))
            return QUANTITY_TOO_LARGE;
    return QUANTITY_GOOD;
}

static enum quantity read_quantity(const char *text, const struct unit *units, uint64_t *out)
{
    uint64_t whole, fraction = 0;
    const char *at = text;
    enum quantity read = read_integer(&at, &whole);
    if (read != QUANTITY_GOOD)
        return read;
    const char *point = *at == '.' ? at++ : NULL;
    uint64_t scale = scale_of(units, at + strspn(at, "0123456789"));
    if (!scale || (point && (scale == 1 || !isdigit((unsigned char)*at))))
        return QUANTITY_MALFORMED;
    if (point)
        fraction = read_fraction(&at, scale);
    if (!gyre_mul_u64(whole, scale, out) || !gyre_add_u64(*out, fraction, out))
        return QUANTITY_TOO_LARGE;
    return QUANTITY_GOOD;
}

int gyre_parse_size(const char *name, const char *text, uint64_t *out, struct gyre_trouble *trouble)
{
    uint64_t value;
    switch (read_quantity(text, size_units, &value)) {
    case QUANTITY_GOOD:
        *out = value;
        return 0;
    case QUANTITY_TOO_LARGE:
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is \"%s\": expected a size below 16777216T", name, text);
    default:
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is \"%s\": expected a size such as 8, 64K, 1.5M or 2G "
                                "(powers of 1024)",
                                name, text);
    }
}

int gyre_parse_duration_ms(const char *name, const char *text, int64_t *out,
                           struct gyre_trouble *trouble)
{
    uint64_t value = 0;
    enum quantity read = read_quantity(text, time_units, &value);
    if (read == QUANTITY_MALFORMED)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is \"%s\": expected a time such as 250ms, 5s, 30min or 2h "
                                "(a bare number is seconds)",
                                name, text);
    if (read == QUANTITY_TOO_LARGE || value > INT_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is \"%s\": expected a time of at most 596h", name, text);
    *out = (int64_t)value;
    return 0;
}

/* -- words ------------------------------------------------------------------------------------- */

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* The number of letters to insert, delete, replace or swap with their neighbour to get from a to b;
 * case does not count. Three rows of the usual table are enough: a swap looks two rows back. */
static int edit_distance(const char *a, const char *b)
{
    int rows[3][WORD_MAX + 1];
    int length_a = (int)strlen(a), length_b = (int)strlen(b);
    for (int j = 0; j <= length_b; j++)
        rows[0][j] = j;
    for (int i = 1; i <= length_a; i++) {
        int *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= length_b; j++) {
            int replaced = before[j - 1] + !same_letter(a[i - 1], b[j - 1]);
            now[j] = least_of(replaced, least_of(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]))
                now[j] = least_of(now[j], earlier[j - 2] + 1);
        }
    }
    return rows[length_a % 3][length_b];
}

const char *gyre_nearest_word(const char *text, const char *const *words, int count)
{
    const char *nearest = NULL;
    int best = 4;
    if (strlen(text) > WORD_MAX)
        return NULL;
    for (int i = 0; i < count; i++) {
        if (strlen(words[i]) > WORD_MAX)
            continue;
        int distance = edit_distance(text, words[i]);
        if (distance < best && 2 * distance < (int)strlen(words[i])) {
            best = distance;
            nearest = words[i];
        }
    }
    return nearest;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Whether a help text has the words of a name: "learning-rate" within "learning rate (0.01)". */
static bool tells_of(const char *help, const char *name)
{
    size_t same = 0;
    for (; help && *help && name[same]; help++)
        same = *help == (name[same] == '-' ? ' ' : name[same]) ? same + 1 : 0;
    return help && !name[same];
}

static const char *find_beginning(const char *typed, const char *const *names, int count)
{
    const char *shorter = NULL;
    for (int i = 0; i < count && strlen(typed) > 1; i++) {
        size_t length = strlen(names[i]);
        if (begins(names[i], typed))
            return names[i];
        if (begins(typed, names[i]) && (typed[length] == '-' || !typed[length + 1]))
            shorter = names[i];
    }
    return shorter;
}

const char *gyre_nearest_name(const char *typed, const char *const *names, const char *const *help,
                              int count)
{
    const char *near = find_beginning(typed, names, count);
    if (!near)
        near = gyre_nearest_word(typed, names, count);
    for (int i = 0; !near && i < count && strlen(typed) > 3; i++)
        near = tells_of(help[i], typed) ? names[i] : NULL;
    return near;
}

/* "a, b or c", cut where the room ends. */
void gyre_list_words(const char *const *words, int count, char *list, size_t room)
{
    size_t length = 0;
    list[0] = '\0';
    for (int i = 0; i < count && length < room; i++) {
        const char *between = i == 0 ? "" : i == count - 1 ? " or " : ", ";
        length += (size_t)snprintf(list + length, room - length, "%s%s", between, words[i]);
    }
}

int gyre_parse_word(const char *name, const char *text, const char *const *words, int count,
                    int *index, struct gyre_trouble *trouble)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            *index = i;
            return 0;
        }
    }
    char list[512];
    gyre_list_words(words, count, list, sizeof list);
    const char *near = gyre_nearest_word(text, words, count);
    return gyre_trouble_set(trouble, GYRE_INVALID, "%s is \"%s\": expected %s%s%s%s", name, text,
                            list, near ? " (did you mean \"" : "", near ? near : "",
                            near ? "\"?)" : "");
}

/* -- the environment --------------------------------------------------------------------------- */

/* The value of a variable, NULL when it is unset or empty. */
static const char *environment_value(const char *name)
{
    const char *text = getenv(name);
    return text && text[0] ? text : NULL;
}

int gyre_env_int(const char *name, int64_t least, int64_t most, int64_t *out,
                 struct gyre_trouble *trouble)
{
    const char *text = environment_value(name);
    return text ? gyre_parse_int(name, text, least, most, out, trouble) : 0;
}

int gyre_env_size(const char *name, uint64_t *out, struct gyre_trouble *trouble)
{
    const char *text = environment_value(name);
    return text ? gyre_parse_size(name, text, out, trouble) : 0;
}

int gyre_env_duration_ms(const char *name, int64_t *out, struct gyre_trouble *trouble)
{
    const char *text = environment_value(name);
    return text ? gyre_parse_duration_ms(name, text, out, trouble) : 0;
}

int gyre_env_word(const char *name, const char *const *words, int count, int *index,
                  struct gyre_trouble *trouble)
{
    const char *text = environment_value(name);
    return text ? gyre_parse_word(name, text, words, count, index, trouble) : 0;
}

int gyre_env_refuse_zero(const char *name, uint64_t value, struct gyre_trouble *trouble)
{
    const char *text = environment_value(name);
    if (!text || value)
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID, "%s is \"%s\": expected more than 0", name,
                            text);
}
