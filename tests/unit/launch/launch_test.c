/* The launcher's pure parts: seatings, shares of cores, lines, and the words between launchers. */
#include "launch/cores.h"
#include "launch/children/launcher_line.h"
#include "launch/seating.h"
#include "launch/children/lines.h"
#include "launch/children/shown.h"
#include "rig/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- seatings --------------------------------------------------------------------------------- */

static struct gyre_seating seating;
static struct gyre_trouble trouble;

static const char *sizes(void)
{
    static char text[256];
    text[0] = 0;
    for (int i = 0; i < seating.nodes; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", seating.size[i]);
    return text;
}

static void seatings_are_lists_of_sizes(void **state)
{
    (void)state;
    assert_int_equal(gyre_seating_parse_sizes("-n", "4,auto,1", 6, &seating, &trouble), 0);
    assert_string_equal(sizes(), "4 6 1 ");
    assert_int_equal(gyre_seating_parse_nodes("-s", "3x2", &seating, &trouble), 0);
    assert_string_equal(sizes(), "2 2 2 ");
    assert_int_equal(gyre_seating_parse_nodes("-s", "1+1+2", &seating, &trouble), 0);
    assert_string_equal(sizes(), "1 1 2 ");
}

static void hosts_have_names_and_sizes(void **state)
{
    static struct gyre_hosts hosts;
    (void)state;
    assert_int_equal(
        gyre_seating_parse_hosts("-h", "a:4,me@b,[fe80::1]:2,[::1]", 3, &hosts, &seating, &trouble),
        0);
    assert_string_equal(sizes(), "4 3 2 3 ");
    assert_string_equal(hosts.name[0], "a");
    assert_string_equal(hosts.name[1], "me@b");
    assert_string_equal(hosts.name[2], "[fe80::1]");
    assert_string_equal(hosts.name[3], "[::1]");
    assert_int_equal(gyre_seating_parse_hosts("-h", "node[01-02,07]:8,me@[::1]:1,x[3-4]", 3, &hosts,
                                              &seating, &trouble),
                     0);
    assert_string_equal(sizes(), "8 8 8 1 3 3 ");
    assert_string_equal(hosts.name[2], "node07");
    assert_string_equal(hosts.name[3], "me@[::1]");
    assert_string_equal(hosts.name[5], "x4");
}

/* No name is cut, and no wrong list reaches ssh. */
static void wrong_hosts_are_refused(void **state)
{
    static struct gyre_hosts hosts;
    static char name[GYRE_HOST_MAX + 1];
    memset(name, 'x', GYRE_HOST_MAX);
    const char *const wrong[] = {"",         "a,",     "-a",    "a b",     "a:0",
                                 "g[1-2",    "g[2-1]", "g[a]",  "g[1:2]",  "g[1]]",
                                 "g[1]:0",   "g[1];x", "g[]:3", "g[1-9]:", "a:1,g[0-9999]",
                                 "g[1-2]x:", name};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        seating = (struct gyre_seating){1, {77}};
        trouble = (struct gyre_trouble){0};
        if (gyre_seating_parse_hosts("-h", wrong[i], 2, &hosts, &seating, &trouble) !=
                GYRE_INVALID ||
            !strstr(trouble.text, "-h") || seating.size[0] != 77)
            fail_msg("\"%s\": %s", wrong[i], trouble.text);
    }
}

static void wrong_seatings_change_nothing(void **state)
{
    static const char *const wrong[] = {
        "", "0", "-1", "4,", ",4", "4x4", "9999", "99999999999999999999", "1 2"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        seating = (struct gyre_seating){1, {77}};
        trouble = (struct gyre_trouble){0};
        assert_int_equal(gyre_seating_parse_sizes("-n", wrong[i], 2, &seating, &trouble),
                         GYRE_INVALID);
        assert_int_equal(seating.size[0], 77);
        assert_non_null(strstr(trouble.text, "-n"));
    }
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_seating_parse_nodes("-s", "2x2x2", &seating, &trouble), GYRE_INVALID);
    assert_int_equal(gyre_seating_parse_nodes("-s", "2+", &seating, &trouble), GYRE_INVALID);
    assert_int_equal(gyre_seating_parse_nodes("-s", "9999x1", &seating, &trouble), GYRE_INVALID);
}

