/* Reading the command line.
 *
 * getopt_long knows the flags, one table knows the words, and every refusal is one line that names
 * the value, what was expected and the nearest right word. Sizes are binary (64K, 1.5M, 2G), as in
 * nccl-tests. */
#include "harness/options.h"

#include "base/env.h"
#include "transport/link/words.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLAG_RANKS = 256,
    FLAG_SIZES,
    FLAG_TRANSPORT,
    FLAG_ALGO,
    FLAG_MEMORY,
    FLAG_DEVICES,
    FLAG_DEVICE,
    FLAG_CSV,
    FLAG_FRESH,
    FLAG_NO_CEILING
};

static const struct option flags[] = {
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepbytes", required_argument, NULL, 'i'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"iters", required_argument, NULL, 'n'},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"check", required_argument, NULL, 'c'},
    {"op", required_argument, NULL, 'o'},
    {"datatype", required_argument, NULL, 'd'},
    {"root", required_argument, NULL, 'r'},
    {"average", required_argument, NULL, 'a'},
    {"ngpus", required_argument, NULL, 'g'},
    {"output_file", required_argument, NULL, 'J'},
    {"per_iter_timing", required_argument, NULL, 'I'},
    {"help", no_argument, NULL, 'h'},
    {"ranks", required_argument, NULL, FLAG_RANKS},
    {"sizes", required_argument, NULL, FLAG_SIZES},
    {"transport", required_argument, NULL, FLAG_TRANSPORT},
    {"algo", required_argument, NULL, FLAG_ALGO},
    {"memory", required_argument, NULL, FLAG_MEMORY},
    {"devices", required_argument, NULL, FLAG_DEVICES},
    {"device", required_argument, NULL, FLAG_DEVICE},
    {"csv", required_argument, NULL, FLAG_CSV},
    {"fresh", no_argument, NULL, FLAG_FRESH},
    {"no-ceiling", no_argument, NULL, FLAG_NO_CEILING},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: %s [FLAG]...\n"
    "  -b, --minbytes SIZE        first size (32M); SIZE is 8, 64K, 1.5M, 2G, powers of 1024\n"
    "  -e, --maxbytes SIZE        last size (32M)\n"
    "  -i, --stepbytes SIZE       add this from row to row (1M)\n"
    "  -f, --stepfactor N         or multiply by this\n"
    "  -n, --iters N              calls per row (at least 20 and 50 ms)\n"
    "  -w, --warmup_iters N       untimed calls per size before the first row (1)\n"
    "  -c, --check N              checked calls per row, behind the timing (1)\n"
    "  -o, --op NAME              sum, prod, min, max, avg, mulsum, and, or, xor or all "
    "(sum)\n"
    "  -d, --datatype NAME        float, double, half, bfloat16, f8e4m3, f8e5m2, int8, uint8,\n"
    "                             int16, uint16, int32, uint32, int64, uint64 or all (float)\n"
    "  -r, --root RANK            of rooted operations; -1 for each in turn (0)\n"
    "  -a, --average N            time of: 0 rank 0, 1 all, mean, 2 the fastest, 3 the slowest "
    "(1)\n"
    "  -g, --ngpus N              ranks of each process, a thread each (1)\n"
    "%s"
    "  -I, --per_iter_timing 0|1  time each call: four more columns (0)\n"
    "      --ranks N              start N ranks, processes with -g, on this machine\n"
    "      --sizes LIST           these sizes, growing, and with :N how many calls: 8,64K,16M:10\n"
    "      --transport NAME       %s (auto)\n"
    "      --algo NAME            as GYRE_ALGO; one name is for the operation that is timed\n"
    "      --memory WORD          gyre, malloc, or registered: malloc and gyre_register() (gyre)\n"
    "      --devices LIST         CUDA devices: local rank i takes entry i; 2,4,7\n"
    "      --device cpu|cuda      whose memory they are (cpu)\n"
    "%s"
    "      --fresh                above 4 KiB rewrite the input and read the output between "
    "calls\n"
    "      --no-ceiling           do not measure what the machine could do at most\n";

static const char json_help[] = "  -J, --output_file FILE     write JSON too; never overwrites\n";
static const char csv_help[] =
    "      --csv FILE             write rows as comma-separated values too\n";

const char *bench_type_name(enum gyre_type type)
{
#define NAME_FLOAT(name, element, bits)          #element,
#define NAME_SMALL_FLOAT(name, element, bits)    #name,
#define NAME_SIGNED(name, element, bits)         "int" #bits,
#define NAME_UNSIGNED(name, element, bits)       "uint" #bits,
#define NAME(ID, name, kind, element, bits, ...) NAME_##kind(name, element, bits)
    static const char *const names[] = {GYRE_TYPES(NAME)};
    return type == GYRE_F16 ? "half" : type == GYRE_BF16 ? "bfloat16" : names[type];
}

const char *bench_op_name(enum gyre_op op)
{
    return op == BENCH_MULSUM ? "mulsum" : gyre_op_name(op);
}

bool bench_op_suits(enum gyre_type type, enum gyre_op op)
{
    return op == BENCH_MULSUM || gyre_op_suits(type, op);
}

/* -- words ------------------------------------------------------------------------------------- */

static int refuse(const char *flag, const char *text, const char *expected, const char *near)
{
    fprintf(stderr, "gyre bench: %s %s: expected %s%s%s%s\n", flag, text, expected,
            near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
    return -1;
}

static int read_word(const char *flag, const char *text, const char *const *words, size_t count,
                     const char *expected)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            return (int)i;
        }
    }
    return refuse(flag, text, expected, gyre_nearest_word(text, words, (int)count));
}

