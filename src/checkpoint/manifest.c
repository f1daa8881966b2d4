/* The manifest: a JSON object, one member a line, in this order when written and any when read.
 *
 *     {
 *       "gyre_checkpoint": 1,                the version, always first
 *       "step": 120, "world": 4,
 *       "model": "…",                        SHA-256 of names, types and shapes
 *       "files": {"model.safetensors": {"bytes": …, "sha256": "…"}, …},
 *       "texts": {"KEY": "VALUE", …},
 *       "sha256": "…"                        of every byte before this line
 *     }
 *
 * The last line makes a flipped bit in the manifest itself as visible as one in the tensors. It is
 * checked behind the version, for another version may end otherwise, and before the rest. Tested by
 * tests/unit/checkpoint/checkpoint_test.c. */
#include "checkpoint/inside.h"

#include "base/bytes.h"
#include "base/disk/regular.h"
#include "base/printable.h"
#include "data/files/json.h"
#include "data/files/json_out.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANIFEST_MOST (16u << 20)
#define LAST_BEGIN    "  \"sha256\": \""
#define LAST_END      "\"\n}\n"
#define LAST_LENGTH   (sizeof LAST_BEGIN - 1 + GYRE_SHA256_TEXT - 1 + sizeof LAST_END - 1)

int gyre_sha256_text(const void *bytes, size_t length, char text[GYRE_SHA256_TEXT],
                     struct gyre_trouble *trouble)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    size_t size = 0;
    if (EVP_Q_digest(NULL, "SHA256", NULL, bytes, length, digest, &size) != 1 || size != 32)
        return gyre_trouble_set(trouble, -EIO, "libcrypto makes no SHA-256 of %zu bytes", length);
    gyre_hex_write(digest, 32, text);
    return 0;
}

/* -- writing ----------------------------------------------------------------------------------- */

static void put_member(struct gyre_json_out *out, const char *before, const char *key)
{
    gyre_json_put_text(out, before);
    gyre_json_put_string(out, key);
    gyre_json_put_text(out, ": ");
}

static void put_manifest(struct gyre_json_out *out, const struct gyre_manifest *manifest)
{
    put_member(out, "{\n  ", "gyre_checkpoint");
    gyre_json_put_whole(out, GYRE_MANIFEST_VERSION);
    put_member(out, ",\n  ", "step");
    gyre_json_put_whole(out, manifest->step);
    put_member(out, ",\n  ", "world");
    gyre_json_put_whole(out, manifest->world);
    put_member(out, ",\n  ", "model");
    gyre_json_put_string(out, manifest->model);
    put_member(out, ",\n  ", "files");
    for (int i = 0; i < GYRE_GENERATION_PARTS; i++) {
        put_member(out, i ? ",\n    " : "{\n    ", gyre_generation_file_name[i]);
        put_member(out, "{", "bytes");
        gyre_json_put_whole(out, manifest->file[i].bytes);
        put_member(out, ", ", "sha256");
        gyre_json_put_string(out, manifest->file[i].sha256);
        gyre_json_put_text(out, "}");
    }
    put_member(out, "\n  },\n  ", "texts");
    for (uint64_t i = 0; i < manifest->texts; i++) {
        put_member(out, i ? ",\n    " : "{\n    ", manifest->text[i].key);
        gyre_json_put_string(out, manifest->text[i].value);
    }
    gyre_json_put_text(out, manifest->texts ? "\n  },\n" : "{},\n");
}

static int check_manifest_texts(const char *path, const struct gyre_manifest *manifest,
                                struct gyre_trouble *trouble)
{
    for (uint64_t i = 0; i < manifest->texts; i++) {
        const char *key = manifest->text[i].key, *what = NULL;
        if (!gyre_json_is_utf8(key) || !gyre_json_is_utf8(manifest->text[i].value))
            what = "is not UTF-8";
        for (uint64_t j = 0; j < i && !what; j++)
            what = strcmp(manifest->text[j].key, key) ? NULL : "is given twice";
        if (what)
            return gyre_trouble_set(trouble, GYRE_INVALID, "%s: text \"%.80s\": %s", path, key,
                                    what);
    }
    return 0;
}

