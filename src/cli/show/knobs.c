/* The table of knobs, in the order in which docs/environment.md tells them. Tested by
 * tests/program/cli/knobs.sh. */
#include "cli/show/knobs.h"

#include "base/env.h"
#include "collectives/kernels/reduce.h"
#include "transport/link/words.h"

#include <stdio.h>
#include <string.h>

#define WORDS_MAX 16

#define TEXT(name, fallback, same, meaning)                                                        \
    {                                                                                              \
        name, fallback, meaning, GYRE_KNOB_TEXT, same, NULL, 0, 0                                  \
    }
#define SECRET(name, fallback, meaning)                                                            \
    {                                                                                              \
        name, fallback, meaning, GYRE_KNOB_SECRET, false, NULL, 0, 0                               \
    }
#define WORD(name, words, fallback, same, meaning)                                                 \
    {                                                                                              \
        name, fallback, meaning, GYRE_KNOB_WORD, same, words, 0, 0                                 \
    }
#define NUMBER(name, least, most, fallback, same, meaning)                                         \
    {                                                                                              \
        name, fallback, meaning, GYRE_KNOB_NUMBER, same, NULL, least, most                         \
    }
#define SIZE(name, fallback, same, meaning)                                                        \
    {                                                                                              \
        name, fallback, meaning, GYRE_KNOB_SIZE, same, NULL, 1, 0                                  \
    }
#define TIME(name, least, fallback, meaning)                                                       \
    {                                                                                              \
        name, fallback, meaning, GYRE_KNOB_TIME, false, NULL, least, 0                             \
    }

#define KERNELS(name, fallback, meaning)                                                           \
    {                                                                                              \
        name, fallback, meaning, GYRE_KNOB_KERNELS, false, NULL, 0, 0                              \
    }

const struct gyre_knob gyre_knobs[] = {
    {"GYRE_TRANSPORT", "auto", "how ranks reach each other", GYRE_KNOB_TRANSPORT, true, NULL, 0, 0},
    TEXT("GYRE_ALGO", "auto", true, "an algorithm, or rules such as all_reduce:ring:1M-;direct"),
    NUMBER("GYRE_REPRODUCIBLE", 0, 1, "0", true, "sums are the left fold over ranks, always"),
    TEXT("GYRE_TUNE_FILE", "built-in prices", true, "what `gyre tune` measured, for choosing"),
    SIZE("GYRE_SLICE", "chosen", true, "bytes of one slice of a large operation"),
    NUMBER("GYRE_LANES", 1, 8, "chosen", true, "slices of one operation under way at a time"),
    NUMBER("GYRE_TCP_CONNECTIONS", 1, 8, "1", true, "data connections to each peer"),
    WORD("GYRE_TCP_POLLER", "auto io_uring epoll", "auto", false, "how TCP waits"),
    WORD("GYRE_TCP_SUMS", "payload header", "payload", true,
         "what TCP's sums against damage cover"),
    TEXT("GYRE_RDMA_DEVICE", "the nearest", false, "RDMA devices, or device:port"),
    NUMBER("GYRE_RDMA_QUEUES", 1, 4, "1", false, "queue pairs to each peer on each RDMA device"),
    NUMBER("GYRE_RDMA_GID", 0, 1023, "RoCE v2 first", false, "which GID of the port"),
    WORD("GYRE_RDMA_FAILOVER", "none tcp", "none", true, "tcp: a link that breaks goes on by TCP"),
    TEXT("GYRE_DEVICES", "the program's", false,
         "CUDA devices of this machine's ranks, such as 2,4,7"),
    KERNELS("GYRE_KERNELS", "the fastest", "the best instruction set that sums may use"),
    WORD("GYRE_BLAS", "auto own openblas", "auto", false, "who multiplies matrices"),
    WORD("GYRE_LOG", "error warn info debug", "warn", false, "lines on standard error"),
    TIME("GYRE_JOIN_TIMEOUT", 1, "300s", "how long to wait for all ranks"),
    TIME("GYRE_TIMEOUT", 0, "30min", "limit of one operation"),
    TIME("GYRE_DEAD_TIME", 0, "10s", "silence after which a process counts as dead"),
    TEXT("GYRE_ROOT", "found by itself", false, "host:port where rank 0 listens"),
    TEXT("GYRE_INTERFACE", "the route to rank 0", false, "which of this machine's addresses"),
    TEXT("GYRE_PORT_RANGE", "any", false, "low-high: ports for data connections"),
    TEXT("GYRE_KEY_FILE", "~/.config/gyre/key", false, "the file of the job's secret"),
    SECRET("GYRE_KEY", "none", "the job's secret itself"),
    NUMBER("GYRE_KEY_FD", 0, INT32_MAX, "none", false, "descriptor where a launcher wrote it"),
    WORD("GYRE_AUTH", "key none", "key", false, "none: whoever reaches a port can join"),
    TEXT("GYRE_JOB", "the launcher's", true, "the job's name"),
    NUMBER("GYRE_EPOCH", 0, 65535, "the launcher's, 0", true, "restart count"),
    NUMBER("GYRE_LAUNCHER_FD", 0, 1 << 20, "none", false, "ends when `gyre run` has gone"),
    NUMBER("GYRE_SIMULATED_NODE", 0, 1 << 20, "none", false, "node that this rank plays here"),
    TEXT("GYRE_TERMINAL", "standard error", false, "where `gyre train` shows progress"),
    TEXT("GYRE_SSH", "ssh -T -o BatchMode=yes", false, "how `gyre run` reaches another host"),
    {.name = NULL},
};

