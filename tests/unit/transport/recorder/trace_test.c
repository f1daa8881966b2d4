/* The trace: its file, what calls and steps leave there, what is written over, and a folder that
 * cannot be made. */
#include "rig/test.h"
#include "transport/recorder/recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES  (UINT64_C(64) << 10)
#define PLACES 1024u

static char folder[64], path[128];

static struct gyre_recorder *make_of(uint64_t bytes, uint32_t epoch)
{
    static const uint8_t job[16] = {0xab, 2, 3, 4};
    const struct gyre_recorder_identity identity = {.rank = 2,
                                                    .n = 5,
                                                    .nodes = 1,
                                                    .epoch = epoch,
                                                    .job = job,
                                                    .host = "here",
                                                    .trace_bytes = bytes};
    struct gyre_recorder *recorder = gyre_recorder_create(&identity);
    assert_non_null(recorder);
    return recorder;
}

static struct gyre_recorder *make(uint32_t epoch)
{
    return make_of(BYTES, epoch);
}

static struct gyre_record_place call(struct gyre_recorder *recorder, uint64_t sequence)
{
    const struct gyre_record_call told = {sequence, 17, 1000, 3, GYRE_BY_ROUNDS};
    return gyre_record_call(recorder, &told);
}

static const struct gyre_trace_event *event_of(const struct gyre_recorder *recorder,
                                               uint64_t number)
{
    const struct gyre_trace_event *event = gyre_trace_at(recorder->trace, number);
    assert_non_null(event);
    return event;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/gyre-trace-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("GYRE_TRACE", folder, 1);
    snprintf(path, sizeof path, "%s/ab020304-rank-2.gyretrace", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    unlink(path);
    snprintf(path, sizeof path, "%s/ab020304-epoch-7-rank-2.gyretrace", folder);
    unlink(path);
    unsetenv("GYRE_TRACE");
    return rmdir(folder);
}

static void calls_and_their_steps_are_events(void **state)
{
    (void)state;
    struct gyre_recorder *recorder = make(0);
    struct gyre_record_place place = call(recorder, 9);
    const struct gyre_trace_event step = {.kind = GYRE_EVENT_SEND,
                                          .lane = 4,
                                          .slice = 5,
                                          .round = 6,
                                          .peer = 1,
                                          .size = 4096,
                                          .begin = gyre_record_step_time(&place)};
    uint64_t number = gyre_record_step(&place, &step);
    assert_int_equal(number, 2);
    assert_int_equal(event_of(recorder, 2)->end, 0);
    gyre_trace_begin(recorder->trace, number, step.begin + 1);
    assert_int_equal(event_of(recorder, 2)->begin, step.begin + 1);
    gyre_trace_end(recorder->trace, number, gyre_ticks());
    gyre_trace_begin(recorder->trace, number, step.begin + 2); /* it has ended */
    assert_int_equal(event_of(recorder, 2)->begin, step.begin + 1);
    gyre_record_waits(place, 3);
    assert_int_equal(event_of(recorder, 1)->end, 0);
    gyre_record_ended(place, 0);
    const struct gyre_trace_event *first = event_of(recorder, 1), *second = event_of(recorder, 2);
    assert_int_equal(first->kind, GYRE_EVENT_CALL);
    assert_int_equal(first->size, 1000);
    assert_int_equal(first->peer, 3);
    assert_int_equal(second->sequence, 9);
    assert_int_equal(second->signature, 17);
    assert_int_equal(second->comm, 3);
    assert_int_equal(second->lane, 4);
    assert_int_equal(second->slice, 5);
    assert_int_equal(second->round, 6);
    assert_int_equal(second->peer, 1);
    assert_true(first->begin <= second->begin && second->begin <= second->end);
    assert_true(second->end <= first->end);
    gyre_recorder_destroy(recorder);
}

static long page_faults(void)
{
    struct rusage used;
    assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_minflt;
}

/* Events of 256 pages are written. */
static void no_event_waits_for_a_page(void **state)
{
    (void)state;
    if (madvise(NULL, 0, MADV_POPULATE_WRITE) != 0)
        skip(); /* Linux before 5.14 */
    struct gyre_recorder *recorder = make_of(16 * BYTES, 0);
    long before = page_faults();
    for (uint64_t i = 0; i < 16 * PLACES; i++)
        call(recorder, i);
    assert_true(page_faults() - before < 128);
    gyre_recorder_destroy(recorder);
}

static void the_file_is_there_before_anything_ends(void **state)
{
    struct gyre_record_head head;
    struct gyre_trace_event event;
    struct stat about;
    (void)state;
    struct gyre_recorder *recorder = make(0);
    gyre_recorder_note_comm(recorder, 3, 2, 1);
    call(recorder, 9);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &about), 0);
    assert_int_equal(about.st_size, GYRE_RECORD_HEAD_BYTES + PLACES * sizeof event);
    assert_int_equal(pread(fd, &head, sizeof head, 0), sizeof head);
    assert_string_equal(head.magic, GYRE_TRACE_MAGIC);
    assert_int_equal(head.records, PLACES);
    assert_int_equal(head.rank, 2);
    assert_int_equal(head.comm[0].name, 3);
    assert_string_equal(head.way[GYRE_BY_PUSH], "push");
    assert_int_equal(pread(fd, &event, sizeof event, GYRE_RECORD_HEAD_BYTES + sizeof event),
                     sizeof event);
    assert_int_equal(event.number, 1);
    assert_int_equal(event.sequence, 9);
    gyre_recorder_end(recorder, -3, 4, "rank 4 has gone");
    assert_int_equal(pread(fd, &head, sizeof head, 0), sizeof head);
    assert_int_equal(head.state, GYRE_RECORD_FAILED);
    assert_string_equal(head.story, "rank 4 has gone");
    assert_int_equal(head.beat % 2, 0);
    close(fd);
    gyre_recorder_destroy(recorder);
}