static void too_many_nodes_are_refused(void **state)
{
    static char text[2 * GYRE_NODES_MAX + 8];
    (void)state;
    for (int i = 0; i < GYRE_NODES_MAX; i++)
        strcat(text, i ? ",1" : "1");
    assert_int_equal(gyre_seating_parse_sizes("-n", text, 1, &seating, &trouble), 0);
    assert_int_equal(gyre_seating_world(&seating), GYRE_NODES_MAX);
    strcat(text, ",1");
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_seating_parse_sizes("-n", text, 1, &seating, &trouble), GYRE_INVALID);
}

/* rank = sum of the lower nodes' sizes + local rank: dense, also where nodes differ. */
static void ranks_are_dense(void **state)
{
    static const struct gyre_seating uneven = {3, {4, 1, 2}};
    int expected[7][3] = {{0, 0, 4}, {0, 1, 4}, {0, 2, 4}, {0, 3, 4},
                          {1, 0, 1}, {2, 0, 2}, {2, 1, 2}};
    (void)state;
    assert_int_equal(gyre_seating_world(&uneven), 7);
    for (int rank = 0; rank < 7; rank++) {
        struct gyre_rank_seat place = gyre_seating_seat(&uneven, rank);
        assert_int_equal(place.rank, rank);
        assert_int_equal(place.node, expected[rank][0]);
        assert_int_equal(place.local_rank, expected[rank][1]);
        assert_int_equal(place.local_size, expected[rank][2]);
        assert_int_equal(gyre_seating_first_rank(&uneven, place.node) + place.local_rank, rank);
    }
}

/* --- cores ------------------------------------------------------------------------------------ */

static void cores_are_shared_without_overlap(void **state)
{
    struct gyre_cores cores = {.count = 7, .cpus = 7, .cpu = {0, 4, 1, 5, 2, 6, 3}};
    (void)state;
    for (int n = 1; n <= 7; n++) {
        cpu_set_t all, one, both;
        CPU_ZERO(&all);
        for (int i = 0; i < n; i++) {
            gyre_cores_of_rank(&cores, i, n, &one);
            assert_in_range(CPU_COUNT(&one), 7 / n, 7 / n + 1);
            CPU_AND(&both, &all, &one);
            assert_int_equal(CPU_COUNT(&both), 0);
            CPU_OR(&all, &all, &one);
        }
        assert_int_equal(CPU_COUNT(&all), 7);
    }
    assert_int_equal(gyre_cores_per_rank(&cores, 3), 2);
    assert_int_equal(gyre_cores_per_rank(&cores, 8), 1);
}

static void ranks_beyond_the_cores_take_turns(void **state)
{
    struct gyre_cores cores = {.count = 2, .cpus = 2, .cpu = {3, 5}};
    cpu_set_t set;
    (void)state;
    for (int i = 0; i < 5; i++) {
        gyre_cores_of_rank(&cores, i, 5, &set);
        assert_int_equal(CPU_COUNT(&set), 1);
        assert_true(CPU_ISSET(i % 2 ? 5 : 3, &set));
    }
}

static void cores_are_free_for_so_many(void **state)
{
    struct gyre_cores cores = {.count = 4, .cpus = 6, .machine = 8};
    (void)state;
    assert_true(gyre_cores_are_free(&cores, 4, 0));
    assert_true(gyre_cores_are_free(&cores, 4, 4));
    assert_false(gyre_cores_are_free(&cores, 4, 5));
    assert_true(gyre_cores_are_free(&cores, 3, 5));
    assert_false(gyre_cores_are_free(&cores, 5, 0)); /* the quota ends at 4 */
}

