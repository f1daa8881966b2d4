/* The loader: the same batches with and without a thread that gathers ahead, from any position. */
#include "train/loader.h"
#include "rig/test.h"

#include <string.h>

#define ROOM 8

struct pair {
    struct gyre_dataset set;
    struct gyre_sampler *sampler[2];
    struct gyre_loader *loader[2]; /* alone, and ahead */
};

static struct gyre_trouble trouble;

static void pair_open(struct pair *pair, int ahead)
{
    struct gyre_dataset_options source = {.source = "random:101,3,5"};
    struct gyre_sampler_options options = GYRE_SAMPLER_OPTIONS_INIT;
    assert_int_equal(gyre_dataset_open(&pair->set, &source, &trouble), 0);
    options.samples = pair->set.samples;
    options.world = 2;
    options.tail = GYRE_TAIL_ONCE;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gyre_sampler_create(&pair->sampler[i], &options), 0);
        assert_int_equal(gyre_loader_create(&pair->loader[i], &pair->set, pair->sampler[i],
                                            2 * ROOM, ROOM, i ? ahead : 0, &trouble),
                         0);
    }
}

static void pair_close(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        gyre_loader_destroy(pair->loader[i]);
        gyre_sampler_destroy(pair->sampler[i]);
    }
    gyre_dataset_close(&pair->set);
}

static void pair_begin(struct pair *pair, uint64_t epoch, uint64_t cursor)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(gyre_loader_begin(pair->loader[i], epoch, cursor, &trouble), 0);
}

/* Takes a batch of each; returns how many samples it has, -1 at the end. */
static int pair_next(struct pair *pair)
{
    struct gyre_batch a, b;
    int status = gyre_loader_next(pair->loader[0], &a, &trouble);
    assert_int_equal(gyre_loader_next(pair->loader[1], &b, &trouble), status);
    if (status == GYRE_AGAIN)
        return -1;
    assert_int_equal(status, 0);
    assert_true(a.samples == b.samples && a.epoch == b.epoch && a.cursor == b.cursor &&
                a.last == b.last);
    assert_memory_equal(a.index, b.index, a.samples * sizeof *a.index);
    assert_memory_equal(a.x, b.x, a.samples * 3 * sizeof(float));
    assert_memory_equal(a.y, b.y, a.samples * sizeof(int64_t));
    for (uint64_t i = 0; i < a.samples; i++) {
        assert_memory_equal(a.x + 3 * i, pair->set.x + 3 * a.index[i], 3 * sizeof(float));
        assert_int_equal(((const int64_t *)a.y)[i], pair->set.label[a.index[i]]);
    }
    return (int)a.samples;
}

static void batches_are_the_same_ahead(void **state)
{
    (void)state;
    for (int ahead = 1; ahead <= 5; ahead++) {
        struct pair pair;
        pair_open(&pair, ahead);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            int samples = 0, more;
            pair_begin(&pair, epoch, 0);
            while ((more = pair_next(&pair)) >= 0)
                samples += more;
            assert_int_equal(samples, 51); /* of 101, for rank 0 of 2 */
            assert_int_equal(pair_next(&pair), -1);
        }
        pair_close(&pair);
    }
}

/* What was gathered ahead of the old position is forgotten. */
static void a_new_position_counts_at_once(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, 3);
    for (uint64_t turn = 0; turn < 200; turn++) {
        pair_begin(&pair, turn % 5, turn * 7 % 101);
        for (uint64_t k = 0; k < turn % 9; k++)
            pair_next(&pair);
    }
    pair_close(&pair);
    pair_open(&pair, 2); /* never begun */
    pair_close(&pair);
}

static void a_wrong_position_is_told(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, 2);
    for (int i = 0; i < 2; i++) {
        trouble = (struct gyre_trouble){0};
        assert_int_equal(gyre_loader_begin(pair.loader[i], 0, 102, &trouble), GYRE_INVALID);
        assert_non_null(strstr(trouble.text, "102"));
    }
    pair_begin(&pair, 0, 0);
    assert_true(pair_next(&pair) > 0);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_the_same_ahead),
        cmocka_unit_test(a_new_position_counts_at_once),
        cmocka_unit_test(a_wrong_position_is_told),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