static void the_newest_events_are_kept(void **state)
{
    (void)state;
    struct gyre_recorder *recorder = make(0);
    struct gyre_record_place first = call(recorder, 1);
    for (uint64_t i = 1; i <= PLACES; i++)
        call(recorder, 1 + i);
    assert_null(gyre_trace_at(recorder->trace, 1));
    gyre_record_ended(first, 0); /* touches the new owner of the place no more */
    gyre_record_waits(first, 1);
    const struct gyre_trace_event *event = event_of(recorder, 1 + PLACES);
    assert_int_equal(event->sequence, 1 + PLACES);
    assert_int_equal(event->end, 0);
    assert_int_equal(event->peer, GYRE_RECORD_NOBODY);
    gyre_recorder_destroy(recorder);
}

static void steps_of_a_call_that_is_forgotten_are_left_out(void **state)
{
    const struct gyre_trace_event step = {.kind = GYRE_EVENT_FOLD};
    (void)state;
    struct gyre_recorder *recorder = make(0);
    struct gyre_record_place first = call(recorder, 1);
    for (uint64_t i = 1; i <= GYRE_RECORDS; i++)
        call(recorder, 1 + i);
    assert_int_equal(gyre_record_step(&first, &step), 0);
    gyre_trace_end(recorder->trace, 0, gyre_ticks());
    gyre_recorder_destroy(recorder);
}

/* Whoever has mapped the older file keeps what it maps. */
static void a_file_of_that_name_is_taken_away(void **state)
{
    struct stat old, new;
    (void)state;
    struct gyre_recorder *recorder = make(0), *again;
    assert_int_equal(stat(path, &old), 0);
    call(recorder, 5);
    again = make(0);
    assert_int_equal(stat(path, &new), 0);
    assert_true(old.st_ino != new.st_ino);
    assert_int_equal(event_of(recorder, 1)->sequence, 5);
    gyre_recorder_destroy(recorder);
    gyre_recorder_destroy(again);
}

static void an_epoch_has_a_file_of_its_own(void **state)
{
    char name[128];
    (void)state;
    snprintf(name, sizeof name, "%s/ab020304-epoch-7-rank-2.gyretrace", folder);
    struct gyre_recorder *recorder = make(7);
    assert_int_equal(access(name, R_OK), 0);
    gyre_recorder_destroy(recorder);
}

static void a_missing_folder_is_made(void **state)
{
    char deeper[128];
    (void)state;
    snprintf(deeper, sizeof deeper, "%s/a/b", folder);
    setenv("GYRE_TRACE", deeper, 1);
    struct gyre_recorder *recorder = make(0);
    assert_non_null(recorder->trace);
    gyre_recorder_destroy(recorder);
    snprintf(path, sizeof path, "%s/a/b/ab020304-rank-2.gyretrace", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(deeper), 0);
    *strrchr(deeper, '/') = '\0';
    assert_int_equal(rmdir(deeper), 0);
}

static void without_a_folder_the_job_goes_on(void **state)
{
    (void)state;
    setenv("GYRE_TRACE", "/proc/no/folder", 1);
    struct gyre_recorder *recorder = make(0);
    assert_null(recorder->trace);
    struct gyre_record_place place = call(recorder, 1);
    assert_int_equal(gyre_record_step_time(&place), 0);
    gyre_record_ended(place, 0);
    assert_true(gyre_record_at(place)->ended > 0);
    gyre_recorder_destroy(recorder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_and_their_steps_are_events, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(no_event_waits_for_a_page, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(the_file_is_there_before_anything_ends, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(the_newest_events_are_kept, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(steps_of_a_call_that_is_forgotten_are_left_out, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_file_of_that_name_is_taken_away, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(an_epoch_has_a_file_of_its_own, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_missing_folder_is_made, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(without_a_folder_the_job_goes_on, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