static void this_machine_has_cores(void **state)
{
    struct gyre_cores cores;
    (void)state;
    gyre_cores_find(&cores);
    assert_in_range(cores.count, 1, cores.cpus);
    assert_true(cores.machine >= cores.cpus);
    assert_true(gyre_cores_busy() >= 0);
}

/* --- lines ------------------------------------------------------------------------------------ */

struct lines { /* a tap that reads `in` and a sink that is read from `out` */
    struct gyre_line_tap tap;
    struct gyre_sink sink;
    int in, out;
};

static void lines_open(struct lines *lines)
{
    int in[2], out[2];
    assert_int_equal(pipe(in) | pipe(out), 0);
    lines->in = in[1];
    lines->out = out[0];
    assert_int_equal(gyre_sink_init(&lines->sink, out[1]), 0);
    assert_int_equal(gyre_line_tap_init(&lines->tap, in[0], -1, &lines->sink), 0);
    strcpy(lines->tap.prefix, "[7] ");
}

static void lines_close(struct lines *lines)
{
    gyre_line_tap_deinit(&lines->tap);
    close(lines->sink.fd);
    gyre_sink_deinit(&lines->sink);
    close(lines->out);
    if (lines->in >= 0)
        close(lines->in);
}

static void put(struct lines *lines, const char *bytes)
{
    assert_int_equal(write(lines->in, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    gyre_line_tap_read(&lines->tap);
}

static const char *got(struct lines *lines)
{
    static char text[1024];
    assert_int_equal(gyre_sink_write(&lines->sink), 0);
    if (fcntl(lines->out, F_SETFL, O_NONBLOCK))
        return NULL;
    ssize_t count = read(lines->out, text, sizeof text - 1);
    text[count > 0 ? count : 0] = 0;
    return text;
}

static void a_line_waits_for_its_end(void **state)
{
    struct lines lines;
    (void)state;
    lines_open(&lines);
    put(&lines, "one");
    assert_string_equal(got(&lines), "");
    put(&lines, " line\n\ntwo");
    assert_string_equal(got(&lines), "[7] one line\n[7] \n");
    close(lines.in);
    lines.in = -1;
    gyre_line_tap_read(&lines.tap);
    assert_string_equal(got(&lines), "[7] two\n");
    assert_int_equal(lines.tap.fd, -1);
    assert_string_equal(lines.tap.last, "two");
    lines_close(&lines);
}

static void a_line_without_end_is_cut(void **state)
{
    struct lines lines;
    char piece[4097], *all = calloc(1, 2 * GYRE_LINE_MAX);
    size_t length = 0;
    (void)state;
    lines_open(&lines);
    memset(piece, 'x', 4096);
    piece[4096] = 0;
    for (size_t sent = 0; sent < GYRE_LINE_MAX + 4096; sent += 4096) {
        put(&lines, piece);
        for (const char *text; *(text = got(&lines)); length += strlen(text))
            strcpy(all + length, text);
    }
    assert_int_equal(length, 4 + GYRE_LINE_MAX + 1);
    assert_int_equal(all[length - 1], '\n');
    assert_int_equal(strspn(all + 4, "x"), GYRE_LINE_MAX);
    free(all);
    lines_close(&lines);
}

static void the_last_line_is_kept_up_to_a_word(void **state)
{
    struct lines lines;
    char text[2 * GYRE_LAST_MAX];
    (void)state;
    lines_open(&lines);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "word "[i % 5];
    for (size_t length = GYRE_LAST_MAX - 8; length < GYRE_LAST_MAX + 8; length++) {
        char line[sizeof text], *last = lines.tap.last;
        bool whole = length < GYRE_LAST_MAX;
        snprintf(line, sizeof line, "%.*s\n", (int)length, text);
        put(&lines, line);
        got(&lines);
        line[length] = 0;
        assert_int_equal(strcmp(last, line) == 0, whole);
        if (!whole)
            assert_string_equal(last + strlen(last) - 8, "word ...");
    }
    memset(text, 'x', sizeof text);
    text[sizeof text - 2] = '\n';
    text[sizeof text - 1] = 0;
    put(&lines, text);
    assert_int_equal(strspn(lines.tap.last, "x"), GYRE_LAST_MAX - 5);
    lines_close(&lines);
}

/* --- what is shown ---------------------------------------------------------------------------- */

static bool admit(struct gyre_shown *shown, const char *line)
{
    return gyre_shown_admit(shown, line, strlen(line));
}

static void equal_failures_of_the_tool_are_shown_once(void **state)
{
    struct gyre_shown shown = {0};
    (void)state;
    assert_true(admit(&shown, "gyre_init: rank 3 on a (pid 1234): no card 1"));
    assert_false(admit(&shown, "gyre_init: rank 17 on a (pid 4): no card 1"));
    assert_true(admit(&shown, "gyre_init: rank 17 on a (pid 4): no card 2"));
    assert_true(admit(&shown, "gyre_init: rank 17 on b (pid 4): no card 2"));
    assert_true(admit(&shown, "gyre train: no such file"));
    assert_false(admit(&shown, "gyre train: no such file"));
    assert_false(admit(&shown, "[3] gyre train: no such file"));
    assert_true(admit(&shown, "gyre show env: no such file"));
    assert_false(admit(&shown, "[12] gyre show env: no such file"));
    for (int i = 0; i < 2; i++) { /* not the tool's failures */
        assert_true(admit(&shown, "mine: no such file"));
        assert_true(admit(&shown, "gyre[rank 3 @ a]: no such file"));
        assert_true(admit(&shown, "gyre-keeper: a process"));
        assert_true(admit(&shown, "gyre "));
        assert_true(admit(&shown, ""));
    }
    assert_int_equal(shown.left_out, 0);
}

static void of_many_failures_the_first_are_shown(void **state)
{
    struct gyre_shown shown = {0};
    char line[64];
    (void)state;
    for (int i = 0; i < 20; i++) {
        snprintf(line, sizeof line, "gyre train: file %d fails", i);
        assert_int_equal(admit(&shown, line), i < GYRE_SHOWN_FAILURES);
    }
    assert_int_equal(shown.left_out, 20 - GYRE_SHOWN_FAILURES);
    assert_false(admit(&shown, "gyre train: file 0 fails"));
    assert_int_equal(shown.left_out, 20 - GYRE_SHOWN_FAILURES);
}

static void what_was_shown_scrolls_away(void **state)
{
    struct gyre_shown shown = {0};
    char line[64];
    (void)state;
    assert_false(gyre_shown_recently(&shown, "disk full"));
    assert_true(admit(&shown, "[2] disk full"));
    for (int i = 0; i < GYRE_SHOWN_RECENT; i++) {
        assert_true(gyre_shown_recently(&shown, "disk full"));
        assert_false(gyre_shown_recently(&shown, "gyre train: rank 4 fails"));
        assert_true(gyre_shown_recently(&shown, "[7] disk full"));
        assert_false(gyre_shown_recently(&shown, "disk ful"));
        snprintf(line, sizeof line, "line %d", i);
        assert_true(admit(&shown, line));
    }
    assert_false(gyre_shown_recently(&shown, "disk full"));
    assert_true(admit(&shown, "gyre train: rank 3 fails"));
    assert_true(gyre_shown_recently(&shown, "gyre train: rank 4 fails"));
}

/* All that one read can bring. */
static void reports_are_kept_aside(void **state)
{
    char line[GYRE_LAST_MAX], many[8192];
    struct lines lines;
    (void)state;
    lines_open(&lines);
    assert_int_equal(gyre_line_tap_keep(&lines.tap, "gyre run: "), 0);
    put(&lines, "before\ngyre run: rank 3\ngyre run: rank 4\ngyre ran\n");
    assert_string_equal(got(&lines), "[7] before\n[7] gyre ran\n");
    assert_true(gyre_line_tap_take(&lines.tap, line));
    assert_string_equal(line, "rank 3");
    assert_true(gyre_line_tap_take(&lines.tap, line));
    assert_string_equal(line, "rank 4");
    assert_false(gyre_line_tap_take(&lines.tap, line));
    for (size_t at = 0; at + 12 < sizeof many; at += 12)
        strcpy(many + at, "gyre run: x\n");
    put(&lines, many);
    for (size_t i = 0; i < strlen(many) / 12; i++)
        assert_true(gyre_line_tap_take(&lines.tap, line));
    assert_false(gyre_line_tap_take(&lines.tap, line));
    lines_close(&lines);
}

/* Whatever one read can bring has room, and a sink that nobody reads stops asking for more. */
static void a_full_sink_asks_for_nothing(void **state)
{
    struct lines lines;
    char newlines[4097];
    int reads = 0;
    (void)state;
    lines_open(&lines);
    strcpy(lines.tap.prefix, "[1234567890123456789] ");
    memset(newlines, '\n', 4096);
    newlines[4096] = 0;
    for (; gyre_sink_has_room(&lines.sink); reads++) {
        put(&lines, newlines);
        assert_int_equal(gyre_sink_write(&lines.sink), 0);
    }
    assert_in_range(reads, 2, 20);
    assert_true(gyre_sink_pending(&lines.sink));
    lines_close(&lines);
}

static void a_sink_without_reader_breaks_once(void **state)
{
    struct lines lines;
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    lines_open(&lines);
    close(lines.out);
    put(&lines, "x\n");
    assert_int_equal(gyre_sink_write(&lines.sink), -EPIPE);
    put(&lines, "y\n");
    assert_int_equal(gyre_sink_write(&lines.sink), 0);
    assert_true(gyre_sink_has_room(&lines.sink));
    lines.out = open("/dev/null", O_RDONLY);
    lines_close(&lines);
}

/* --- words between launchers ------------------------------------------------------------------ */

static void words_arrive_in_any_pieces(void **state)
{
    static const char words[] =
        "signal 15\nfailed 137 rank 2 on b: killed\nnonsense\n"
        "signal 65\nfailed 0 none\nfailed 256 none\nlost 1 2 256 rank 4\n"
        "lost 1 2 9 rank 4\nlost 1 -1 9 nobody\nlost 1 0 1 missed\n"
        "restart 2 3 a,b\nrestart 4 3\nforget\nback 1 2 rank 4\nwell\nclosing\nleave\n"
        "ended\nagain\nover\ndone\n";
    static const struct gyre_heard meant[] = {
        {GYRE_WORD_SIGNAL, 15, "", 0, 0},    {GYRE_WORD_FAILED, 137, "rank 2 on b: killed", 0, 0},
        {GYRE_WORD_LOST, 9, "rank 4", 1, 2}, {GYRE_WORD_LOST, 1, "missed", 1, 0},
        {GYRE_WORD_RESTART, 2, "a,b", 0, 3}, {GYRE_WORD_FORGET, 0, "", 0, 0},
        {GYRE_WORD_BACK, 0, "rank 4", 1, 2}, {GYRE_WORD_WELL, 0, "", 0, 0},
        {GYRE_WORD_CLOSING, 0, "", 0, 0},    {GYRE_WORD_LEAVE, 0, "", 0, 0},
        {GYRE_WORD_ENDED, 0, "", 0, 0},      {GYRE_WORD_AGAIN, 0, "", 0, 0},
        {GYRE_WORD_OVER, 0, "", 0, 0},       {GYRE_WORD_DONE, 0, "", 0, 0}};
    const int count = sizeof meant / sizeof *meant;
    int fds[2];
    (void)state;
    for (size_t step = 1; step < sizeof words; step++) {
        struct gyre_launcher_line ear = {0};
        int heard = 0;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        ear.fd = fds[0];
        for (size_t at = 0; at < sizeof words - 1; at += step) {
            size_t length = at + step < sizeof words - 1 ? step : sizeof words - 1 - at;
            assert_int_equal(write(fds[1], words + at, length), (ssize_t)length);
            gyre_launcher_line_read(&ear);
            for (struct gyre_heard word;
                 (word = gyre_launcher_line_next(&ear)).word != GYRE_WORD_NONE; heard++) {
                assert_in_range(heard, 0, count - 1);
                assert_int_equal(word.word, meant[heard].word);
                assert_int_equal(word.number, meant[heard].number);
                assert_string_equal(word.text, meant[heard].text);
                assert_int_equal(word.node, meant[heard].node);
                assert_int_equal(word.ranks, meant[heard].ranks);
                assert_int_equal(ear.done, heard >= 11);
            }
        }
        assert_int_equal(heard, count);
        assert_true(ear.done);
        close(fds[1]);
        gyre_launcher_line_read(&ear);
        assert_int_equal(gyre_launcher_line_next(&ear).word, GYRE_WORD_NONE);
        gyre_launcher_line_close(&ear);
    }
}

static void silence_is_said_once(void **state)
{
    struct gyre_launcher_line ear = {0}, other = {0};
    int fds[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ear.fd = fds[0];
    other.fd = fds[1];
    gyre_launcher_line_say(&other, "failed %d %s", 3, "because");
    gyre_launcher_line_close(&other);
    gyre_launcher_line_read(&ear);
    assert_int_equal(gyre_launcher_line_next(&ear).word, GYRE_WORD_FAILED);
    gyre_launcher_line_read(&ear);
    assert_int_equal(gyre_launcher_line_next(&ear).word, GYRE_WORD_GONE);
    assert_int_equal(gyre_launcher_line_next(&ear).word, GYRE_WORD_NONE);
}

static void a_line_beyond_reason_ends_the_connection(void **state)
{
    struct gyre_launcher_line ear = {0};
    char junk[2048];
    int fds[2];
    (void)state;
    memset(junk, 'x', sizeof junk);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ear.fd = fds[0];
    assert_int_equal(write(fds[1], junk, sizeof junk), sizeof junk);
    gyre_launcher_line_read(&ear);
    gyre_launcher_line_read(&ear);
    assert_int_equal(gyre_launcher_line_next(&ear).word, GYRE_WORD_GONE);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seatings_are_lists_of_sizes),
        cmocka_unit_test(hosts_have_names_and_sizes),
        cmocka_unit_test(wrong_hosts_are_refused),
        cmocka_unit_test(wrong_seatings_change_nothing),
        cmocka_unit_test(too_many_nodes_are_refused),
        cmocka_unit_test(ranks_are_dense),
        cmocka_unit_test(cores_are_shared_without_overlap),
        cmocka_unit_test(ranks_beyond_the_cores_take_turns),
        cmocka_unit_test(cores_are_free_for_so_many),
        cmocka_unit_test(this_machine_has_cores),
        cmocka_unit_test(a_line_waits_for_its_end),
        cmocka_unit_test(a_line_without_end_is_cut),
        cmocka_unit_test(the_last_line_is_kept_up_to_a_word),
        cmocka_unit_test(equal_failures_of_the_tool_are_shown_once),
        cmocka_unit_test(of_many_failures_the_first_are_shown),
        cmocka_unit_test(what_was_shown_scrolls_away),
        cmocka_unit_test(reports_are_kept_aside),
        cmocka_unit_test(a_full_sink_asks_for_nothing),
        cmocka_unit_test(a_sink_without_reader_breaks_once),
        cmocka_unit_test(words_arrive_in_any_pieces),
        cmocka_unit_test(silence_is_said_once),
        cmocka_unit_test(a_line_beyond_reason_ends_the_connection),
    };
    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
