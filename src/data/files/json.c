/* The cursor over JSON.
 *
 *     {"a" : [1, 2]}          open '{'   more '}' → yes   key "a"   open '['   more ']' → yes …
 *      ▲ at
 *
 * The caller knows what must come. Only skip() does not: it remembers the kinds of the brackets
 * around it in the bits of one word, the innermost lowest. Tested by
 * tests/unit/data/safetensors/safetensors_test.c. */
#include "data/files/json.h"

#include "base/printable.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- bytes ------------------------------------------------------------------------------------- */

struct gyre_json gyre_json_over(const char *name, const void *text, uint64_t length,
                                struct gyre_trouble *trouble)
{
    const uint8_t *begin = text;
    return (struct gyre_json){
        .name = name, .begin = begin, .at = begin, .end = begin + length, .trouble = trouble};
}

/* Lines and characters count from 1. */
static int refuse_line(const struct gyre_json *json, const uint8_t *at, const char *what)
{
    unsigned line = 1, column = 1;
    for (const uint8_t *c = json->begin; c < at; c++) {
        line += *c == '\n';
        column = *c == '\n' ? 1 : column + ((*c & 0xc0) != 0x80);
    }
    return gyre_trouble_set(json->trouble, GYRE_INVALID, "%s: %sline %u, column %u: %s", json->name,
                            json->inside, line, column, what);
}

static int refuse_json(const struct gyre_json *json, const uint8_t *at, const char *what)
{
    if (json->by_line)
        return refuse_line(json, at, what);
    return gyre_trouble_set(json->trouble, GYRE_INVALID, "%s: %sbyte %" PRIu64 " of its JSON: %s",
                            json->name, json->inside, (uint64_t)(at - json->begin), what);
}

int gyre_json_refuse(const struct gyre_json *json, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return refuse_json(json, json->at, what);
}

/* Refuses the text, and names the byte found in place of the expected one. */
static int expected(const struct gyre_json *json, const char *what)
{
    char text[96];
    if (json->at == json->end)
        snprintf(text, sizeof text, "it ends where %s is expected", what);
    else if (*json->at > ' ' && *json->at < 0x7f)
        snprintf(text, sizeof text, "'%c' where %s is expected", *json->at, what);
    else
        snprintf(text, sizeof text, "byte 0x%02x where %s is expected", *json->at, what);
    return refuse_json(json, json->at, text);
}

static void skip_space(struct gyre_json *json)
{
    while (json->at < json->end && *json->at && strchr(" \t\n\r", *json->at))
        json->at++;
}

static bool take_byte(struct gyre_json *json, char byte)
{
    skip_space(json);
    if (json->at == json->end || *json->at != (uint8_t)byte)
        return false;
    json->at++;
    return true;
}

/* -- structure --------------------------------------------------------------------------------- */

int gyre_json_open(struct gyre_json *json, char bracket)
{
    if (!take_byte(json, bracket))
        return expected(json, bracket == '{' ? "an object" : "an array");
    json->fresh = true;
    return 0;
}

int gyre_json_more(struct gyre_json *json, char closing, bool *more)
{
    bool fresh = json->fresh;
    json->fresh = false;
    *more = !take_byte(json, closing);
    if (*more && !fresh && !take_byte(json, ','))
        return expected(json, closing == '}' ? "',' or '}'" : "',' or ']'");
    return 0;
}

int gyre_json_key(struct gyre_json *json, char *to)
{
    int status = gyre_json_string(json, to);
    if (!status && !take_byte(json, ':'))
        status = expected(json, "':'");
    return status;
}

int gyre_json_end(struct gyre_json *json)
{
    skip_space(json);
    return json->at == json->end ? 0 : expected(json, "the end");
}

/* -- strings ----------------------------------------------------------------------------------- */

static int hex4(struct gyre_json *json, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = json->at < json->end && *json->at ? strchr(digits, *json->at) : NULL;
        if (!digit)
            return expected(json, "a hexadecimal digit");
        *value = *value << 4 | (uint32_t)(digit - digits) % 16;
    }
    return 0;
}

static char *put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *to++ = (char)((0xf0e0c0u >> (8 * (more - 1)) & 0xff) | code >> (6 * more));
    while (more-- > 0)
        *to++ = (char)(0x80 | (code >> (6 * more) & 0x3f));
    return to;
}

/* Takes the digits behind "\u". A character beyond 16 bits has two such escapes. */
static int take_code(struct gyre_json *json, char **to)
{
    const uint8_t *from = json->at - 2;
    uint32_t code, low;
    int status = hex4(json, &code);
    if (status)
        return status;
    if (code == 0)
        return refuse_json(json, from, "a string holds U+0000, which a name in C cannot");
    if (code >= 0xdc00 && code < 0xe000)
        return refuse_json(json, from, "the second half of a surrogate pair without the first");
    if (code >= 0xd800 && code < 0xdc00) {
        if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
            return refuse_json(json, from, "the first half of a surrogate pair without the second");
        json->at += 2;
        if ((status = hex4(json, &low)))
            return status;
        if (low < 0xdc00 || low >= 0xe000)
            return refuse_json(json, from, "the first half of a surrogate pair without the second");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = put_utf8(*to, code);
    return 0;
}

static int take_escape(struct gyre_json *json, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *name = json->at < json->end && *json->at ? strchr(names, *json->at) : NULL;
    if (name) {
        json->at++;
        *(*to)++ = values[name - names];
        return 0;
    }
    if (json->at == json->end || *json->at != 'u')
        return expected(json, "one of \"\\/bfnrtu after '\\'");
    json->at++;
    return take_code(json, to);
}

bool gyre_json_is_utf8(const char *text)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + strlen(text);
    size_t length = 1;
    while (at < end && (length = gyre_utf8_length(at, end)))
        at += length;
    return length > 0;
}

