/* The tuning table and its file.
 *
 * One list of keys serves reading, writing and hashing:
 *
 *     "loopback.latency_ns"  ──▶  offset in struct gyre_tuning, least and most
 *
 * A file is read strictly. All ranks must agree on its values, so an unknown word is a mistake and
 * not a comment. */
#include "collectives/choose/tuning.h"

#include "base/disk/regular.h"
#include "base/env.h"
#include "base/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (64 * 1024)
#define WORD_MAX 64

const char *const gyre_link_kind_name[] = {"network", "loopback", "shm", "mapped"};

/* The prices of loopback and shared memory are those of the machine of bench/README.md. The network
 * is 25 Gbit/s behind one switch. */
const struct gyre_tuning gyre_tuning_built_in = {
    .link = {[GYRE_LINK_NETWORK] = {15000, 2000, 15000, 350000},
             [GYRE_LINK_LOOPBACK] = {1500, 16000, 12000, 340000},
             [GYRE_LINK_SHM] = {500, 700, 1000, 120000},
             [GYRE_LINK_MAPPED] = {60, 30, 250, 12000}},
    .line_kib_ps = 70000,
    .shared_kib_ps = 12000,
    .own_cache_kib = 1024,
    .memory_kib_ps = 36000,
    .shared_cache_kib = 16384,
    .fold_kib_ps = 40000,
    .crowd = 16,
    .window_kib = 16384,
    .spill_percent = 34,
};

/* -- keys -------------------------------------------------------------------------------------- */

struct key {
    const char *name;
    size_t offset;
    int kind; /* of link; -1: none */
    uint64_t least, most;
};

#define LINK_KEY(kind, word, field, least, most)                                                   \
    {                                                                                              \
        word "." #field, offsetof(struct gyre_tuning, link[kind].field), kind, least, most         \
    }
#define LINK_KEYS(kind, word)                                                                      \
    LINK_KEY(kind, word, latency_ns, 0, 1000000000),                                               \
        LINK_KEY(kind, word, message_ns, 0, 1000000000),                                           \
        LINK_KEY(kind, word, grant_ns, 0, 1000000000),                                             \
        LINK_KEY(kind, word, kib_ps, 1, 1000000000000)
#define OWN_KEY(kind, word, field, least, most)                                                    \
    {                                                                                              \
        word "." #field, offsetof(struct gyre_tuning, field), kind, least, most                    \
    }
#define NETWORK_KEY(field, least, most) OWN_KEY(GYRE_LINK_NETWORK, "network", field, least, most)
#define MAPPED_KEY(field, least, most)  OWN_KEY(GYRE_LINK_MAPPED, "mapped", field, least, most)
#define PLAIN_KEY(field, least, most)                                                              \
    {                                                                                              \
#field, offsetof(struct gyre_tuning, field), -1, least, most                               \
    }

static const struct key keys[] = {
    LINK_KEYS(GYRE_LINK_NETWORK, "network"),
    NETWORK_KEY(incast_kib_ps, 0, 1000000000000),
    NETWORK_KEY(burst_bytes, 0, 1 << 30),
    LINK_KEYS(GYRE_LINK_LOOPBACK, "loopback"),
    LINK_KEYS(GYRE_LINK_SHM, "shm"),
    LINK_KEYS(GYRE_LINK_MAPPED, "mapped"),
    MAPPED_KEY(line_kib_ps, 0, 1000000000000),
    MAPPED_KEY(shared_kib_ps, 0, 1000000000000),
    MAPPED_KEY(own_cache_kib, 1, 1 << 30),
    MAPPED_KEY(memory_kib_ps, 0, 1000000000000),
    MAPPED_KEY(shared_cache_kib, 1, 1 << 30),
    PLAIN_KEY(fold_kib_ps, 1, 1000000000),
    PLAIN_KEY(crowd, 1, 1000000),
    PLAIN_KEY(window_kib, 1, 1 << 30),
    PLAIN_KEY(spill_percent, 0, 1000),
};

enum { KEYS = sizeof keys / sizeof *keys };

static uint64_t *field(struct gyre_tuning *tuning, const struct key *key)
{
    return (uint64_t *)(void *)((char *)tuning + key->offset);
}

static uint64_t value(const struct gyre_tuning *tuning, const struct key *key)
{
    return *(const uint64_t *)(const void *)((const char *)tuning + key->offset);
}

static int find_key(const char *name)
{
    for (int i = 0; i < KEYS; i++)
        if (strcmp(keys[i].name, name) == 0)
            return i;
    return -1;
}

uint64_t gyre_tuning_hash(const struct gyre_tuning *tuning)
{
    uint64_t hash = 0;
    for (int i = 0; i < KEYS; i++)
        hash = gyre_mix64(hash + value(tuning, &keys[i]));
    return hash;
}

void gyre_tuning_take(struct gyre_tuning *tuning, const struct gyre_tuning *from, uint32_t kinds)
{
    for (int i = 0; i < KEYS; i++)
        if (keys[i].kind >= 0 && kinds & 1u << keys[i].kind)
            *field(tuning, &keys[i]) = value(from, &keys[i]);
}

/* -- reading ----------------------------------------------------------------------------------- */

struct reader {
    const char *name;
    uint32_t line;
    bool begun, ended;
    uint32_t values, kinds;
    bool seen[KEYS];
    struct gyre_tuning tuning;
    struct gyre_trouble *trouble;
};

