/* Damaged files against everything that reads files of strangers: safetensors, IDX (plain and
 * compressed) and CSV. The first byte of an input says which, the rest is the file.
 *
 * Built with -fsanitize=fuzzer this is a libFuzzer target; as a test it damages good files by seed,
 * GYRE_FUZZ_RUNS times (default 20,000), or reads the files named on its command line. What is
 * checked beside memory safety: a file is taken or refused with a text, and all that is taken lies
 * within it, has an end, and is found by its name. */
#include "base/bytes.h"
#include "base/rng.h"
#include "data/csv.h"
#include "data/idx.h"
#include "data/safetensors/safetensors.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST 2048

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_files: %s\n", what);
    abort();
}

static void check_told(int status, const struct gyre_trouble *trouble)
{
    check(status < 0 && trouble->status == status, "refused without a text");
    check(strncmp(trouble->text, "it", 2) == 0, "the text does not name the file");
}

/* -- one file ---------------------------------------------------------------------------------- */

static uint64_t touched;

static void touch(const void *data, uint64_t length)
{
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < length; i++)
        touched += bytes[i];
}

static void walk_tensors(const struct gyre_safetensors *file, const uint8_t *data, size_t size)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < gyre_safetensors_count(file); i++) {
        const struct gyre_stored_tensor *tensor = gyre_safetensors_at(file, i);
        const uint8_t *begin = tensor->data;
        check(gyre_safetensors_find(file, tensor->name) == tensor, "a tensor is not found");
        check(begin >= data && begin + tensor->bytes <= data + size, "a tensor lies outside");
        touch(tensor->data, tensor->bytes);
        touch(tensor->shape, tensor->dims * sizeof *tensor->shape);
        total += tensor->bytes;
    }
    check(total == size - 8 - gyre_get64(data), "bytes without a tensor");
    for (uint64_t i = 0; i < gyre_safetensors_texts(file); i++) {
        const struct gyre_stored_text *text = gyre_safetensors_text_at(file, i);
        check(gyre_safetensors_text(file, text->key) == text->value, "a text is not found");
    }
}

static void read_safetensors(const uint8_t *data, size_t size)
{
    struct gyre_trouble trouble = {0};
    struct gyre_safetensors *file;
    int status = gyre_safetensors_over(&file, "it", data, size, &trouble);
    if (status)
        check_told(status, &trouble);
    else
        walk_tensors(file, data, size);
    gyre_safetensors_close(file);
}

static void read_idx(const uint8_t *data, size_t size)
{
    struct gyre_trouble trouble = {0};
    struct gyre_idx idx;
    int status = gyre_idx_over(&idx, "it", data, size, &trouble);
    if (status)
        check_told(status, &trouble);
    for (uint64_t i = 0; i < idx.count; i++) {
        float real;
        int64_t whole = 0;
        gyre_idx_floats(&idx, i, 1, 255, &real);
        gyre_idx_wholes(&idx, i, 1, &whole);
        touched += (uint64_t)whole;
    }
    gyre_idx_close(&idx);
}