/* One word, or "all". */
static int read_choice(const char *flag, const char *text, const char *const *words, size_t count,
                       const char *expected, bool *chosen)
{
    bool all = strcmp(text, "all") == 0;
    int index = all ? 0 : read_word(flag, text, words, count, expected);
    for (size_t i = 0; i < count && index >= 0; i++) {
        chosen[i] = all || (int)i == index;
    }
    return index < 0 ? -1 : 0;
}

/* -- numbers ----------------------------------------------------------------------------------- */

static int read_int(const char *flag, const char *text, int lowest, int highest, int *out)
{
    char *end, expected[64];
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < lowest || value > highest) {
        snprintf(expected, sizeof expected, "a whole number from %d to %d", lowest, highest);
        return refuse(flag, text, expected, NULL);
    }
    *out = (int)value;
    return 0;
}

static int shift_of(const char *unit)
{
    static const char letters[] = "KMGT";
    const char *at = unit[0] ? strchr(letters, toupper((unsigned char)unit[0])) : NULL;
    if (unit[0] == '\0') {
        return 0;
    }
    return at && (unit[1] == '\0' || strcasecmp(unit + 1, "B") == 0) ? 10 * (int)(at - letters + 1)
                                                                     : -1;
}

static int read_size(const char *flag, const char *text, uint64_t *out)
{
    char *end;
    double value = isdigit((unsigned char)text[0]) ? strtod(text, &end) : -1;
    int shift = value < 0 ? -1 : shift_of(end);
    double bytes = shift < 0 ? -1 : value * (double)(UINT64_C(1) << shift);
    if (bytes < 0 || bytes > 1e15 || bytes != (double)(uint64_t)bytes) {
        return refuse(flag, text, "a size such as 8, 64K, 1.5M or 2G", NULL);
    }
    *out = (uint64_t)bytes;
    return 0;
}

/* SIZE or SIZE:N */
static int read_row(char *word, struct bench_row_size *row)
{
    char *calls = strchr(word, ':');
    row->iterations = 0;
    if (calls) {
        *calls++ = '\0';
        if (read_int("--sizes", calls, 1, 100000000, &row->iterations)) {
            return -1;
        }
    }
    return read_size("--sizes", word, &row->bytes);
}

static int read_rows(const char *text, struct bench_options *options)
{
    char *copy = strdup(text), *rest = copy, *word;
    int count = 0, status = copy ? 0 : -1;
    while (!status && (word = strsep(&rest, ","))) {
        if (count == BENCH_SIZES_MAX) {
            status = refuse("--sizes", text, "at most 64 sizes", NULL);
        } else if (!(status = read_row(word, &options->sizes[count])) && count &&
                   options->sizes[count].bytes <= options->sizes[count - 1].bytes) {
            status = refuse("--sizes", text, "each size above the one before", NULL);
        }
        count++;
    }
    free(copy);
    options->size_count = count;
    return status;
}

/* -- the command line -------------------------------------------------------------------------- */

