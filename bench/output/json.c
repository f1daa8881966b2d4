/* A stack of open brackets and whether something stands behind each: all that JSON's grammar needs.
 * Booleans are the words "true" and "false" in quotes, because that is what nccl-tests writes. */
#include "output/json.h"

#include <inttypes.h>
#include <math.h>

static void quote(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        unsigned char letter = (unsigned char)*text;
        if (letter == '"' || letter == '\\') {
            fprintf(file, "\\%c", letter);
        } else if (letter < 0x20) {
            fprintf(file, "\\u%04x", letter);
        } else {
            fputc(letter, file);
        }
    }
    fputc('"', file);
}

/* What stands before a value. False without a file. */
static bool begin(struct bench_json *json, const char *key)
{
    if (!json->file) {
        return false;
    }
    if (json->filled[json->depth]) {
        fputc(',', json->file);
    }
    json->filled[json->depth] = true;
    if (key) {
        quote(json->file, key);
        fputc(':', json->file);
    }
    return true;
}

void bench_json_open(struct bench_json *json, const char *key, char bracket)
{
    if (begin(json, key) && json->depth + 1 < BENCH_JSON_DEPTH) {
        fputc(bracket, json->file);
        json->closing[json->depth++] = bracket == '{' ? '}' : ']';
        json->filled[json->depth] = false;
    }
}

void bench_json_close(struct bench_json *json)
{
    if (json->file && json->depth > 0) {
        fputc(json->closing[--json->depth], json->file);
    }
}

void bench_json_text(struct bench_json *json, const char *key, const char *text)
{
    if (begin(json, key)) {
        if (text) {
            quote(json->file, text);
        } else {
            fputs("null", json->file);
        }
    }
}

void bench_json_bool(struct bench_json *json, const char *key, bool value)
{
    bench_json_text(json, key, value ? "true" : "false");
}

void bench_json_int(struct bench_json *json, const char *key, int64_t value)
{
    if (begin(json, key)) {
        fprintf(json->file, "%" PRId64, value);
    }
}

void bench_json_double(struct bench_json *json, const char *key, double value)
{
    if (isnan(value)) {
        bench_json_text(json, key, "nan");
    } else if (begin(json, key)) {
        fprintf(json->file, "%f", value);
    }
}
