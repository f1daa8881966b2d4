/* Texts of users, of files and of other programs against everything that reads them: numbers, sizes
 * and durations, words, numbers of ranks and hosts, layouts, rules for algorithms, prices, node
 * lists of Slurm, lines of another launcher, class names, widths of a network, JSON, options of a
 * training, schedules from a file, which the checker then proves. The first byte of an input says
 * which, the rest is the text.
 *
 * What is checked beside memory safety: a text is taken or refused with a sentence, and what is
 * taken lies within the limits that its reader promises. */
#include "fuzz/fuzz.h"

#include "base/bytes.h"
#include "base/env.h"
#include "cli/check/listed.h"
#include "collectives/choose/preference.h"
#include "collectives/prove/check.h"
#include "collectives/schedule/layout.h"
#include "data/classes.h"
#include "data/files/json.h"
#include "launch/children/launcher_line.h"
#include "launch/seating.h"
#include "model/nets/model.h"
#include "train/options.h"
#include "transport/job/inside.h"

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEXT_MOST 4096

static void check_refusal(int status, const struct gyre_trouble *trouble)
{
    REQUIRE(status < 0 && trouble->status == status && trouble->text[0]);
    REQUIRE(memchr(trouble->text, '\0', sizeof trouble->text));
}

/* -- numbers and words ------------------------------------------------------------------------- */

static void read_numbers(const char *text, struct gyre_trouble *trouble)
{
    int64_t number = 7;
    uint64_t size = 7;
    int status = gyre_parse_int("it", text, -5, 1000, &number, trouble);
    if (status)
        check_refusal(status, trouble);
    REQUIRE(status ? number == 7 : number >= -5 && number <= 1000);
    status = gyre_parse_size("it", text, &size, trouble);
    if (status)
        check_refusal(status, trouble);
    number = 7;
    status = gyre_parse_duration_ms("it", text, &number, trouble);
    if (status)
        check_refusal(status, trouble);
    REQUIRE(number >= 0);
}

static void read_words(const char *text, struct gyre_trouble *trouble)
{
    static const char *const words[] = {"ring", "recursive-doubling", "two-level",
                                        "nproc-per-node"};
    static const char *const help[] = {"a ring", NULL, "levels", "number of processes"};
    uint8_t bytes[8];
    int index = -1, status = gyre_parse_word("it", text, words, 4, &index, trouble);
    if (status)
        check_refusal(status, trouble);
    REQUIRE(status ? index == -1 : index >= 0 && index < 4);
    (void)gyre_nearest_word(text, words, 4);
    (void)gyre_nearest_name(text, words, help, 4);
    if (strlen(text) >= 2 * sizeof bytes)
        (void)gyre_hex_read(text, bytes, sizeof bytes);
}

/* -- ranks, nodes, hosts ----------------------------------------------------------------------- */

static void check_seating(int status, const struct gyre_seating *seating,
                          const struct gyre_trouble *trouble)
{
    if (status) {
        check_refusal(status, trouble);
        return;
    }
    REQUIRE(seating->nodes >= 1 && seating->nodes <= GYRE_NODES_MAX);
    for (int node = 0; node < seating->nodes; node++)
        REQUIRE(seating->size[node] >= 1 && seating->size[node] <= GYRE_RANKS_PER_NODE_MAX);
    int world = gyre_seating_world(seating);
    struct gyre_rank_seat last = gyre_seating_seat(seating, world - 1);
    REQUIRE(last.node == seating->nodes - 1 && last.local_rank == last.local_size - 1);
}

static void read_seating(const char *text, struct gyre_trouble *trouble)
{
    static struct gyre_seating seating;
    static struct gyre_hosts hosts;
    check_seating(gyre_seating_parse_sizes("it", text, 2, &seating, trouble), &seating, trouble);
    check_seating(gyre_seating_parse_nodes("it", text, &seating, trouble), &seating, trouble);
    int status = gyre_seating_parse_hosts("it", text, 2, &hosts, &seating, trouble);
    check_seating(status, &seating, trouble);
    for (int node = 0; !status && node < seating.nodes; node++)
        REQUIRE(hosts.name[node][0] && memchr(hosts.name[node], '\0', GYRE_HOST_MAX));
}

static void read_layout(const char *text, struct gyre_trouble *trouble)
{
    struct gyre_layout *layout;
    uint32_t n = 0;
    int status = gyre_layout_read("it", text, &layout, &n, trouble);
    if (status) {
        check_refusal(status, trouble);
        return;
    }
    REQUIRE(n >= 1);
    gyre_layout_destroy(layout);
}

