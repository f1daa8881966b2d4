/* The recorder: what a call leaves behind, what is written over, and who may still write. */
#include "rig/test.h"
#include "transport/recorder/dump.h"
#include "transport/recorder/place.h"
#include "transport/recorder/recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct gyre_recorder *make(void)
{
    static const uint8_t job[16] = {1, 2, 3};
    const struct gyre_recorder_identity identity = {
        .rank = 2, .n = 5, .node = 0, .nodes = 1, .job = job, .host = "here"};
    struct gyre_recorder *recorder = gyre_recorder_create(&identity);
    assert_non_null(recorder);
    return recorder;
}

static struct gyre_record_place call(struct gyre_recorder *recorder, uint64_t sequence)
{
    const struct gyre_record_call told = {sequence, 17, 1000, 0, GYRE_BY_PUSH};
    return gyre_record_call(recorder, &told);
}

static void a_call_is_remembered_until_its_place_is_used_again(void **state)
{
    (void)state;
    struct gyre_recorder *recorder = make();
    struct gyre_record_place first = call(recorder, 7);
    const struct gyre_call_record *record = gyre_record_at(first);
    assert_non_null(record);
    assert_int_equal(record->sequence, 7);
    assert_int_equal(record->ended, 0);
    assert_int_equal(record->waits_on, GYRE_RECORD_NOBODY);
    gyre_record_begun(first);
    gyre_record_waits(first, 4);
    gyre_record_waits(first, GYRE_RECORD_NOBODY); /* tells nothing new */
    gyre_record_ended(first, 0);
    assert_int_equal(record->waits_on, 4);
    assert_true(record->begun > 0);
    assert_true(record->ended >= record->called);
    for (uint64_t i = 1; i <= GYRE_RECORDS; i++)
        call(recorder, 7 + i);
    assert_null(gyre_record_at(first));
    gyre_record_waits(first, 1); /* touches the new owner of the place no more */
    gyre_record_ended(first, 0);
    assert_int_equal(record->sequence, 7 + GYRE_RECORDS);
    assert_int_equal(record->ended, 0);
    assert_int_equal(record->waits_on, GYRE_RECORD_NOBODY);
    gyre_recorder_destroy(recorder);
}

/* A process's further groups remember less, unless they are told how much. */
static void a_further_recorder_remembers_less(void **state)
{
    (void)state;
    struct gyre_recorder *only = make(), *further = make();
    static const uint8_t job[16];
    const struct gyre_recorder_identity told = {
        .n = 2, .nodes = 1, .job = job, .host = "here", .records = GYRE_RECORDS};
    struct gyre_recorder *as_told = gyre_recorder_create(&told);
    assert_int_equal(only->head->records, GYRE_RECORDS);
    assert_int_equal(further->head->records, GYRE_RECORDS_FEW);
    assert_int_equal(further->region.length, gyre_record_bytes(GYRE_RECORDS_FEW));
    assert_int_equal(as_told->head->records, GYRE_RECORDS);
    struct gyre_record_place first = call(further, 1);
    for (uint64_t i = 2; i <= GYRE_RECORDS_FEW; i++)
        call(further, i);
    assert_int_equal(gyre_record_at(first)->sequence, 1);
    struct gyre_record_place next = call(further, GYRE_RECORDS_FEW + 1);
    assert_null(gyre_record_at(first));
    assert_ptr_equal(next.at, first.at);
    gyre_recorder_destroy(as_told);
    gyre_recorder_destroy(further);
    gyre_recorder_destroy(only);
    only = make();
    assert_int_equal(only->head->records, GYRE_RECORDS);
    gyre_recorder_destroy(only);
}

static void a_failed_operation_goes_on_waiting(void **state)
{
    (void)state;
    struct gyre_recorder *recorder = make();
    struct gyre_record_place place = call(recorder, 1);
    gyre_record_ended(place, -7);
    assert_int_equal(gyre_record_at(place)->ended, 0);
    assert_int_equal(gyre_record_at(place)->status, -7);
    gyre_recorder_destroy(recorder);
}

static void without_a_recorder_nothing_is_written(void **state)
{
    (void)state;
    struct gyre_record_place place = call(NULL, 1);
    assert_null(gyre_record_at(place));
    gyre_record_begun(place);
    gyre_record_waits(place, 1);
    gyre_record_ended(place, 0);
    gyre_recorder_beat(NULL, 1);
    gyre_recorder_end(NULL, 0, 0, NULL);
    gyre_recorder_note_comm(NULL, 1, 2, 0);
    gyre_recorder_drop_comm(NULL, 1);
    assert_int_equal(gyre_recorder_way(NULL, "ring"), 0);
    gyre_recorder_destroy(NULL);
}