static void read_csv(const uint8_t *data, size_t size, bool header)
{
    struct gyre_trouble trouble = {0};
    struct gyre_csv csv;
    struct gyre_csv_options options = {
        .header = header, .label = header ? "y" : "first", .classes = header};
    int status = gyre_csv_over(&csv, "it", data, size, &options, &trouble);
    if (status)
        check_told(status, &trouble);
    for (uint64_t i = 0; i < csv.rows * csv.columns; i++)
        check(isfinite(csv.values[i]), "a value is not finite");
    for (uint64_t i = 0; i < csv.rows; i++)
        check(isfinite(csv.labels[i]), "a label is not finite");
    for (uint64_t i = 0; header && i < csv.columns; i++)
        touched += strlen(csv.names[i]);
    gyre_csv_close(&csv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    uint8_t *copy = malloc(size); /* exactly as long: a sanitizer sees one byte beyond */
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    copy = realloc(copy, size - 1 ? size - 1 : 1);
    if (data[0] % 4 == 0)
        read_safetensors(copy, size - 1);
    else if (data[0] % 4 == 1)
        read_idx(copy, size - 1);
    else
        read_csv(copy, size - 1, data[0] % 4 == 3);
    free(copy);
    return 0;
}

#ifndef GYRE_LIBFUZZER

/* -- good files -------------------------------------------------------------------------------- */

/* With data, or of a header only: then nothing lies behind it. */
static size_t good_safetensors(uint8_t *to, bool data)
{
    static const char only[] =
        "{\"__metadata__\":{\"\xc3\xa9\":\"\xf0\x9f\x98\x80\"},\"\xe2\x82\xac\":"
        "{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    size_t length = data ? 35 : 0;
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"1\",\"b\\n\":\"\\u00e9\xc3\xa9\"},"
        "\"epoch\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[8,8]},"
        "\"w\":{\"x\":[{\"y\":[1.5e3,true]}],\"dtype\":\"F32\",\"shape\":[2,3],"
        "\"data_offsets\":[8,32]},"
        "\"f\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[32,35]}}  ";
    const char *text = data ? header : only;
    gyre_put64(to, strlen(text));
    memcpy(to + 8, text, strlen(text));
    memset(to + 8 + strlen(text), 7, length);
    return 8 + strlen(text) + length;
}

static size_t good_idx(uint8_t *to, bool compressed)
{
    static const uint8_t plain[] = {0, 0, 0x0b, 2, 0, 0, 0, 2, 0, 0, 0, 3,
                                    0, 1, 0,    2, 0, 3, 0, 4, 0, 5, 0, 6};
    static const uint8_t packed[] = {0x1f, 0x8b, 8,    0,    0,    0,    0,    0,    2,    3,
                                     0x63, 0x60, 0xe0, 0x66, 0x62, 0x60, 0x60, 0,    0x61, 0x66,
                                     6,    0x46, 0x20, 0xcd, 0xcc, 0xc0, 0xc2, 0xc0, 0xca, 0xc0,
                                     6,    0,    0xd1, 0x90, 0x70, 0x6a, 0x18, 0,    0,    0};
    const uint8_t *from = compressed ? packed : plain;
    size_t length = compressed ? sizeof packed : sizeof plain;
    memcpy(to, from, length);
    return length;
}

static size_t good_csv(uint8_t *to, bool header)
{
    static const char plain[] = "0,1.5,-2\r\n1,3e-4,+.5\r\n2,7.,8\r\n";
    static const char named[] = "\xef\xbb\xbf\"a \"\"b\"\"\",y,c\n1.5,0,-2\n3e-4,1,5\n";
    size_t length = header ? sizeof named - 1 : sizeof plain - 1;
    memcpy(to, header ? named : plain, length);
    return length;
}

/* -- damage ------------------------------------------------------------------------------------ */

static size_t insert(uint8_t *data, size_t size, size_t at, const void *bytes, size_t length)
{
    if (size + length > FILE_MOST)
        return size;
    memmove(data + at + length, data + at, size - at);
    memcpy(data + at, bytes, length);
    return size + length;
}

/* What means something to one of the readers. */
static size_t insert_word(struct gyre_rng *rng, uint8_t *data, size_t size, size_t at)
{
    static const char *const words[] = {
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\u",
        "\\",
        "\\ud83d",
        "\\ude00",
        "\\u0000",
        "-",
        "1e999",
        ".",
        "e",
        "\n",
        "\r\n",
        "0",
        "F32",
        "F4",
        "U64",
        "4294967296",
        "null",
        "\"w\"",
        "\xf0\x9f",
        "\xff",
        "\"dtype\"",
        "18446744073709551615",
        "\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"};
    const char *word = words[gyre_rng_below(rng, sizeof words / sizeof *words)];
    return insert(data, size, at, word, strlen(word));
}

static size_t drop(uint8_t *data, size_t size, size_t at, size_t length)
{
    length = length < size - at ? length : size - at;
    memmove(data + at, data + at + length, size - at - length);
    return size - length;
}

/* The next digit becomes another. */
static size_t turn_digit(uint8_t *data, size_t size, size_t at, uint8_t byte)
{
    while (at < size && (data[at] < '0' || data[at] > '9'))
        at++;
    if (at < size)
        data[at] = (uint8_t)('0' + byte % 10);
    return size;
}

static size_t damage(struct gyre_rng *rng, uint8_t *data, size_t size)
{
    size_t at = gyre_rng_below(rng, size + 1);
    uint8_t byte = (uint8_t)gyre_rng_next(rng);
    switch (gyre_rng_below(rng, 7)) {
    case 0:
        return insert_word(rng, data, size, at);
    case 1:
        return drop(data, size, at, 1 + gyre_rng_below(rng, 12));
    case 2:
        return insert(data, size, at, &byte, 1);
    case 3:
        return gyre_rng_below(rng, 4) ? size : at;
    case 4:
        return turn_digit(data, size, at, byte);
    case 5:
        if (at < size)
            data[at] = byte;
        return size;
    default:
        if (at < size)
            data[at] ^= (uint8_t)(1u << byte % 8);
        return size;
    }
}

/* What was changed in a header would mostly be cut by its old length. */
static void mend_length(uint8_t *data, size_t before, size_t size)
{
    if (size >= 8 && before >= 8)
        gyre_put64(data, gyre_get64(data) + size - before);
}

static size_t make_case(uint64_t seed, uint8_t *data)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, seed);
    data[0] = (uint8_t)(seed % 4);
    uint8_t *file = data + 1;
    size_t good = seed % 4 == 0   ? good_safetensors(file, seed % 8 == 0)
                  : seed % 4 == 1 ? good_idx(file, seed % 8 == 1)
                                  : good_csv(file, seed % 4 == 3);
    size_t size = good;
    for (uint64_t i = gyre_rng_below(&rng, 4); i > 0; i--)
        size = damage(&rng, file, size);
    if (seed % 4 == 0 && gyre_rng_below(&rng, 4))
        mend_length(file, good, size);
    return 1 + size;
}

static int replay(const char *path)
{
    static uint8_t data[65536];
    FILE *file = fopen(path, "rb");
    if (!file)
        return 1;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    return LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    static uint8_t data[1 + FILE_MOST];
    const char *text = getenv("GYRE_FUZZ_RUNS");
    uint64_t runs = text ? strtoull(text, NULL, 10) : 20000;
    int status = 0;
    for (int i = 1; i < argc; i++)
        status |= replay(argv[i]);
    for (uint64_t seed = 0; argc < 2 && seed < runs; seed++)
        LLVMFuzzerTestOneInput(data, make_case(seed, data));
    return status;
}

#endif