static void read_slurm(const char *text, struct gyre_trouble *trouble)
{
    char host[GYRE_HOST_MAX] = "";
    int tasks = 0;
    setenv("SLURM_STEP_NODELIST", text, 1);
    int status = gyre_slurm_first_host(host, sizeof host, trouble);
    if (status)
        check_refusal(status, trouble);
    REQUIRE(status || (host[0] && memchr(host, '\0', sizeof host)));
    status = gyre_slurm_tasks_on_node("it", text, 3, &tasks, trouble);
    if (status)
        check_refusal(status, trouble);
    REQUIRE(status || tasks >= 1);
}

/* -- files ------------------------------------------------------------------------------------- */

static void read_rules(const char *text, struct gyre_trouble *trouble)
{
    static struct gyre_rules rules;
    int status = gyre_rules_parse("it", text, &rules, trouble);
    if (status)
        check_refusal(status, trouble);
    for (uint32_t i = 0; !status && i < rules.rules; i++)
        REQUIRE(i < GYRE_RULES_MAX && rules.rule[i].from < rules.rule[i].to);
}

static void read_tuning(const char *text, struct gyre_trouble *trouble)
{
    struct gyre_tuning tuning = gyre_tuning_built_in;
    uint32_t kinds = 0;
    char again[4096];
    int status = gyre_tuning_parse("it", text, &tuning, &kinds, trouble);
    if (status) {
        check_refusal(status, trouble);
        return;
    }
    REQUIRE(!(kinds >> GYRE_LINK_KINDS));
    struct gyre_tuning second = gyre_tuning_built_in;
    gyre_tuning_format(again, sizeof again, &tuning, (1u << GYRE_LINK_KINDS) - 1);
    REQUIRE(!gyre_tuning_parse("it", again, &second, &kinds, trouble));
    REQUIRE(gyre_tuning_hash(&tuning) == gyre_tuning_hash(&second));
}

static void read_model(const char *text, struct gyre_trouble *trouble)
{
    size_t widths[16];
    int count = 0, status = gyre_mlp_parse("it", text, widths, 16, &count, trouble);
    if (status)
        check_refusal(status, trouble);
    for (int i = 0; !status && i < count; i++)
        REQUIRE(widths[i] >= 1 && widths[i] <= 1u << 24);
    struct gyre_classes classes = {0};
    status = gyre_classes_read(&classes, text, trouble);
    if (status)
        check_refusal(status, trouble);
    gyre_classes_deinit(&classes);
}

static int walk_json(struct gyre_json *json, char *room)
{
    bool more;
    uint64_t whole;
    int status = gyre_json_open(json, '{');
    while (!status && !(status = gyre_json_more(json, '}', &more)) && more) {
        status = gyre_json_key(json, room);
        if (!status && room[0] == 'n')
            status = gyre_json_whole(json, &whole);
        else if (!status && room[0] == 's')
            status = gyre_json_string(json, room);
        else if (!status)
            status = gyre_json_skip(json);
    }
    return status ? status : gyre_json_end(json);
}

static void read_json(const char *text, struct gyre_trouble *trouble)
{
    static char room[TEXT_MOST + 1];
    struct gyre_json json = gyre_json_over("it", text, strlen(text), trouble);
    int status = walk_json(&json, room);
    if (status)
        check_refusal(status, trouble);
    (void)gyre_json_is_utf8(text);
}

/* -- another launcher -------------------------------------------------------------------------- */

static void read_lines(const char *text, struct gyre_trouble *trouble)
{
    static struct gyre_launcher_line line;
    int fd[2];
    (void)trouble;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
        return;
    REQUIRE(write(fd[1], text, strlen(text)) == (ssize_t)strlen(text));
    close(fd[1]);
    line = (struct gyre_launcher_line){.fd = fd[0]};
    for (int reads = 0; line.fd >= 0 && reads < TEXT_MOST; reads++) {
        struct gyre_heard heard;
        gyre_launcher_line_read(&line);
        while ((heard = gyre_launcher_line_next(&line)).word != GYRE_WORD_NONE)
            REQUIRE(heard.word != GYRE_WORD_FAILED || heard.text);
    }
    gyre_launcher_line_close(&line);
}

/* -- options of a training --------------------------------------------------------------------- */

static void read_options(const char *text, struct gyre_trouble *trouble)
{
    struct gyre_train_options options;
    char *lines = strdup(text);
    REQUIRE(lines);
    gyre_train_options_init(&options);
    int status = gyre_train_option_text(&options, "it", lines, trouble);
    if (!status)
        status = gyre_train_options_check(&options, trouble);
    if (status)
        check_refusal(status, trouble);
    free(lines);
}

/* -- a schedule -------------------------------------------------------------------------------- */

