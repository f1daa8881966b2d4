/* A checkpoint whose model has 64 KiB: cut at every length and changed in every byte it is refused,
 * and the generation before it is used.
 *
 * In haste every 61st length and byte. */
#include "rig/checkpoint_rig.h"
#include "rig/haste.h"

#include "base/rng.h"
#include "checkpoint/inside.h"
#include "rig/test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES  65536
#define FLOATS 16358 /* and a header make BYTES */
#define SAMPLE 509   /* of every so many the folder is opened, too: a prime */
#define SEED   20261124

static char folder[256], path[GYRE_GENERATION_PATH_MAX];
static struct gyre_trouble trouble;

static int stride(void)
{
    return in_haste() ? 61 : 1;
}

static void save_large(uint64_t step)
{
    static float weight[FLOATS];
    static const uint64_t shape[] = {FLOATS};
    const struct gyre_stored_tensor model = {"w", GYRE_STORED_F32, 1, shape, weight, 0};
    const struct gyre_generation_content content = {
        .step = step, .world = 2, .part = {{&model, 1}, {NULL, 0}}};
    struct gyre_rng rng;
    gyre_rng_seed(&rng, SEED);
    for (int i = 0; i < FLOATS; i++)
        weight[i] = (float)gyre_rng_below(&rng, 1u << 20);
    if (gyre_generation_save(folder, &content, GYRE_GENERATION_KEEP, &trouble))
        fail_msg("%s", trouble.text);
}

/* A small generation, step 100, and the large one, step 120, whose file is mapped: what is changed
 * there is changed in the file. */
static uint8_t *save_both(int *fd)
{
    static int number;
    snprintf(folder, sizeof folder, "%s/%d", file_room, number++);
    trouble = (struct gyre_trouble){0};
    assert_int_equal(rig_save(folder, 100, &trouble), 0);
    save_large(120);
    assert_int_equal(gyre_generation_path(path, folder, 120, "model.safetensors", NULL), 0);
    *fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(*fd >= 0);
    assert_int_equal(lseek(*fd, 0, SEEK_END), BYTES);
    uint8_t *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    assert_true(bytes != MAP_FAILED);
    return bytes;
}

static void expect_newest(uint64_t step)
{
    struct gyre_generation *checkpoint;
    struct gyre_generation_report skipped;
    trouble = (struct gyre_trouble){0};
    if (gyre_generation_newest(&checkpoint, folder, &skipped, &trouble))
        fail_msg("%s", trouble.text);
    assert_int_equal(gyre_generation_step(checkpoint), step);
    assert_int_equal(skipped.count, step == 100);
    assert_true(step != 100 || rig_holds(checkpoint, 100));
    gyre_generation_report_free(&skipped);
    gyre_generation_close(checkpoint);
}

/* The file is damaged at `at`: its generation is refused with the file's name. */
static void expect_refused(int at)
{
    struct gyre_generation *checkpoint = NULL;
    trouble = (struct gyre_trouble){0};
    int status = gyre_generation_open(&checkpoint, folder, 120, &trouble);
    if (status != GYRE_INVALID || checkpoint || !strstr(trouble.text, path))
        fail_msg("at byte %d: status %d, %s", at, status, trouble.text);
    if (at % SAMPLE == 0)
        expect_newest(100);
}

static void every_truncation_is_refused(void **state)
{
    int fd;
    uint8_t *bytes = save_both(&fd);
    (void)state;
    munmap(bytes, BYTES);
    expect_newest(120);
    for (int length = BYTES - 1; length >= 0; length -= stride()) {
        assert_int_equal(ftruncate(fd, length), 0);
        expect_refused(length);
    }
    close(fd);
}

static void every_changed_byte_is_refused(void **state)
{
    int fd;
    uint8_t *bytes = save_both(&fd);
    struct gyre_rng rng;
    (void)state;
    gyre_rng_seed(&rng, SEED);
    for (int at = 0; at < BYTES; at += stride()) {
        uint8_t bit = (uint8_t)(1u << gyre_rng_below(&rng, 8));
        bytes[at] ^= bit;
        expect_refused(at);
        bytes[at] ^= bit;
    }
    expect_newest(120);
    munmap(bytes, BYTES);
    close(fd);
}

/* The reader of tensors alone, without lengths and hashes from a manifest. */
static void the_reader_refuses_every_truncation(void **state)
{
    struct gyre_safetensors *file = NULL;
    int fd;
    uint8_t *bytes = save_both(&fd);
    (void)state;
    for (int length = 0; length < BYTES; length += stride())
        if (gyre_safetensors_over(&file, "m", bytes, (uint64_t)length, &trouble) != GYRE_INVALID)
            fail_msg("%d of %d bytes are taken for a file", length, BYTES);
    assert_int_equal(gyre_safetensors_over(&file, "m", bytes, BYTES, &trouble), 0);
    gyre_safetensors_close(file);
    munmap(bytes, BYTES);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_changed_byte_is_refused),
        cmocka_unit_test(the_reader_refuses_every_truncation),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
