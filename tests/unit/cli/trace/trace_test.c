/* Traces that this test has made: what is read, what is refused, how clocks come together, what a
 * message waits for, how bars find a row, and what Perfetto gets. */
#include "cli/trace/chrome.h"
#include "cli/trace/reading/clocks.h"
#include "cli/trace/reading/pairs.h"
#include "cli/trace/reading/read.h"
#include "cli/trace/summary.h"
#include "cli/trace/reading/tracks.h"
#include "rig/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES 64u
#define US     1000

static char folder[64];
static struct gyre_timeline timeline;
static struct gyre_trouble trouble;

/* -- files ------------------------------------------------------------------------------------- */

static struct gyre_record_head head;
static struct gyre_trace_event ring[PLACES];

/* Begins the file of a rank whose clock is `ahead` of true time, with two ticks a nanosecond. */
static void begin_file(uint32_t rank, const char *host, int64_t ahead)
{
    memset(ring, 0, sizeof ring);
    head = (struct gyre_record_head){.version = GYRE_TRACE_VERSION,
                                     .head_bytes = GYRE_RECORD_HEAD_BYTES,
                                     .record_bytes = sizeof(struct gyre_trace_event),
                                     .records = PLACES,
                                     .rank = rank,
                                     .n = 3,
                                     .job = {7},
                                     .opened = {0, 5000, (uint64_t)(1000000 + ahead)},
                                     .now = {2000000, 1005000, (uint64_t)(2000000 + ahead)}};
    memcpy(head.magic, GYRE_TRACE_MAGIC, sizeof head.magic);
    strcpy(head.host, host);
    strcpy(head.program, "made \"up\"");
    strcpy(head.way[2], "ring");
}

/* Adds an event from `begin` to `end` of true time, both in nanoseconds; -1: it has not ended. */
static void add(uint64_t number, enum gyre_event_kind kind, int64_t begin, int64_t end,
                uint32_t peer)
{
    ring[number % PLACES] = (struct gyre_trace_event){.number = number,
                                                      .begin = (uint64_t)(2 * begin),
                                                      .end = end < 0 ? 0 : (uint64_t)(2 * end),
                                                      .sequence = 9,
                                                      .size = 4096,
                                                      .peer = peer,
                                                      .way = 2,
                                                      .kind = (uint8_t)kind};
}

static void end_file(size_t bytes)
{
    char path[128];
    static uint8_t file[GYRE_RECORD_HEAD_BYTES + sizeof ring];
    memcpy(file, &head, sizeof head);
    memcpy(file + GYRE_RECORD_HEAD_BYTES, ring, sizeof ring);
    snprintf(path, sizeof path, "%s/%02x-rank-%u.gyretrace", folder, head.job[0], head.rank);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file, bytes), bytes);
    close(fd);
}

#define WHOLE (GYRE_RECORD_HEAD_BYTES + sizeof ring)

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/gyre-trace-XXXXXX");
    timeline = (struct gyre_timeline){0};
    trouble = (struct gyre_trouble){0};
    return mkdtemp(folder) == NULL;
}

static int drop_folder(void **state)
{
    char path[128];
    (void)state;
    gyre_timeline_free(&timeline);
    for (int job = 7; job < 9; job++)
        for (int rank = 0; rank < 3; rank++) {
            snprintf(path, sizeof path, "%s/%02x-rank-%d.gyretrace", folder, job, rank);
            unlink(path);
        }
    return rmdir(folder);
}

static void read_all(void)
{
    assert_int_equal(gyre_timeline_read(&timeline, folder, &trouble), 0);
    assert_int_equal(gyre_pairs_find(&timeline, &trouble), 0);
    assert_int_equal(gyre_clocks_set(&timeline, &trouble), 0);
    assert_int_equal(gyre_tracks_lay(&timeline, &trouble), 0);
    assert_int_equal(gyre_pairs_find(&timeline, &trouble), 0);
    gyre_pairs_tell_waits(&timeline);
}