int gyre_json_string(struct gyre_json *json, char *to)
{
    if (!take_byte(json, '"'))
        return expected(json, "a string");
    while (json->at < json->end && *json->at != '"') {
        size_t length = gyre_utf8_length(json->at, json->end);
        int status = 0;
        if (!length)
            return refuse_json(json, json->at, "a string is not UTF-8");
        if (*json->at < ' ')
            return refuse_json(json, json->at, "a string holds a control character, not escaped");
        if (*json->at == '\\') {
            json->at++;
            status = take_escape(json, &to);
        } else {
            memcpy(to, json->at, length);
            to += length;
            json->at += length;
        }
        if (status)
            return status;
    }
    *to = '\0';
    return take_byte(json, '"') ? 0 : expected(json, "'\"'");
}

/* -- other values ------------------------------------------------------------------------------ */

static bool at_digit(const struct gyre_json *json)
{
    return json->at < json->end && *json->at >= '0' && *json->at <= '9';
}

int gyre_json_whole(struct gyre_json *json, uint64_t *value)
{
    skip_space(json);
    const uint8_t *from = json->at;
    *value = 0;
    while (at_digit(json)) {
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, *json->at - '0', value))
            return refuse_json(json, from, "a number is larger than 2^64 - 1");
        json->at++;
    }
    if (json->at == from || (json->at < json->end && *json->at && strchr(".eE", *json->at)))
        return expected(json, "a whole number");
    if (*from == '0' && json->at > from + 1)
        return refuse_json(json, from, "a number begins with 0");
    return 0;
}

static bool take_digits(struct gyre_json *json)
{
    const uint8_t *from = json->at;
    while (at_digit(json))
        json->at++;
    return json->at > from;
}

static bool take_one_of(struct gyre_json *json, const char *bytes)
{
    bool there = json->at < json->end && *json->at && strchr(bytes, *json->at);
    json->at += there;
    return there;
}

static int skip_number(struct gyre_json *json)
{
    take_one_of(json, "-");
    bool zero = json->at < json->end && *json->at == '0';
    json->at += zero;
    if (!zero && !take_digits(json))
        return expected(json, "a value");
    if (take_one_of(json, ".") && !take_digits(json))
        return expected(json, "a digit");
    if (take_one_of(json, "eE")) {
        take_one_of(json, "+-");
        if (!take_digits(json))
            return expected(json, "a digit");
    }
    return 0;
}

static int skip_string(struct gyre_json *json)
{
    char piece[8], *to;
    json->at++;
    while (json->at < json->end && *json->at != '"') {
        size_t length = gyre_utf8_length(json->at, json->end);
        int status = 0;
        if (!length || *json->at < ' ')
            return refuse_json(json, json->at,
                               "a string is not UTF-8 or holds a control character");
        json->at += length;
        if (json->at[-1] == '\\')
            status = take_escape(json, (to = piece, &to));
        if (status)
            return status;
    }
    return take_byte(json, '"') ? 0 : expected(json, "'\"'");
}

static int skip_plain(struct gyre_json *json)
{
    static const char *const words[] = {"true", "false", "null"};
    if (json->at < json->end && *json->at == '"')
        return skip_string(json);
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(json->end - json->at) >= length && !memcmp(json->at, words[i], length)) {
            json->at += length;
            return 0;
        }
    }
    return skip_number(json);
}

static int skip_key(struct gyre_json *json)
{
    skip_space(json);
    if (json->at == json->end || *json->at != '"')
        return expected(json, "a string");
    int status = skip_string(json);
    return status ? status : take_byte(json, ':') ? 0 : expected(json, "':'");
}

int gyre_json_skip(struct gyre_json *json)
{
    uint64_t objects = 0; /* bit 0: the innermost bracket is '{' */
    int depth = 0, status;
    for (;;) {
        bool object = take_byte(json, '{'), more = false;
        if (object || take_byte(json, '[')) {
            if (depth++ == GYRE_JSON_DEEPEST)
                return refuse_json(json, json->at - 1, "brackets are nested deeper than 64 levels");
            objects = objects << 1 | object;
            json->fresh = true;
        } else if ((status = skip_plain(json))) {
            return status;
        }
        while (depth > 0 && !more) {
            if ((status = gyre_json_more(json, objects & 1 ? '}' : ']', &more)))
                return status;
            depth -= !more;
            objects >>= !more;
        }
        if (!more)
            return 0;
        if ((objects & 1) && (status = skip_key(json)))
            return status;
    }
}