static int read_ours(int flag, const char *text, struct bench_options *options)
{
    const char *transports[GYRE_LINK_WORDS_MOST];
    char expected[128];
    static const char *const memories[] = {"gyre", "malloc", "registered"};
    static const char *const devices[] = {"cpu", "cuda"};
    int index = 0;
    switch (flag) {
    case FLAG_RANKS:
        return read_int("--ranks", text, 1, 1024, &options->ranks);
    case FLAG_SIZES:
        return read_rows(text, options);
    case FLAG_TRANSPORT:
        options->transport = text;
        index = gyre_link_words(transports);
        gyre_link_words_text(expected, sizeof expected);
        return read_word("--transport", text, transports, (size_t)index, expected) < 0 ? -1 : 0;
    case FLAG_MEMORY:
        index = read_word("--memory", text, memories, 3, "gyre, malloc or registered");
        options->plain_memory = index >= 1;
        options->registered = index == 2;
        return index < 0 ? -1 : 0;
    case FLAG_DEVICE:
        index = read_word("--device", text, devices, 2, "cpu or cuda");
        options->cuda = index == 1;
        return index < 0 ? -1 : 0;
    case FLAG_ALGO:
        options->algorithm = text;
        return 0;
    case FLAG_DEVICES:
        return setenv("GYRE_DEVICES", text, 1); /* gyre_init() reads it, in each rank */
    case FLAG_CSV:
        options->csv = text;
        return 0;
    case FLAG_NO_CEILING:
        options->no_ceiling = true;
        return 0;
    default:
        options->fresh = true;
        return 0;
    }
}

static int read_ops(const char *text, bool *ops)
{
    const char *words[BENCH_OPS];
    for (int op = 0; op < BENCH_OPS; op++)
        words[op] = bench_op_name((enum gyre_op)op);
    return read_choice("-o", text, words, BENCH_OPS,
                       "sum, prod, min, max, avg, mulsum, and, or, xor or all", ops);
}

static int read_types(const char *text, bool *types)
{
    const char *words[GYRE_TYPE_COUNT];
    for (int type = 0; type < GYRE_TYPE_COUNT; type++)
        words[type] = bench_type_name((enum gyre_type)type);
    return read_choice("-d", text, words, GYRE_TYPE_COUNT,
                       "float, double, half, bfloat16, int8, uint8, int16, uint16, int32, uint32, "
                       "int64, uint64, f8e4m3, f8e5m2 or all",
                       types);
}

static int read_flag(int flag, const char *text, struct bench_options *options)
{
    int factor = 0, on = 0;
    switch (flag) {
    case 'b':
        return read_size("-b", text, &options->min_bytes);
    case 'e':
        return read_size("-e", text, &options->max_bytes);
    case 'i':
        return read_size("-i", text, &options->step_bytes);
    case 'f':
        on = read_int("-f", text, 2, 1 << 20, &factor);
        options->factor = (uint64_t)factor;
        return on;
    case 'n':
        return read_int("-n", text, 1, 100000000, &options->iterations);
    case 'w':
        return read_int("-w", text, 0, 1000000, &options->warmups);
    case 'c':
        return read_int("-c", text, 0, 1000000, &options->checks);
    case 'r':
        return read_int("-r", text, -1, 1 << 20, &options->root);
    case 'g':
        return read_int("-g", text, 1, BENCH_IN_PROCESS_MAX, &options->in_process);
    case 'a':
        return read_int("-a", text, 0, 3, &options->average);
    case 'o':
        return read_ops(text, options->ops);
    case 'd':
        return read_types(text, options->types);
    case 'J':
        options->json = text;
        return 0;
    case 'I':
        if (read_int("-I", text, 0, 1, &on)) {
            return -1;
        }
        options->per_iteration = on;
        return 0;
    default:
        return read_ours(flag, text, options);
    }
}

static int refuse_flag(int found, char **argv)
{
    const char *names[sizeof flags / sizeof flags[0]], *word = argv[optind - 1];
    int count = 0;
    for (; flags[count].name; count++) {
        names[count] = flags[count].name;
    }
    if (found == ':') {
        fprintf(stderr, "gyre bench: %s: expected a value behind it\n", word);
        return -1;
    }
    if (optopt && optopt < FLAG_RANKS) {
        fprintf(stderr, "gyre bench: -%c: no such flag; -h lists them\n", optopt);
        return -1;
    }
    const char *near = gyre_nearest_word(word + strspn(word, "-"), names, count);
    fprintf(stderr, "gyre bench: %s: no such flag%s%s%s; -h lists them\n", word,
            near ? " (did you mean --" : "", near ? near : "", near ? "?)" : "");
    return -1;
}

/* -1 if no chosen reduction goes with any chosen type. */
static int check_reduction(const struct bench_options *options)
{
    int last = 0;
    for (int op = 0; op < BENCH_OPS; op++) {
        last = options->ops[op] ? op : last;
        for (int type = 0; type < GYRE_TYPE_COUNT && options->ops[op]; type++) {
            if (options->types[type] && bench_op_suits((enum gyre_type)type, (enum gyre_op)op)) {
                return 0;
            }
        }
    }
    return refuse("-o", bench_op_name((enum gyre_op)last),
                  "an integer -d with it, int32 for example", NULL);
}

