/* gyre why on jobs with a planted fault: the rank, the call and the kind are named.
 *
 * Each of seven faults is planted once, on 2 to 5 ranks. With GYRE_TEST_FAULTS=FIRST-LAST in the
 * environment more are planted, on 2 to 16 ranks, drawn from their numbers alone, and the shares
 * that were named rightly are printed. Two faults of a time are asked of dumps, the others of
 * living jobs. */
#include "program/cli/hurt.h"

#include "rig/test.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void expect_named(const struct plant *plant)
{
    static const int code[FAULTS] = {3, 3, 4, 4, 3, 5, 5};
    hurt_plant(plant, true);
    const bool named = hurt_names_rank(plant) && hurt_names_call(plant) && hurt_names_kind(plant);
    if (!named)
        print_error("%s of rank %d at call %d of %d ranks: %s%s", fault_word[plant->fault],
                    plant->victim, plant->call, plant->ranks, hurt_asked.out_text,
                    hurt_asked.err_text);
    assert_true(named);
    assert_int_equal(hurt_asked.code, code[plant->fault]);
    rig_end(&hurt_asked);
}

static void a_killed_rank_is_named(void **state)
{
    (void)state;
    expect_named(&(struct plant){KILLED, 3, 1, 25, false});
}

static void a_stopped_rank_is_named(void **state)
{
    (void)state;
    expect_named(&(struct plant){STOPPED, 2, 1, 33, false});
}

static void a_wrong_count_is_named(void **state)
{
    (void)state;
    expect_named(&(struct plant){COUNT, 5, 3, 41, false});
}

static void a_wrong_order_is_named_even_by_two(void **state)
{
    (void)state;
    expect_named(&(struct plant){ORDER, 2, 0, 29, false});
}

static void a_missing_call_is_named(void **state)
{
    (void)state;
    expect_named(&(struct plant){MISSING, 4, 2, 19, false});
}

static void a_slow_core_is_named(void **state)
{
    (void)state;
    expect_named(&(struct plant){CORE, 3, 1, 20, false});
}

static void a_slow_link_is_named(void **state)
{
    (void)state;
    expect_named(&(struct plant){LINK, 3, 1, 20, true});
    assert_true(rig_has(hurt_asked.out_text, "\"link\":{\"way\":\"from\""));
}

/* -- many -------------------------------------------------------------------------------------- */

static uint32_t drawn;

static int draw(int least, int most)
{
    drawn = drawn * 1664525u + 1013904223u;
    return least + (int)((drawn >> 8) % (uint32_t)(most - least + 1));
}

/* The fault of a number. A barrier has no count that could be wrong. */
static struct plant draw_plant(int number)
{
    drawn = (uint32_t)number * 2654435761u;
    struct plant plant = {.fault = (enum fault)(number % FAULTS), .ranks = draw(2, 16)};
    plant.victim = draw(0, plant.ranks - 1);
    plant.call = plant.fault < CORE ? draw(14, 200) : draw(14, 40);
    plant.call += plant.fault == COUNT && plant.call % 4 == 0;
    plant.tcp = draw(0, 1) || plant.fault == LINK;
    return plant;
}

struct tally {
    int planted, rank, call, kind;
};

static void plant_number(int number, struct tally *tally)
{
    const struct plant plant = draw_plant(number);
    hurt_plant(&plant, false);
    const bool rank = hurt_names_rank(&plant), kind = hurt_names_kind(&plant);
    const bool call = rank && hurt_names_call(&plant);
    tally->planted++;
    tally->rank += rank;
    tally->call += call;
    tally->kind += kind;
    if (!call || !kind)
        print_message("fault %d: %s of rank %d at call %d of %d ranks, %s: %.200s\n", number,
                      fault_word[plant.fault], plant.victim, plant.call, plant.ranks,
                      plant.tcp ? "tcp" : "shm", hurt_asked.out_text);
    rig_end(&hurt_asked);
}

static void many_faults_are_named(void **state)
{
    const char *text = getenv("GYRE_TEST_FAULTS");
    struct tally tally[FAULTS] = {0}, all = {0};
    int first = 1, last = 0;
    (void)state;
    if (!text)
        return;
    assert_int_equal(sscanf(text, "%d-%d", &first, &last), 2);
    for (int number = first; number <= last; number++)
        plant_number(number, &tally[number % FAULTS]);
    for (int i = 0; i < FAULTS; i++) {
        print_message("%-12s planted %d, rank %d, rank and call %d, kind %d\n", fault_word[i],
                      tally[i].planted, tally[i].rank, tally[i].call, tally[i].kind);
        all.planted += tally[i].planted;
        all.call += tally[i].call;
        all.kind += tally[i].kind;
    }
    assert_true(all.call * 100 >= all.planted * 99);
    assert_true(all.kind * 100 >= all.planted * 95);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(a_stopped_rank_is_named),
        cmocka_unit_test(a_wrong_count_is_named),
        cmocka_unit_test(a_wrong_order_is_named_even_by_two),
        cmocka_unit_test(a_missing_call_is_named),
        cmocka_unit_test(a_slow_core_is_named),
        cmocka_unit_test(a_slow_link_is_named),
        cmocka_unit_test(many_faults_are_named),
    };
    const int code = hurt_become_rank(argc, argv);
    if (code >= 0)
        return code;
    return hurt_prepare() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
