/* The table of knobs, in the order in which docs/environment.md tells them. Tested by
 * tests/program/cli/knobs.sh. */
#include "knobs/knobs.h"

#include "base/env.h"

#include <string.h>

#define KNOBS_MAX 64

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
    NUMBER("GYRE_LINKS_AT_ONCE", 1, 1024, "64", true,
           "ranks of a machine, or a job, up to which all links are made at the start"),
    NUMBER("GYRE_TCP_CONNECTIONS", 1, 8, "1", true, "data connections to each peer"),
    WORD("GYRE_TCP_POLLER", "auto io_uring epoll", "auto", false, "how TCP waits"),
    WORD("GYRE_TCP_SUMS", "payload header", "payload", true,
         "what TCP's sums against damage cover"),
    WORD("GYRE_TCP_SECURITY", "auto none auth encrypt", "auto", true,
         "what protects TCP's bytes; auto: auth between machines"),
    WORD("GYRE_TCP_RENEW", "auto never always", "auto", true,
         "whether a connection that is reset is made anew; auto: to other addresses"),
    TEXT("GYRE_RDMA_DEVICE", "the nearest", false, "RDMA devices, or device:port"),
    NUMBER("GYRE_RDMA_QUEUES", 1, 4, "1", false, "queue pairs to each peer on each RDMA device"),
    NUMBER("GYRE_RDMA_GID", 0, 1023, "RoCE v2 first", false, "which GID of the port"),
    WORD("GYRE_RDMA_FAILOVER", "none tcp", "none", true, "tcp: a link that breaks goes on by TCP"),
    TEXT("GYRE_DEVICES", "the program's", false,
         "CUDA devices of this machine's ranks, such as 2,4,7"),
    KERNELS("GYRE_KERNELS", "the fastest", "the best instruction set that sums may use"),
    WORD("GYRE_BLAS", "auto own openblas", "auto", false, "who multiplies matrices"),
    NUMBER("GYRE_GRAPHS", 0, 1, "1", false, "steps on a CUDA device are graphs, where they can be"),
    SIZE("GYRE_RESIDENT", "an eighth of its memory", false,
         "samples that are kept on a CUDA device, in bytes at most"),
    WORD("GYRE_LOG", "error warn info debug", "warn", false, "lines on standard error"),
    TIME("GYRE_JOIN_TIMEOUT", 1, "300s", "how long to wait for all ranks"),
    TIME("GYRE_TIMEOUT", 0, "30min", "limit of one operation"),
    TIME("GYRE_DEAD_TIME", 0, "10s", "silence after which a process counts as dead"),
    TEXT("GYRE_ROOT", "found by itself", false, "host:port of rank 0, or file:///folder"),
    TEXT("GYRE_ROOT_HOSTS", "none", false,
         "host,host: where else a newcomer looks for rank 0, at its port"),
    TEXT("GYRE_INTERFACE", "the route to rank 0", false, "which of this machine's addresses"),
    TEXT("GYRE_PORT_RANGE", "any", false, "low-high: ports for data connections"),
    TEXT("GYRE_KEY_FILE", "~/.config/gyre/key", false, "the file of the job's secret"),
    SECRET("GYRE_KEY", "none", "the job's secret itself"),
    NUMBER("GYRE_KEY_FD", 0, INT32_MAX, "none", false, "descriptor where a launcher wrote it"),
    WORD("GYRE_AUTH", "key none", "key", false, "none: whoever reaches a port can join"),
    TEXT("GYRE_DUMP", "none", false, "folder that gets each rank's last operations at a failure"),
    TEXT("GYRE_TRACE", "none", false, "folder that gets every step of every rank, with its times"),
    SIZE("GYRE_TRACE_SIZE", "16M", false, "bytes of a rank's trace, which keeps the newest events"),
    TEXT("GYRE_JOB", "the launcher's", true, "the job's name"),
    NUMBER("GYRE_EPOCH", 0, 65535, "the launcher's, 0", true, "restart count"),
    NUMBER("GYRE_LAUNCHER_FD", 0, 1 << 20, "none", false, "ends when `gyre run` has gone"),
    NUMBER("GYRE_RECORD_FD", 0, INT32_MAX, "none", false, "memory of `gyre run` for records"),
    NUMBER("GYRE_SIMULATED_NODE", 0, 1 << 20, "none", false, "node that this rank plays here"),
    TEXT("GYRE_ELASTIC", "none", false, "MIN:MAX ranks with which `gyre run` lets a job go on"),
    NUMBER("GYRE_JOINING", 0, 1, "0", false, "`gyre run` has started this rank in a job that runs"),
    TEXT("GYRE_TERMINAL", "standard output", false, "where `gyre train` shows progress"),
    TEXT("GYRE_SSH", "ssh -T -o BatchMode=yes", false, "how `gyre run` reaches another host"),
    {.name = NULL},
};

const char *gyre_knob_meant(const char *variable)
{
    const char *names[KNOBS_MAX];
    int count = 0;
    if (strncmp(variable, "GYRE_", 5))
        return NULL;
    for (const struct gyre_knob *knob = gyre_knobs; knob->name && count < KNOBS_MAX; knob++) {
        if (!strcmp(knob->name, variable))
            return NULL;
        names[count++] = knob->name;
    }
    return gyre_nearest_word(variable, names, count);
}