/* A list is what is measured, whatever -b and -e say. */
static int settle_sizes(struct bench_options *options)
{
    char text[32], least[64];
    snprintf(text, sizeof text, "%" PRIu64, options->max_bytes);
    snprintf(least, sizeof least, "at least the -b size, which is %" PRIu64, options->min_bytes);
    if (options->size_count) {
        options->min_bytes = options->sizes[0].bytes;
        options->max_bytes = options->sizes[options->size_count - 1].bytes;
        return 0;
    }
    if (options->max_bytes < options->min_bytes) {
        return refuse("-e", text, least, NULL);
    }
    if (options->factor && options->min_bytes == 0 && options->max_bytes > 0) {
        return refuse("-b", "0", "a size above 0 with -f, which multiplies it", NULL);
    }
    if (!options->factor && options->step_bytes == 0 && options->max_bytes > options->min_bytes) {
        return refuse("-i", "0", "a step above 0", NULL);
    }
    return 0;
}

static int check_together(struct bench_options *options, bool files)
{
    if (!files && (options->json || options->csv)) {
        return refuse(options->json ? "-J" : "--csv", options->json ? options->json : options->csv,
                      "no file: this bench writes its table to standard output alone", NULL);
    }
    if (settle_sizes(options)) {
        return -1;
    }
    if (options->cuda && options->fresh) {
        return refuse("--device", "cuda", "no --fresh with it: the host cannot touch the buffers",
                      NULL);
    }
    return check_reduction(options);
}

static int read_plant(struct bench_options *options)
{
    static const char *const words[] = {"nothing", "element", "stale"};
    const char *text = getenv("GYRE_BENCH_PLANT");
    int index = text && text[0]
                    ? read_word("GYRE_BENCH_PLANT", text, words, 3, "nothing, element or stale")
                    : 0;
    options->plant = index > 0 ? (enum bench_plant)index : BENCH_PLANT_NOTHING;
    return index < 0 ? -1 : 0;
}

int bench_options_read(int argc, char **argv, bool files, struct bench_options *options)
{
    *options = (struct bench_options){.min_bytes = 32 << 20,
                                      .max_bytes = 32 << 20,
                                      .step_bytes = 1 << 20,
                                      .warmups = 1,
                                      .checks = 1,
                                      .average = 1,
                                      .types[GYRE_F32] = true,
                                      .ops[GYRE_SUM] = true};
    opterr = 0;
    for (;;) {
        int flag = getopt_long(argc, argv, ":b:e:i:f:n:w:c:o:d:r:a:g:J:I:h", flags, NULL);
        if (flag == 'h') {
            char words[128];
            printf(help, argv[0], files ? json_help : "", gyre_link_words_text(words, sizeof words),
                   files ? csv_help : "");
            return 1;
        }
        if (flag < 0) {
            break;
        }
        if (flag == '?' || flag == ':') {
            return refuse_flag(flag, argv);
        }
        if (read_flag(flag, optarg, options)) {
            return -1;
        }
    }
    if (optind < argc) {
        return refuse(argv[0], argv[optind], "flags only; -h lists them", NULL);
    }
    return check_together(options, files) || read_plant(options) ? -1 : 0;
}

/* -- rows -------------------------------------------------------------------------------------- */

static const struct bench_row_size *listed(const struct bench_options *options, uint64_t bytes)
{
    const struct bench_row_size *row = options->sizes, *end = row + options->size_count;
    while (row < end && row->bytes != bytes) {
        row++;
    }
    return row < end ? row : NULL;
}

bool bench_next_size(const struct bench_options *options, uint64_t *bytes)
{
    uint64_t factor = options->factor, step = options->step_bytes, last = options->max_bytes;
    if (*bytes >= last) {
        return false;
    }
    if (options->size_count) {
        *bytes = listed(options, *bytes)[1].bytes;
        return true;
    }
    if (factor ? *bytes > last / factor : step == 0 || last - *bytes < step) {
        return false;
    }
    *bytes = factor ? *bytes * factor : *bytes + step;
    return true;
}

int bench_iterations(const struct bench_options *options, uint64_t bytes)
{
    const struct bench_row_size *row = listed(options, bytes);
    return row && row->iterations ? row->iterations : options->iterations;
}

bool bench_is_ranks_flag(const char *word, bool *value_follows)
{
    size_t length = strcspn(word, "=");
    *value_follows = word[length] == '\0';
    return length >= 4 && length <= 7 && strncmp(word, "--ranks", length) == 0;
}
