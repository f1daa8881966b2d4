/* Damaged files against everything that reads files of strangers: safetensors, IDX (plain and
 * compressed), CSV and CIFAR-10. The first byte of an input says which, the rest is the file. A
 * seed damages a good file.
 *
 * What is checked beside memory safety: a file is taken or refused with a text, and all that is
 * taken lies within it, has an end, and is found by its name. */
#include "fuzz/fuzz.h"

#include "base/bytes.h"
#include "data/cifar.h"
#include "data/csv.h"
#include "data/idx.h"
#include "data/safetensors/safetensors.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST 8192
#define KINDS     5 /* safetensors, IDX, CSV with and without a header, CIFAR-10 */

static void check_told(int status, const struct gyre_trouble *trouble)
{
    REQUIRE(status < 0 && trouble->status == status);
    REQUIRE(strncmp(trouble->text, "it", 2) == 0);
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
        REQUIRE(gyre_safetensors_find(file, tensor->name) == tensor);
        REQUIRE(begin >= data && begin + tensor->bytes <= data + size);
        touch(tensor->data, tensor->bytes);
        touch(tensor->shape, tensor->dims * sizeof *tensor->shape);
        total += tensor->bytes;
    }
    REQUIRE(total == size - 8 - gyre_get64(data));
    for (uint64_t i = 0; i < gyre_safetensors_texts(file); i++) {
        const struct gyre_stored_text *text = gyre_safetensors_text_at(file, i);
        REQUIRE(gyre_safetensors_text(file, text->key) == text->value);
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
        int64_t whole = 0;
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
        .header = header, .label = header ? "y" : "first", .texts = header};
    int status = gyre_csv_over(&csv, "it", data, size, &options, &trouble);
    if (status)
        check_told(status, &trouble);
    for (uint64_t i = 0; i < csv.rows * csv.columns; i++)
        REQUIRE(isfinite(csv.values[i]));
    for (uint64_t i = 0; i < csv.rows; i++)
        REQUIRE(csv.labels ? isfinite(csv.labels[i]) : *csv.label_texts[i]);
    for (uint64_t i = 0; header && i < csv.columns; i++)
        touched += strlen(csv.names[i]);
    gyre_csv_close(&csv);
}

static void read_cifar(const uint8_t *data, size_t size)
{
    struct gyre_trouble trouble = {0};
    uint64_t records;
    int status = gyre_cifar_count("it", size, &records, &trouble);
    uint8_t *pixels = malloc(size ? size : 1);
    int64_t *label = malloc((records + 1) * sizeof *label);
    if (!status && pixels && label)
        status = gyre_cifar_take("it", data, records, pixels, label, &trouble);
    if (status)
        check_told(status, &trouble);
    for (uint64_t i = 0; !status && label && i < records; i++)
        REQUIRE(label[i] >= 0 && label[i] < GYRE_CIFAR_CLASSES);
    free(pixels);
    free(label);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    uint8_t *copy = malloc(size); /* exactly as long: a sanitizer sees one byte beyond */
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    copy = realloc(copy, size - 1 ? size - 1 : 1);
    if (data[0] % KINDS == 0)
        read_safetensors(copy, size - 1);
    else if (data[0] % KINDS == 1)
        read_idx(copy, size - 1);
    else if (data[0] % KINDS == 4)
        read_cifar(copy, size - 1);
    else
        read_csv(copy, size - 1, data[0] % KINDS == 3);
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

/* One record or two, of labels up to 11. */
static size_t good_cifar(struct gyre_rng *rng, uint8_t *to)
{
    size_t records = 1 + gyre_rng_below(rng, 2);
    memset(to, 7, records * GYRE_CIFAR_RECORD);
    for (size_t i = 0; i < records; i++)
        to[i * GYRE_CIFAR_RECORD] = (uint8_t)gyre_rng_below(rng, 12);
    return records * GYRE_CIFAR_RECORD;
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
    data[0] = (uint8_t)(seed % KINDS);
    uint8_t *file = data + 1;
    size_t good = data[0] == 0   ? good_safetensors(file, seed % 2 == 0)
                  : data[0] == 1 ? good_idx(file, seed % 2 == 0)
                  : data[0] == 4 ? good_cifar(&rng, file)
                                 : good_csv(file, data[0] == 3);
    size_t size = good;
    for (uint64_t i = gyre_rng_below(&rng, 4); i > 0; i--)
        size = damage(&rng, file, size);
    if (data[0] == 0 && gyre_rng_below(&rng, 4))
        mend_length(file, good, size);
    return 1 + size;
}

int main(int argc, char **argv)
{
    return fuzz_run(argc, argv, 20000, make_case);
}

#endif
