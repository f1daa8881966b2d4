/* Safetensors: what is written is what the format's own library would write, what it could not read
 * is refused, and a disk that fails leaves the old file. */
#include <errno.h>
#include <string.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig/file_room.h"

#include "base/bytes.h"
#include "data/safetensors/safetensors.h"
#include "rig/test.h"

static struct gyre_trouble trouble;

static const float weight[6] = {0, 1, 2, 3, 4, 5};
static const int64_t epoch = 7;
static const uint8_t flags[3] = {1, 2, 3};
static const uint64_t two_by_three[] = {2, 3}, three[] = {3}, none[] = {4, 0};

static const struct gyre_stored_tensor some[] = {
    {"w", GYRE_STORED_F32, 2, two_by_three, weight, 0},
    {"flags", GYRE_STORED_U8, 1, three, flags, 0},
    {"epoch", GYRE_STORED_I64, 0, NULL, &epoch, 0},
    {"b", GYRE_STORED_F32, 2, none, NULL, 0},
};
static const struct gyre_stored_text texts[] = {{"format", "gy\"r\n\x1f\x7f\xc3\xa9"}};

static int write_some(const struct gyre_stored_tensor *tensors, uint64_t count)
{
    trouble = (struct gyre_trouble){0};
    return gyre_safetensors_write(file_room_name("out"), tensors, count, NULL, 0, &trouble);
}

/* Worked out by hand from the format: I64 before F32 before U8, b before w, padded to a multiple of
 * 8 with blanks. */
static void what_is_written_is_known_to_the_byte(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"gy\\\"r\\n\\u001f\x7f\xc3\xa9\"},"
        "\"epoch\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[8,8]},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
        "\"flags\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[32,35]}}";
    uint8_t expected[1024], found[1024];
    size_t padded = (sizeof header - 1 + 7) / 8 * 8;
    memset(expected, ' ', sizeof expected);
    gyre_put64(expected, padded);
    memcpy(expected + 8, header, sizeof header - 1);
    uint8_t *at = expected + 8 + padded;
    memcpy(at, &epoch, 8);
    memcpy(at + 8, weight, 24);
    memcpy(at + 32, flags, 3);
    assert_int_not_equal(sizeof header - 1, padded); /* or nothing is padded */
    int status = gyre_safetensors_write(file_room_name("out"), some, 4, texts, 1, NULL);
    assert_int_equal(status, 0);
    assert_int_equal(file_room_read(file_room_name("out"), found, sizeof found), 8 + padded + 35);
    assert_memory_equal(found, expected, 8 + padded + 35);
}

static void nothing_is_a_file_too(void **state)
{
    static const uint8_t expected[] = {8,   0,   0,   0,   0,   0,   0,   0,
                                       '{', '}', ' ', ' ', ' ', ' ', ' ', ' '};
    uint8_t found[32];
    assert_int_equal(write_some(some, 0), 0);
    assert_int_equal(file_room_read(file_room_name("out"), found, sizeof found), sizeof expected);
    assert_memory_equal(found, expected, sizeof expected);
}

static void what_is_written_is_read_and_written_again(void **state)
{
    struct gyre_safetensors *file;
    struct gyre_stored_tensor again[4];
    uint8_t first[1024], second[1024];
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_safetensors_write(file_room_name("out"), some, 4, texts, 1, &trouble), 0);
    size_t length = file_room_read(file_room_name("out"), first, sizeof first);
    assert_int_equal(gyre_safetensors_open(&file, file_room_name("out"), &trouble), 0);
    for (int i = 0; i < 4; i++)
        again[3 - i] = *gyre_safetensors_at(file, (uint64_t)i);
    assert_memory_equal(gyre_safetensors_find(file, "w")->data, weight, sizeof weight);
    assert_string_equal(gyre_safetensors_text(file, "format"), texts[0].value);
    /* over itself: the mapping keeps the old file */
    assert_int_equal(gyre_safetensors_write(file_room_name("out"), again, 4,
                                            gyre_safetensors_text_at(file, 0), 1, &trouble),
                     0);
    gyre_safetensors_close(file);
    assert_int_equal(file_room_read(file_room_name("out"), second, sizeof second), length);
    assert_memory_equal(first, second, length);
}

static void refuse_to_write(const struct gyre_stored_tensor *tensors, uint64_t count,
                            const char *words)
{
    unlink(file_room_name("out"));
    assert_int_equal(write_some(tensors, count), GYRE_INVALID);
    if (!strstr(trouble.text, words) || !strstr(trouble.text, "/out: "))
        fail_msg("\"%s\" is not in: %s", words, trouble.text);
    assert_int_equal(access(file_room_name("out"), F_OK), -1);
}

static void what_cannot_be_read_is_not_written(void **state)
{
    static const uint64_t huge[] = {1ull << 32, 1ull << 32};
    struct gyre_stored_tensor bad[] = {some[0], some[0]};
    refuse_to_write(bad, 2, "tensor \"w\": is given twice");
    bad[1].name = "__metadata__";
    refuse_to_write(bad, 2, "keeps this name");
    bad[1].name = "\xff";
    refuse_to_write(bad, 2, "not UTF-8");
    bad[1] = (struct gyre_stored_tensor){"h", GYRE_STORED_U8, 2, huge, NULL, 0};
    refuse_to_write(bad, 2, "tensor \"h\"");
    bad[1] = (struct gyre_stored_tensor){"h", GYRE_STORED_F4, 1, three, NULL, 0};
    refuse_to_write(bad, 2, "tensor \"h\"");
    bad[1] = (struct gyre_stored_tensor){"h", GYRE_STORED_TYPES, 1, three, NULL, 0};
    refuse_to_write(bad, 2, "type is unknown");
    struct gyre_stored_text twice[] = {{"a", "1"}, {"a", "2"}}, latin[] = {{"a", "\xe9"}};
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_safetensors_write(file_room_name("out"), some, 4, twice, 2, &trouble),
                     GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "text \"a\": is given twice"));
    assert_int_equal(gyre_safetensors_write(file_room_name("out"), some, 4, latin, 1, NULL),
                     GYRE_INVALID);
}