int gyre_manifest_write(const char *path, const struct gyre_manifest *manifest,
                        struct gyre_trouble *trouble)
{
    struct gyre_json_out out = {0};
    char sha256[GYRE_SHA256_TEXT];
    int status = check_manifest_texts(path, manifest, trouble);
    if (status)
        return status;
    put_manifest(&out, manifest);
    if (out.used > MANIFEST_MOST - LAST_LENGTH)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: its texts take %" PRIu64 " bytes, at most %u are allowed",
                                path, out.used, MANIFEST_MOST);
    char *text = malloc(out.used + LAST_LENGTH);
    if (!text)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: out of memory", path);
    out = (struct gyre_json_out){.to = text};
    put_manifest(&out, manifest);
    status = gyre_sha256_text(text, out.used, sha256, trouble);
    if (!status) {
        gyre_json_put_text(&out, LAST_BEGIN);
        gyre_json_put_text(&out, sha256);
        gyre_json_put_text(&out, LAST_END);
        status = gyre_file_replace(path, &(struct iovec){text, out.used}, 1, trouble);
    }
    free(text);
    return status;
}

/* -- reading ----------------------------------------------------------------------------------- */

struct manifest_text {
    char *data;
    uint64_t length;
};

/* Strings lie decoded one after the other in a block as long as the text. */
struct reading {
    struct gyre_json json;
    struct gyre_stored_text *text;
    char *here; /* where the next string is decoded to */
};

struct json_member {
    const char *name;
    int (*read)(struct reading *reading, void *to);
    void *to;
};

static int read_whole_number(struct reading *reading, void *to)
{
    return gyre_json_whole(&reading->json, to);
}

static int read_sha256(struct reading *reading, void *to)
{
    int status = gyre_json_string(&reading->json, reading->here);
    if (!status && (strlen(reading->here) != GYRE_SHA256_TEXT - 1 ||
                    strspn(reading->here, "0123456789abcdef") != GYRE_SHA256_TEXT - 1))
        status = gyre_json_refuse(&reading->json, "a SHA-256 of 64 digits is expected");
    if (!status)
        strcpy(to, reading->here);
    return status;
}

/* An object of all these members, each once, and of no others. */
static int read_members(struct reading *reading, const struct json_member *member, int count)
{
    char shown[GYRE_STORED_SHOWN];
    unsigned seen = 0;
    bool more;
    int status = gyre_json_open(&reading->json, '{');
    while (!status && !(status = gyre_json_more(&reading->json, '}', &more)) && more) {
        int i = 0;
        if ((status = gyre_json_key(&reading->json, reading->here)))
            return status;
        while (i < count && strcmp(reading->here, member[i].name) != 0)
            i++;
        if (i == count || seen & 1u << i)
            return gyre_json_refuse(&reading->json, "\"%s\" %s",
                                    gyre_printable(shown, sizeof shown, reading->here),
                                    i == count ? "is unknown" : "stands there twice");
        seen |= 1u << i;
        status = member[i].read(reading, member[i].to);
    }
    for (int i = 0; i < count && !status; i++)
        if (!(seen & 1u << i))
            status = gyre_json_refuse(&reading->json, "\"%s\" is missing", member[i].name);
    return status;
}

static int read_file_entry(struct reading *reading, void *to)
{
    struct gyre_manifest_file *file = to;
    const struct json_member members[] = {{"bytes", read_whole_number, &file->bytes},
                                          {"sha256", read_sha256, file->sha256}};
    return read_members(reading, members, 2);
}

static int read_files(struct reading *reading, void *to)
{
    struct gyre_manifest_file *file = to;
    const struct json_member members[] = {
        {gyre_generation_file_name[0], read_file_entry, &file[0]},
        {gyre_generation_file_name[1], read_file_entry, &file[1]},
    };
    return read_members(reading, members, GYRE_GENERATION_PARTS);
}

static int read_string(struct reading *reading, const char **text, bool key)
{
    *text = reading->here;
    int status = key ? gyre_json_key(&reading->json, reading->here)
                     : gyre_json_string(&reading->json, reading->here);
    reading->here += status ? 0 : strlen(reading->here) + 1;
    return status;
}