static int check_word(const struct gyre_knob *knob, const char *text, struct gyre_trouble *trouble)
{
    char copy[128], *rest = copy;
    const char *words[WORDS_MAX];
    int count = 0, index;
    snprintf(copy, sizeof copy, "%s", knob->words);
    while (rest && count < WORDS_MAX)
        words[count++] = strsep(&rest, " ");
    return gyre_parse_word(knob->name, text, words, count, &index, trouble);
}

static int check_kernels(const struct gyre_knob *knob, const char *text,
                         struct gyre_trouble *trouble)
{
    const char *words[WORDS_MAX];
    int count = 0, index;
    for (; count < WORDS_MAX && gyre_reduce_variants[count].name; count++)
        words[count] = gyre_reduce_variants[count].name;
    return gyre_parse_word(knob->name, text, words, count, &index, trouble);
}

static int check_transport_word(const struct gyre_knob *knob, const char *text,
                                struct gyre_trouble *trouble)
{
    const char *words[GYRE_LINK_WORDS_MOST];
    int index;
    return gyre_parse_word(knob->name, text, words, gyre_link_words(words), &index, trouble);
}

int gyre_knob_check(const struct gyre_knob *knob, const char *text, struct gyre_trouble *trouble)
{
    uint64_t size = 1;
    int64_t number = 1;
    int status = 0;
    switch (knob->kind) {
    case GYRE_KNOB_WORD:
        return check_word(knob, text, trouble);
    case GYRE_KNOB_NUMBER:
        return gyre_parse_int(knob->name, text, knob->least, knob->most, &number, trouble);
    case GYRE_KNOB_SIZE:
        status = gyre_parse_size(knob->name, text, &size, trouble);
        break;
    case GYRE_KNOB_TIME:
        status = gyre_parse_duration_ms(knob->name, text, &number, trouble);
        break;
    case GYRE_KNOB_TRANSPORT:
        return check_transport_word(knob, text, trouble);
    case GYRE_KNOB_KERNELS:
        return check_kernels(knob, text, trouble);
    default:
        return 0;
    }
    bool zero = !status && knob->least && (!size || !number);
    return zero ? gyre_env_refuse_zero(knob->name, 0, trouble) : status;
}