static void the_head_tells_who_writes(void **state)
{
    static const char ring[] = "ring";
    (void)state;
    struct gyre_recorder *recorder = make();
    const struct gyre_record_head *head = recorder->head;
    assert_string_equal(head->magic, GYRE_RECORD_MAGIC);
    assert_int_equal(head->rank, 2);
    assert_string_equal(head->host, "here");
    assert_true(head->started > 0);
    assert_int_equal(gyre_recorder_way(recorder, ring), GYRE_BY_FIRST_NAMED);
    assert_int_equal(gyre_recorder_way(recorder, ring), GYRE_BY_FIRST_NAMED);
    assert_string_equal(head->way[GYRE_BY_FIRST_NAMED], "ring");
    gyre_recorder_note_comm(recorder, 9, 3, 1);
    assert_int_equal(head->comm[0].n, 3);
    gyre_recorder_drop_comm(recorder, 9);
    assert_int_equal(head->comm[0].made, 0);
    gyre_recorder_end(recorder, -3, 4, "rank 4 has gone");
    gyre_recorder_end(recorder, 0, 0, "the first word stays");
    assert_int_equal(head->state, GYRE_RECORD_FAILED);
    assert_int_equal(head->failed_rank, 4);
    assert_string_equal(head->story, "rank 4 has gone");
    assert_int_equal(head->beat % 2, 0);
    gyre_recorder_destroy(recorder);
}

static void a_full_table_of_ways_loses_names_only(void **state)
{
    static char names[2 * GYRE_RECORD_WAYS][8];
    (void)state;
    struct gyre_recorder *recorder = make();
    for (int i = 0; i < (int)(2 * GYRE_RECORD_WAYS); i++) {
        uint16_t way = gyre_recorder_way(recorder, names[i]);
        assert_true(way < GYRE_RECORD_WAYS);
    }
    gyre_recorder_destroy(recorder);
}

static void the_folder_of_dumps_is_made(void **state)
{
    char root[] = "/tmp/gyre-dumps-XXXXXX", folder[64], file[128];
    struct gyre_recorder *recorder = make();
    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/deeper", root);
    setenv("GYRE_DUMP", folder, 1);
    gyre_recorder_dump_on_signal(recorder);
    gyre_recorder_dump(recorder->head, false);
    strcpy(file, recorder->path);
    gyre_recorder_destroy(recorder);
    unsetenv("GYRE_DUMP");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rmdir(root), 0);
}

/* Where all ranks are killed nobody is left to tell it but the launcher. */
static void the_launcher_tells_a_signal(void **state)
{
    char root[] = "/tmp/gyre-dumps-XXXXXX", number[16], file[128];
    struct gyre_record_head head = {0};
    (void)state;
    assert_non_null(mkdtemp(root));
    const int kept = gyre_record_place_make(), given = dup(kept);
    snprintf(number, sizeof number, "%d", given);
    setenv("GYRE_DUMP", root, 1);
    setenv("GYRE_RECORD_FD", number, 1);
    struct gyre_recorder *killed = make();
    gyre_recorder_dump_on_signal(killed);
    strcpy(file, killed->path);
    gyre_record_place_keep(kept, 9);
    FILE *dump = fopen(file, "r");
    assert_non_null(dump);
    assert_int_equal(fread(&head, sizeof head, 1, dump), 1);
    fclose(dump);
    assert_int_equal(head.state, GYRE_RECORD_FAILED);
    assert_int_equal(head.status, GYRE_PEER_LOST);
    assert_int_equal(head.failed_rank, 2);
    assert_non_null(strstr(head.story, "rank 2 (here, pid "));
    assert_non_null(strstr(head.story, "was killed by signal 9 (SIGKILL)"));
    gyre_recorder_destroy(killed);
    unsetenv("GYRE_DUMP");
    unsetenv("GYRE_RECORD_FD");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(root), 0);
    close(kept);
}

static void ticks_run_forward(void **state)
{
    (void)state;
    gyre_ticks_choose();
    uint64_t before = gyre_ticks(), after = gyre_ticks();
    assert_true(after >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_remembered_until_its_place_is_used_again),
        cmocka_unit_test(a_further_recorder_remembers_less),
        cmocka_unit_test(a_failed_operation_goes_on_waiting),
        cmocka_unit_test(without_a_recorder_nothing_is_written),
        cmocka_unit_test(the_head_tells_who_writes),
        cmocka_unit_test(a_full_table_of_ways_loses_names_only),
        cmocka_unit_test(the_folder_of_dumps_is_made),
        cmocka_unit_test(the_launcher_tells_a_signal),
        cmocka_unit_test(ticks_run_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