static int refuse_tuning(const struct reader *r, const char *format, const char *a, const char *b)
{
    char what[256];
    snprintf(what, sizeof what, format, a, b);
    return gyre_trouble_set(r->trouble, GYRE_INVALID,
                            "%s, line %" PRIu32 ": %s; `gyre tune` writes a new file", r->name,
                            r->line, what);
}

static int read_price(const struct reader *r, const char *key, const char *text, uint64_t least,
                      uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number < least || number > most) {
        char range[64];
        snprintf(range, sizeof range, "%" PRIu64 " to %" PRIu64, least, most);
        char what[WORD_MAX * 2 + 8];
        snprintf(what, sizeof what, "%s is \"%s\"", key, text);
        return refuse_tuning(r, "%s: expected a whole number from %s", what, range);
    }
    *out = number;
    return 0;
}

static int unknown_key(const struct reader *r, const char *word)
{
    const char *names[KEYS];
    for (int i = 0; i < KEYS; i++)
        names[i] = keys[i].name;
    const char *near = gyre_nearest_word(word, names, KEYS);
    return near ? refuse_tuning(r, "unknown key \"%s\" (did you mean \"%s\"?)", word, near)
                : refuse_tuning(r, "unknown key \"%s\"%s", word, "");
}

static int read_begin(struct reader *r, const char *word, const char *number)
{
    if (strcmp(word, "gyre-tuning") != 0)
        return refuse_tuning(r, "\"%s\" where \"gyre-tuning 1\" is expected%s", word, "");
    if (strcmp(number, "1") != 0)
        return refuse_tuning(r, "version \"%s\" of the format is unknown, only 1 is known%s",
                             number, "");
    r->begun = true;
    return 0;
}

static int read_end(struct reader *r, const char *number)
{
    uint64_t promised;
    int status = read_price(r, "values", number, 0, KEYS, &promised);
    if (status)
        return status;
    char found[16];
    snprintf(found, sizeof found, "%" PRIu32, r->values);
    r->ended = true;
    return promised == r->values
               ? 0
               : refuse_tuning(r, "values says %s, but %s were read", number, found);
}

static int read_value(struct reader *r, const char *word, const char *number)
{
    int k = find_key(word);
    if (k < 0)
        return unknown_key(r, word);
    if (r->seen[k])
        return refuse_tuning(r, "%s is there twice%s", word, "");
    r->seen[k] = true;
    r->values++;
    r->kinds |= keys[k].kind >= 0 ? 1u << keys[k].kind : 0;
    return read_price(r, word, number, keys[k].least, keys[k].most, field(&r->tuning, &keys[k]));
}

static int read_line(struct reader *r, const char *line)
{
    char word[WORD_MAX], number[WORD_MAX], rest[2];
    int words = sscanf(line, "%63s %63s %1s", word, number, rest);
    if (words < 1 || word[0] == '#')
        return 0;
    if (words != 2)
        return refuse_tuning(r, "\"%s\": expected a key and a number%s", line, "");
    if (!r->begun)
        return read_begin(r, word, number);
    if (r->ended)
        return refuse_tuning(r, "\"%s\" behind the end%s", word, "");
    return strcmp(word, "values") == 0 ? read_end(r, number) : read_value(r, word, number);
}

int gyre_tuning_parse(const char *name, const char *text, struct gyre_tuning *tuning,
                      uint32_t *kinds, struct gyre_trouble *trouble)
{
    struct reader r = {.name = name, .tuning = gyre_tuning_built_in, .trouble = trouble};
    int status = 0;
    for (const char *at = text; !status && *at;) {
        char line[256];
        size_t length = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(length < 255 ? length : 255), at);
        at += length + (at[length] == '\n');
        r.line++;
        status = read_line(&r, line);
    }
    if (status)
        return status;
    if (!r.begun)
        return refuse_tuning(&r, "no \"gyre-tuning 1\" in it%s%s", "", "");
    if (!r.ended)
        return refuse_tuning(&r, "it ends without \"values\": it was cut short%s%s", "", "");
    *tuning = r.tuning;
    if (kinds)
        *kinds = r.kinds;
    return 0;
}

int gyre_tuning_read(const char *path, struct gyre_tuning *tuning, uint32_t *kinds,
                     struct gyre_trouble *trouble)
{
    struct gyre_trouble refused = {0};
    char *text;
    uint64_t length;
    int status = gyre_regular_read(path, FILE_MAX, &text, &length, &refused);
    if (status)
        return gyre_trouble_set(trouble, status, "tuning file %s; `gyre tune` writes one",
                                refused.text);
    status = memchr(text, '\0', length)
                 ? gyre_trouble_set(trouble, GYRE_INVALID,
                                    "tuning file %s: not a text; `gyre tune` writes one", path)
                 : gyre_tuning_parse(path, text, tuning, kinds, trouble);
    free(text);
    return status;
}

/* -- writing ----------------------------------------------------------------------------------- */

int gyre_tuning_format(char *text, size_t size, const struct gyre_tuning *tuning, uint32_t measured)
{
    int length = snprintf(text, size, "gyre-tuning 1\n"), values = 0;
    for (int i = 0; i < KEYS; i++) {
        if (keys[i].kind >= 0 && !(measured & 1u << keys[i].kind))
            continue;
        size_t used = (size_t)length < size ? (size_t)length : size;
        length += snprintf(text + used, size - used, "%s %" PRIu64 "\n", keys[i].name,
                           value(tuning, &keys[i]));
        values++;
    }
    size_t used = (size_t)length < size ? (size_t)length : size;
    return length + snprintf(text + used, size - used, "values %d\n", values);
}