static void sums_beyond_64_bits_are_not_written(void **state)
{
    static const uint64_t large[] = {1ull << 60};
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                        "i", "j", "k", "l", "m", "n", "o", "p"};
    struct gyre_stored_tensor many[16];
    for (int i = 0; i < 16; i++)
        many[i] = (struct gyre_stored_tensor){names[i], GYRE_STORED_U8, 1, large, NULL, 0};
    refuse_to_write(many, 16, "tensor \"p\": its type");
}

/* What was asked of the disk, in order: s for a file, r for a name, d for a folder. The linker
 * sends these calls through here. */
static char asked[16];
static bool sync_fails, writes_are_short;

ssize_t __real_write(int fd, const void *data, size_t length);
ssize_t __wrap_write(int fd, const void *data, size_t length);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

/* What does not fit is not looked at either. */
static void note(const char *what)
{
    if (strlen(asked) + 1 < sizeof asked)
        strcat(asked, what);
}

int __wrap_fsync(int fd)
{
    struct stat about;
    fstat(fd, &about);
    note(S_ISDIR(about.st_mode) ? "d" : about.st_size ? "s" : "?");
    if (sync_fails)
        errno = EIO;
    return sync_fails ? -1 : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
    note("r");
    return __real_rename(from, to);
}

/* Short writes are of 5 bytes, and every second one is interrupted. */
ssize_t __wrap_write(int fd, const void *data, size_t length)
{
    static unsigned calls;
    errno = EINTR;
    if (writes_are_short && calls++ % 2)
        return -1;
    return __real_write(fd, data, writes_are_short && length > 5 ? 5 : length);
}

static void short_writes_are_gone_on_with(void **state)
{
    uint8_t first[1024], second[1024];
    assert_int_equal(write_some(some, 4), 0);
    size_t length = file_room_read(file_room_name("out"), first, sizeof first);
    writes_are_short = true;
    int status = write_some(some, 4);
    writes_are_short = false;
    assert_int_equal(status, 0);
    assert_int_equal(file_room_read(file_room_name("out"), second, sizeof second), length);
    assert_memory_equal(first, second, length);
}

/* Only in this order a crash at any point leaves the old file or the new one. */
static void the_disk_is_asked_in_order(void **state)
{
    asked[0] = '\0';
    assert_int_equal(write_some(some, 4), 0);
    assert_string_equal(asked, "srd");
}

static void a_disk_that_fails_leaves_the_old_file(void **state)
{
    uint8_t bytes[32];
    file_room_make("out", "old", 3);
    int files = file_room_count();
    sync_fails = true;
    int status = write_some(some, 4);
    sync_fails = false;
    assert_int_equal(status, -EIO);
    assert_non_null(strstr(trouble.text, "/out: cannot have it on the disk: Input/output error"));
    assert_int_equal(file_room_read(file_room_name("out"), bytes, sizeof bytes), 3);
    assert_int_equal(file_room_count(), files);
}

/* The disk is full, played by a limit on the length of files: the old file stays, nothing else. */
static void a_write_that_fails_leaves_the_old_file(void **state)
{
    static uint8_t before[1024], after[1024], big[65536];
    static const uint64_t length[] = {sizeof big};
    const struct gyre_stored_tensor tensor = {"big", GYRE_STORED_U8, 1, length, big, 0};
    assert_int_equal(write_some(some, 4), 0);
    int files = file_room_count();
    size_t size = file_room_read(file_room_name("out"), before, sizeof before);
    struct rlimit limit, small;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    small = (struct rlimit){4096, limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    int status = write_some(&tensor, 1);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(status, -EFBIG);
    assert_non_null(strstr(trouble.text, "/out: cannot write to it: File too large"));
    assert_int_equal(file_room_read(file_room_name("out"), after, sizeof after), size);
    assert_memory_equal(before, after, size);
    assert_int_equal(file_room_count(), files);
    assert_int_equal(write_some(&tensor, 1), 0);
    assert_int_equal(file_room_count(), files);
}

static void a_folder_that_is_none_is_named(void **state)
{
    trouble = (struct gyre_trouble){0};
    assert_int_equal(
        gyre_safetensors_write(file_room_name("no/such/out"), some, 4, NULL, 0, &trouble), -ENOENT);
    assert_non_null(strstr(trouble.text, "/no/such/out: cannot create"));
    mkdir(file_room_name("folder"), 0700);
    int files = file_room_count();
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_safetensors_write(file_room_name("folder"), some, 4, NULL, 0, &trouble),
                     -EISDIR);
    assert_int_equal(file_room_count(), files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_known_to_the_byte),
        cmocka_unit_test(nothing_is_a_file_too),
        cmocka_unit_test(what_is_written_is_read_and_written_again),
        cmocka_unit_test(what_cannot_be_read_is_not_written),
        cmocka_unit_test(sums_beyond_64_bits_are_not_written),
        cmocka_unit_test(the_disk_is_asked_in_order),
        cmocka_unit_test(short_writes_are_gone_on_with),
        cmocka_unit_test(a_disk_that_fails_leaves_the_old_file),
        cmocka_unit_test(a_write_that_fails_leaves_the_old_file),
        cmocka_unit_test(a_folder_that_is_none_is_named),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