static const struct gyre_bar *bar_of(uint32_t rank, uint64_t number)
{
    for (uint32_t i = 0; i < timeline.of[rank].bars; i++)
        if (timeline.of[rank].bar[i].number == number)
            return &timeline.of[rank].bar[i];
    fail_msg("rank %u has no event %d", rank, (int)number);
    return NULL;
}

/* -- reading ----------------------------------------------------------------------------------- */

static void what_cannot_be_is_left_out(void **state)
{
    (void)state;
    begin_file(0, "here", 0);
    add(1, GYRE_EVENT_CALL, 10, 90, GYRE_RECORD_NOBODY);
    add(2, GYRE_EVENT_KINDS, 10, 90, 1); /* no such kind */
    add(3, GYRE_EVENT_SEND, 10, 90, 3);  /* no such rank */
    add(4, GYRE_EVENT_FOLD, 90, 10, 0);  /* ends before it begins */
    add(5, GYRE_EVENT_FOLD, 20, 30, 0);
    ring[5].number = 6;                          /* another place's */
    add(PLACES + 7, GYRE_EVENT_FOLD, 40, 50, 0); /* an older one was there */
    add(8, GYRE_EVENT_FOLD, 40, 50, 0);
    ring[8].way = GYRE_RECORD_WAYS;
    end_file(WHOLE);
    read_all();
    assert_int_equal(timeline.of[0].bars, 2);
    assert_int_equal(timeline.of[0].lost, PLACES + 5);
    assert_int_equal(bar_of(0, 1)->end - bar_of(0, 1)->begin, 80);
    assert_false(timeline.of[0].torn);
}

static void a_torn_file_is_read_as_far_as_it_goes(void **state)
{
    (void)state;
    begin_file(0, "here", 0);
    add(1, GYRE_EVENT_FOLD, 10, 20, 0);
    add(2, GYRE_EVENT_FOLD, 20, 30, 0);
    end_file(GYRE_RECORD_HEAD_BYTES + 2 * 64 + 17); /* in event 2 */
    begin_file(1, "here", 0);
    end_file(GYRE_RECORD_HEAD_BYTES - 1);
    read_all();
    assert_int_equal(timeline.count, 1);
    assert_int_equal(timeline.of[0].bars, 1);
    assert_true(timeline.of[0].torn);
    assert_int_equal(timeline.refused, 1);
    assert_non_null(strstr(timeline.text, "it ends in its head"));
}