/* What was taken is proved or has a defect: the checker believes nothing. */
static void read_schedule(const char *text, struct gyre_trouble *trouble)
{
    struct gyre_listed listed;
    int status = gyre_listed_read(&listed, "it", text, strlen(text), trouble);
    REQUIRE(status != 0 || (listed.ranks == listed.slice.n && listed.slice.n >= 1));
    if (status == 0)
        status = gyre_check_schedule(gyre_listed_algorithm(&listed), &listed.slice, trouble);
    if (status != 0)
        check_refusal(status, trouble);
    gyre_listed_deinit(&listed);
}

static void (*const reader[])(const char *text, struct gyre_trouble *trouble) = {
    read_numbers, read_words, read_seating, read_layout, read_slurm,   read_rules,
    read_tuning,  read_model, read_json,    read_lines,  read_options, read_schedule};

enum { READERS = sizeof reader / sizeof *reader };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gyre_trouble trouble = {0};
    if (size < 1 || size > TEXT_MOST)
        return 0;
    char *text = malloc(size); /* exactly as long: a sanitizer sees one byte beyond */
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    reader[data[0] % READERS](text, &trouble);
    free(text);
    return 0;
}

#ifndef GYRE_LIBFUZZER

/* Good texts, for each reader in its order. */
static const char *const good[READERS][3] = {
    {"-5", "1.5G", "250ms"},
    {"ring", "two-level", "0123456789abcdef"},
    {"4,2", "2x3", "me@a:4,[fe80::1]:2,g[01-03,7]x:8"},
    {"4+2", "2x3", "1"},
    {"gnode[07-09,12],login", "n1,n2", "2(x3),1"},
    {"ring", "all_reduce:64K-1M=two-level,ring", "broadcast=tree"},
    {"network latency_ns 10\n", "fold_kib_ps 30\n", "# nothing\n"},
    {"13,64,3", "784,500,10", "setosa,virginica"},
    {"{\"n\": 12, \"s\": \"\\u00e9\", \"a\": [1, {\"b\": null}]}", "{}", "{\"x\": [[]]}"},
    {"signal 15\ndone\n", "failed 137 rank 2 on a: gone\n", "done\n"},
    {"epochs = 3\nhidden = 64,32 # two\n", "preset = wine\nlr = 1e-3\n", "resume\nkeep=2"},
    {"{\"operation\":\"all_reduce\",\"n\":2,\"count\":1,\"ranks\":[{\"rank\":0,\"rounds\":[["
     "{\"kind\":\"SEND\",\"buffer\":\"INPUT\",\"offset\":0,\"length\":4,\"peer\":1},"
     "{\"kind\":\"RECV\",\"buffer\":\"SCRATCH\",\"offset\":0,\"length\":4,\"peer\":1}],["
     "{\"kind\":\"REDUCE\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":4,\"final\":true,"
     "\"sources\":[{\"buffer\":\"INPUT\",\"offset\":0},{\"buffer\":\"SCRATCH\",\"offset\":0}]}]]},"
     "{\"rank\":1,\"rounds\":[["
     "{\"kind\":\"SEND\",\"buffer\":\"INPUT\",\"offset\":0,\"length\":4,\"peer\":0},"
     "{\"kind\":\"RECV\",\"buffer\":\"SCRATCH\",\"offset\":0,\"length\":4,\"peer\":0}],["
     "{\"kind\":\"REDUCE\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":4,\"final\":true,"
     "\"sources\":[{\"buffer\":\"SCRATCH\",\"offset\":0},{\"buffer\":\"INPUT\",\"offset\":0}]}]]}]"
     "}",
     "{\"operation\":\"all_gather\",\"n\":1,\"count\":3,\"counts\":[3],\"ranks\":[{\"rank\":0,"
     "\"scratch_bytes\":0,\"rounds\":[[{\"kind\":\"COPY\",\"buffer\":\"OUTPUT\",\"offset\":0,"
     "\"length\":12,\"sources\":[{\"buffer\":\"INPUT\",\"offset\":0}]}]]}]}",
     "{\"operation\":\"all_to_all\",\"in_place\":true,\"n\":1,\"count\":1,\"ranks\":[{\"rank\":0,"
     "\"rounds\":[]}]}"}};

static size_t make_case(uint64_t seed, uint8_t *data)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, seed);
    data[0] = (uint8_t)gyre_rng_below(&rng, READERS);
    const char *text = good[data[0]][gyre_rng_below(&rng, 3)];
    size_t size = 1 + strlen(text);
    memcpy(data + 1, text, size - 1);
    for (uint64_t i = gyre_rng_below(&rng, 5); i > 0; i--)
        data[1 + gyre_rng_below(&rng, size)] = (uint8_t)gyre_rng_next(&rng);
    return 1 + gyre_rng_below(&rng, 4) + size - 1;
}

int main(int argc, char **argv)
{
    return fuzz_run(argc, argv, 50000, make_case);
}

#endif