/* A text takes at least 5 bytes, `"":""`, so the table has room for all. */
static int read_manifest_texts(struct reading *reading, void *to)
{
    struct gyre_manifest *manifest = to;
    bool more;
    int status = gyre_json_open(&reading->json, '{');
    while (!status && !(status = gyre_json_more(&reading->json, '}', &more)) && more) {
        struct gyre_stored_text *text = &reading->text[manifest->texts++];
        status = read_string(reading, &text->key, true);
        if (!status)
            status = read_string(reading, &text->value, false);
    }
    manifest->text = reading->text;
    return status;
}

/* The version only, by a cursor of its own. */
static int check_version(const char *path, const struct manifest_text *file, char *room,
                         struct gyre_trouble *trouble)
{
    struct gyre_json json = gyre_json_over(path, file->data, file->length, NULL);
    uint64_t version = 0;
    bool more = false;
    if (gyre_json_open(&json, '{') || gyre_json_more(&json, '}', &more) || !more ||
        gyre_json_key(&json, room) || strcmp(room, "gyre_checkpoint") != 0 ||
        gyre_json_whole(&json, &version))
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: is no manifest of a checkpoint", path);
    if (version != GYRE_MANIFEST_VERSION)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: format version %" PRIu64 ", this Gyre reads %d", path, version,
                                GYRE_MANIFEST_VERSION);
    return 0;
}

static int check_last(const char *path, const struct manifest_text *file,
                      struct gyre_trouble *trouble)
{
    char sha256[GYRE_SHA256_TEXT], last[LAST_LENGTH + 1];
    if (file->length < LAST_LENGTH)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: is cut short", path);
    uint64_t before = file->length - LAST_LENGTH;
    int status = gyre_sha256_text(file->data, before, sha256, trouble);
    if (status)
        return status;
    snprintf(last, sizeof last, LAST_BEGIN "%s" LAST_END, sha256);
    if (memcmp(file->data + before, last, LAST_LENGTH) != 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: is damaged: its last line does not hold its SHA-256", path);
    return 0;
}

static int read_object(const char *path, const struct manifest_text *file,
                       struct gyre_manifest *manifest, struct gyre_trouble *trouble)
{
    uint64_t version, texts = file->length / 5 + 1;
    char last[GYRE_SHA256_TEXT];
    struct gyre_stored_text *text = malloc(texts * sizeof *text + file->length + 1);
    if (!text)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: out of memory", path);
    manifest->owned = text;
    struct reading reading = {.json = gyre_json_over(path, file->data, file->length, trouble),
                              .text = text,
                              .here = (char *)(text + texts)};
    int status = check_version(path, file, reading.here, trouble);
    if (status || (status = check_last(path, file, trouble)))
        return status;
    const struct json_member members[] = {
        {"gyre_checkpoint", read_whole_number, &version},
        {"step", read_whole_number, &manifest->step},
        {"world", read_whole_number, &manifest->world},
        {"model", read_sha256, manifest->model},
        {"files", read_files, manifest->file},
        {"texts", read_manifest_texts, manifest},
        {"sha256", read_sha256, last},
    };
    status = read_members(&reading, members, sizeof members / sizeof *members);
    if (!status)
        status = gyre_json_end(&reading.json);
    if (!status && !manifest->world)
        status = gyre_trouble_set(trouble, GYRE_INVALID, "%s: a world of 0 ranks", path);
    return status;
}

int gyre_manifest_read(const char *path, struct gyre_manifest *manifest,
                       struct gyre_trouble *trouble)
{
    struct manifest_text file;
    *manifest = (struct gyre_manifest){0};
    int status = gyre_regular_read(path, MANIFEST_MOST, &file.data, &file.length, trouble);
    if (!status)
        status = read_object(path, &file, manifest, trouble);
    free(file.data);
    return status;
}

void gyre_manifest_deinit(struct gyre_manifest *manifest)
{
    free(manifest->owned);
    *manifest = (struct gyre_manifest){0};
}