static void heads_that_cannot_be_are_refused(void **state)
{
    static const struct {
        size_t at;
        uint32_t value;
        const char *says;
    } wrong[] = {
        {offsetof(struct gyre_record_head, magic), 7, "is no trace"},
        {offsetof(struct gyre_record_head, version), 99, "another version"},
        {offsetof(struct gyre_record_head, records), 0, "head that cannot be"},
        {offsetof(struct gyre_record_head, records), 63, "head that cannot be"},
        {offsetof(struct gyre_record_head, record_bytes), 65, "head that cannot be"},
        {offsetof(struct gyre_record_head, head_bytes), 0, "head that cannot be"},
        {offsetof(struct gyre_record_head, rank), 3, "rank that cannot be"},
        {offsetof(struct gyre_record_head, n), 0, "rank that cannot be"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        begin_file(0, "here", 0);
        const uint32_t name = head.rank;
        trouble = (struct gyre_trouble){0};
        memcpy((uint8_t *)&head + wrong[i].at, &wrong[i].value, sizeof(uint32_t));
        const uint32_t rank = head.rank;
        head.rank = name; /* of the file */
        end_file(WHOLE);
        head.rank = rank;
        char path[128];
        snprintf(path, sizeof path, "%s/07-rank-0.gyretrace", folder);
        int fd = open(path, O_WRONLY);
        assert_int_equal(pwrite(fd, &head, sizeof head, 0), sizeof head);
        close(fd);
        assert_int_equal(gyre_timeline_read(&timeline, folder, &trouble), GYRE_INVALID);
        if (!strstr(trouble.text, wrong[i].says))
            fail_msg("%s", trouble.text);
        gyre_timeline_free(&timeline);
    }
}

static void the_job_that_was_started_last_is_read(void **state)
{
    (void)state;
    begin_file(0, "here", 0);
    end_file(WHOLE);
    begin_file(1, "here", 1);
    head.job[0] = 8;
    end_file(WHOLE);
    read_all();
    assert_int_equal(timeline.count, 1);
    assert_int_equal(timeline.of[0].head.rank, 1);
    assert_int_equal(timeline.others, 1);
}

/* A file may come from anybody: what it says of a host is no command of a terminal. */
static void texts_of_a_file_are_harmless(void **state)
{
    char *text = NULL;
    size_t length;
    (void)state;
    begin_file(0, "h\x1b[2J\xc2\x9b\n\xff", 0);
    memset(head.name, 'n', sizeof head.name); /* without an end */
    strcpy(head.story, "two\nlines\x1b");
    strcpy(head.way[2], "\x1b"
                        "ring");
    end_file(WHOLE);
    read_all();
    const struct gyre_record_head *read = &timeline.of[0].head;
    assert_string_equal(read->host, "h?[2J????");
    assert_int_equal(strlen(read->name), sizeof read->name - 1);
    assert_string_equal(read->story, "two\nlines?");
    assert_string_equal(read->way[2], "?ring");
    FILE *out = open_memstream(&text, &length);
    gyre_summary_print(out, &timeline);
    fclose(out);
    assert_non_null(strstr(text, "h?[2J????"));
    free(text);
}

/* -- clocks ------------------------------------------------------------------------------------ */

/* Rank 0 sends at 100 us and receives at 180, rank 1 the other way round; each message takes 20. */
static void two_hosts(int64_t ahead)
{
    begin_file(0, "here", 0);
    add(1, GYRE_EVENT_SEND, 100 * US, 105 * US, 1);
    add(2, GYRE_EVENT_RECV, 100 * US, 180 * US, 1);
    end_file(WHOLE);
    begin_file(1, "there", ahead);
    add(1, GYRE_EVENT_RECV, 90 * US, 120 * US, 0);
    add(2, GYRE_EVENT_SEND, 160 * US, 165 * US, 0);
    end_file(WHOLE);
}

static void clocks_of_hosts_are_aligned_by_messages(void **state)
{
    char text[200];
    (void)state;
    two_hosts(3600 * INT64_C(1000000000)); /* an hour */
    read_all();
    assert_int_equal(timeline.hosts, 2);
    assert_int_equal(timeline.unaligned, 0);
    assert_int_equal(timeline.error, 20 * US);
    assert_int_equal(bar_of(1, 1)->end - bar_of(0, 1)->begin, 20 * US);
    assert_int_equal(bar_of(0, 2)->end - bar_of(1, 2)->begin, 20 * US);
    assert_int_equal(timeline.end - timeline.begin, 90 * US);
    gyre_clocks_text(&timeline, text, sizeof text);
    assert_string_equal(text, "the clocks of 2 hosts, aligned by their messages, agree to 20.0 us");
}

static void a_host_without_an_answer_keeps_its_clock(void **state)
{
    char text[200];
    (void)state;
    begin_file(0, "here", 0);
    add(1, GYRE_EVENT_SEND, 100 * US, 105 * US, 1);
    end_file(WHOLE);
    begin_file(1, "there", 5 * US);
    add(1, GYRE_EVENT_RECV, 90 * US, 120 * US, 0);
    end_file(WHOLE);
    read_all();
    assert_int_equal(timeline.unaligned, 1);
    assert_int_equal(bar_of(1, 1)->end - bar_of(0, 1)->begin, 25 * US);
    gyre_clocks_text(&timeline, text, sizeof text);
    assert_non_null(strstr(text, "1 of 2 hosts have no messages in both directions"));
}

/* A rank that was killed before its first beat has no rate of its own. */
static void a_rank_without_a_rate_takes_its_neighbours(void **state)
{
    (void)state;
    begin_file(0, "here", 0);
    head.now = head.opened;
    add(1, GYRE_EVENT_FOLD, 10 * US, 30 * US, 0);
    add(2, GYRE_EVENT_SEND, 40 * US, -1, 1);
    end_file(WHOLE);
    begin_file(1, "here", 0);
    add(1, GYRE_EVENT_FOLD, 10 * US, 30 * US, 0);
    end_file(WHOLE);
    read_all();
    assert_int_equal(bar_of(0, 1)->begin, bar_of(1, 1)->begin);
    assert_int_equal(bar_of(0, 1)->end, bar_of(1, 1)->end);
    assert_true(bar_of(0, 2)->open);
    assert_int_equal(bar_of(0, 2)->end, bar_of(0, 2)->begin);
}

/* -- bars -------------------------------------------------------------------------------------- */

static void a_message_waits_for_its_other_end(void **state)
{
    (void)state;
    two_hosts(0);
    read_all();
    assert_ptr_equal(bar_of(0, 1)->other, bar_of(1, 1));
    assert_int_equal(bar_of(1, 1)->moves_at, bar_of(0, 1)->begin); /* the receive came first */
    assert_int_equal(bar_of(0, 1)->moves_at, bar_of(0, 1)->begin);
    assert_int_equal(bar_of(1, 2)->moves_at, bar_of(1, 2)->begin);
    assert_int_equal(bar_of(0, 2)->moves_at, bar_of(1, 2)->begin);
}

static void a_send_that_was_stored_waits_for_nobody(void **state)
{
    (void)state;
    begin_file(0, "here", 0);
    add(1, GYRE_EVENT_SEND, 10 * US, 12 * US, 1);
    end_file(WHOLE);
    begin_file(1, "here", 0);
    add(1, GYRE_EVENT_RECV, 50 * US, 51 * US, 0);
    end_file(WHOLE);
    read_all();
    assert_int_equal(bar_of(0, 1)->moves_at, bar_of(0, 1)->begin);
    assert_int_equal(bar_of(1, 1)->moves_at, bar_of(1, 1)->begin);
}

/* A communicator's number comes again, and its oldest send was written over. */
static void of_equal_names_the_newest_belong_together(void **state)
{
    (void)state;
    begin_file(0, "here", 0);
    add(3, GYRE_EVENT_SEND, 30 * US, 31 * US, 1);
    end_file(WHOLE);
    begin_file(1, "here", 0);
    add(1, GYRE_EVENT_RECV, 10 * US, 11 * US, 0);
    add(3, GYRE_EVENT_RECV, 30 * US, 32 * US, 0);
    end_file(WHOLE);
    read_all();
    assert_ptr_equal(bar_of(0, 3)->other, bar_of(1, 3));
    assert_null(bar_of(1, 1)->other);
}

static void bars_of_a_track_do_not_overlap(void **state)
{
    char name[64];
    (void)state;
    begin_file(0, "here", 0);
    add(1, GYRE_EVENT_CALL, 10, 90, GYRE_RECORD_NOBODY);
    add(2, GYRE_EVENT_CALL, 20, 50, GYRE_RECORD_NOBODY);
    add(3, GYRE_EVENT_CALL, 50, 60, GYRE_RECORD_NOBODY);
    add(4, GYRE_EVENT_FOLD, 30, 40, 0);
    add(5, GYRE_EVENT_COPY, 50, 80, 0);
    ring[5].lane = GYRE_EVENT_MAPPED;
    ring[5].comm = 4;
    end_file(WHOLE);
    read_all();
    const struct gyre_timeline_rank *rank = &timeline.of[0];
    assert_int_equal(rank->tracks, 4);
    assert_int_equal(bar_of(0, 1)->track, 0);
    assert_int_equal(bar_of(0, 2)->track, 1);
    assert_int_equal(bar_of(0, 3)->track, 1);
    for (uint32_t i = 1; i < rank->bars; i++)
        assert_true(rank->bar[i].track != rank->bar[i - 1].track ||
                    rank->bar[i].begin >= rank->bar[i - 1].end);
    gyre_track_name(name, sizeof name, &rank->track[bar_of(0, 4)->track]);
    assert_string_equal(name, "lane 0");
    gyre_track_name(name, sizeof name, &rank->track[bar_of(0, 5)->track]);
    assert_string_equal(name, "communicator 4, shared memory");
}

/* -- outputs ----------------------------------------------------------------------------------- */

static void perfetto_gets_waits_and_arrows(void **state)
{
    char *text = NULL;
    size_t length;
    (void)state;
    two_hosts(0);
    read_all();
    FILE *out = open_memstream(&text, &length);
    gyre_chrome_put(out, &timeline);
    fclose(out);
    static const char *const parts[] = {
        "{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":10.000,\"dur\":5.000,\"cat\":\"wire\",\"name\":"
        "\"send to 1\",\"args\":{\"bytes\":4096,\"number\":9,\"slice\":0,\"round\":0,\"way\":\"ring"
        "\"}}",
        "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":10.000,\"dur\":60.000,\"cat\":\"wait\",\"name\":"
        "\"wait for 1\"",
        "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":70.000,\"dur\":20.000,\"cat\":\"wire\",\"name\":"
        "\"receive from 1\"",
        "{\"ph\":\"s\",\"pid\":0,\"tid\":0,\"ts\":10.000,\"id\":1,\"cat\":\"wire\"",
        "{\"ph\":\"f\",\"pid\":1,\"tid\":0,\"ts\":20.000,\"id\":1,\"cat\":\"wire\",\"name\":"
        "\"message\",\"bp\":\"e\"}",
        "rank 0, here, made \\\"up\\\", process 0"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("%s\nis not in\n%s", parts[i], text);
    free(text);
}

static void sums_tell_wire_fold_and_wait_apart(void **state)
{
    struct gyre_rank_sums sums;
    (void)state;
    two_hosts(0);
    begin_file(2, "here", 0);
    add(1, GYRE_EVENT_CALL, 0, 50 * US, 0);
    add(2, GYRE_EVENT_FOLD, 0, 7 * US, 0);
    end_file(WHOLE);
    read_all();
    gyre_rank_sum(&timeline.of[0], &sums);
    assert_int_equal(sums.wait, 60 * US);
    assert_int_equal(sums.wire, 25 * US);
    assert_int_equal(sums.messages, 1);
    assert_int_equal(sums.bytes, 4096);
    gyre_rank_sum(&timeline.of[2], &sums);
    assert_int_equal(sums.fold, 7 * US);
    assert_int_equal(sums.called, 1);
    assert_int_equal(sums.calls, 50 * US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_cannot_be_is_left_out, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_torn_file_is_read_as_far_as_it_goes, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(heads_that_cannot_be_are_refused, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(texts_of_a_file_are_harmless, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(the_job_that_was_started_last_is_read, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(clocks_of_hosts_are_aligned_by_messages, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_host_without_an_answer_keeps_its_clock, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_rank_without_a_rate_takes_its_neighbours, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_message_waits_for_its_other_end, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_send_that_was_stored_waits_for_nobody, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(of_equal_names_the_newest_belong_together, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(bars_of_a_track_do_not_overlap, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(perfetto_gets_waits_and_arrows, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(sums_tell_wire_fold_and_wait_apart, make_folder,
                                        drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
