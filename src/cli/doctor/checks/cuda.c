/* CUDA: which devices a rank would see here, whose memory each reaches, how device memory goes
 * between ranks on any two of them, and what else will be used for what. No context is made on any
 * device, unless pairs are tried.
 *
 * CUDA is of no use to the children of a process that has touched it. So where pairs are tried,
 * children do all of it before this process asks for devices. Tested by
 * tests/program/cuda/doctor.c. */
#include "cli/doctor/checks/checks.h"
#include "cli/doctor/checks/try.h"

#include "device/device.h"
#include "model/processor/processor.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 700

struct trial_words {
    bool right;
    char text[WORDS_MAX];
};

/* -- devices ----------------------------------------------------------------------------------- */

/* ", reaches 1, 3": devices whose memory it reads and writes directly. */
static void list_reach(const struct gyre_device *cuda, int device, int count, char *text,
                       size_t size)
{
    size_t used = 0;
    *text = 0;
    for (int other = 0; other < count && used < size; other++)
        if (other != device && cuda->reaches(device, other))
            used += (size_t)snprintf(text + used, size - used, "%s%d", used ? ", " : ", reaches ",
                                     other);
    if (!used && count > 1)
        snprintf(text, size, ", reaches no other");
}

static void add_device(const struct gyre_device *cuda, int device, int count,
                       struct gyre_doctor_report *report)
{
    char uuid[GYRE_DEVICE_UUID_TEXT], reach[256];
    struct gyre_device_identity identity;
    struct gyre_trouble trouble = {0};
    if (cuda->identify(device, &identity, &trouble)) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_PROBLEM);
        gyre_doctor_detail(report, "%d  %s", device, trouble.text);
        return;
    }
    gyre_device_uuid_text(identity.uuid, uuid);
    list_reach(cuda, device, count, reach, sizeof reach);
    gyre_doctor_detail(report, "%d  %s, %s, %llu MiB%s", device, identity.name, uuid,
                       (unsigned long long)(identity.memory_bytes >> 20), reach);
}

/* -- pairs ------------------------------------------------------------------------------------- */

enum cuda_way { MAPPED_EXPORTED, MAPPED_CLASSIC, STAGED_BY_DRIVER, STAGED_BY_HOST, WAYS };

static const char *const way_words[WAYS] = {
    [MAPPED_EXPORTED] = "direct: kernels and copies on memory that both map, passed as exported "
                        "memory",
    [MAPPED_CLASSIC] = "direct: kernels and copies on memory that both map, passed as classic IPC "
                       "handles",
    [STAGED_BY_DRIVER] = "staged through host memory, for the devices have no peer access; in one "
                         "process copied from device to device by the driver",
    [STAGED_BY_HOST] = "staged through host memory, for the devices have no peer access"};

/* The devices say what they can do. Whether copies between them are right is tried when memory is
 * shared (transport/memory/proof.h). */
static enum cuda_way way_of_pair(const struct gyre_device *cuda, int device, int other)
{
    bool exported = cuda->exports(device) && cuda->exports(other);
    if (cuda->reaches(device, other) && cuda->reaches(other, device))
        return exported ? MAPPED_EXPORTED : MAPPED_CLASSIC;
    return exported ? STAGED_BY_DRIVER : STAGED_BY_HOST;
}

/* "0 and 1, 0 and 2": all pairs that go one way. Returns how many. */
static int list_pairs(const struct gyre_device *cuda, int count, enum cuda_way way, char *text,
                      size_t size)
{
    size_t used = 0;
    int pairs = 0;
    *text = 0;
    for (int device = 0; device < count; device++)
        for (int other = device; other < count; other++) {
            if (way_of_pair(cuda, device, other) != way)
                continue;
            if (used < size)
                used += (size_t)snprintf(text + used, size - used, "%s%d and %d", pairs ? ", " : "",
                                         device, other);
            pairs++;
        }
    return pairs;
}

static void add_pairs(const struct gyre_device *cuda, int count, struct gyre_doctor_report *report)
{
    char pairs[2048];
    for (int way = 0; way < WAYS; way++) {
        int found = list_pairs(cuda, count, (enum cuda_way)way, pairs, sizeof pairs);
        if (found == count * (count + 1) / 2)
            gyre_doctor_detail(report, "between ranks on any of them: %s", way_words[way]);
        else if (found)
            gyre_doctor_detail(report, "between ranks on %s: %s", pairs, way_words[way]);
    }
}

/* -- what will be used for what ---------------------------------------------------------------- */

/* "0, 2": devices that lack something. Returns how many. */
static int list_lacking(const struct gyre_device_abilities *able, int count, size_t at, char *text,
                        size_t size)
{
    size_t used = 0;
    int lacking = 0;
    *text = 0;
    for (int device = 0; device < count; device++) {
        if (*(const bool *)((const char *)&able[device] + at))
            continue;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%d", lacking ? ", " : "", device);
        lacking++;
    }
    return lacking;
}

static void add_versions(const struct gyre_device_abilities *able,
                         struct gyre_doctor_report *report)
{
    const int driver = able->driver, toolkit = able->toolkit;
    gyre_doctor_detail(report, "driver for CUDA %d.%d; this build is of CUDA %d.%d%s",
                       driver / 1000, driver % 1000 / 10, toolkit / 1000, toolkit % 1000 / 10,
                       driver / 1000 < toolkit / 1000
                           ? ": install a driver of at least that version, or its kernels cannot "
                             "be loaded"
                           : "");
    if (driver / 1000 < toolkit / 1000)
        gyre_doctor_worsen(report, GYRE_DOCTOR_PROBLEM);
}

static void add_streams(const struct gyre_device_abilities *able, int count,
                        struct gyre_doctor_report *report)
{
    char devices[256];
    if (!list_lacking(able, count, offsetof(struct gyre_device_abilities, words), devices,
                      sizeof devices)) {
        gyre_doctor_detail(report, "streams: operations run in their order (gyre_all_reduce_on()), "
                                   "and training reduces beside the backward pass");
        return;
    }
    gyre_doctor_worsen(report, GYRE_DOCTOR_NOTE);
    gyre_doctor_detail(report,
                       "streams of %s cannot wait for words of the host's: calls in their order "
                       "and `gyre train --device cuda` are refused there; take another driver "
                       "(WSL and old ones lack it), or the calls that block",
                       devices);
}

static void add_rdma(const struct gyre_device_abilities *able, int count,
                     struct gyre_doctor_report *report)
{
    char devices[256];
    if (!list_lacking(able, count, offsetof(struct gyre_device_abilities, rdma), devices,
                      sizeof devices))
        gyre_doctor_detail(report, "RDMA: cards read and write device memory, where their driver "
                                   "takes a dma-buf");
    else
        gyre_doctor_detail(report,
                           "RDMA: cards do not reach memory of %s, which goes through the host's: "
                           "the driver's open kernel modules have it",
                           devices);
}

static void add_products(const struct gyre_device_abilities *able,
                         struct gyre_doctor_report *report)
{
    const char *hired = gyre_processor_hires();
    if (hired)
        gyre_doctor_detail(report, "training: products by %s, all else by Gyre's kernels for %d.%d",
                           hired, able->major, able->minor);
    else
        gyre_doctor_detail(report,
                           "training: all by Gyre's kernels for %d.%d; large products are faster "
                           "with cuBLAS: put libcublas.so of the toolkit on the library path, and "
                           "leave GYRE_BLAS unset",
                           able->major, able->minor);
}

static void add_uses(const struct gyre_device *cuda, int count, struct gyre_doctor_report *report)
{
    struct gyre_device_abilities *able = calloc((size_t)count, sizeof *able);
    struct gyre_trouble trouble = {0};
    int status = able ? 0 : -ENOMEM;
    for (int device = 0; !status && device < count; device++)
        status = cuda->able(device, &able[device], &trouble);
    if (!status) {
        add_versions(able, report);
        add_streams(able, count, report);
        add_rdma(able, count, report);
        add_products(able, report);
    } else {
        gyre_doctor_worsen(report, GYRE_DOCTOR_PROBLEM);
        gyre_doctor_detail(report, "%s", trouble.text);
    }
    free(able);
}

/* -- trials ------------------------------------------------------------------------------------ */

static int count_in_a_child(void)
{
    int ended = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
        int count = cuda ? cuda->probe(NULL) : 0;
        _exit(count > 0 ? count : 0);
    }
    return child > 0 && waitpid(child, &ended, 0) == child && WIFEXITED(ended) ? WEXITSTATUS(ended)
                                                                               : 0;
}

/* Of each device with each; NULL: nothing was tried. */
static struct trial_words *try_pairs(int count)
{
    struct trial_words *words = calloc((size_t)(count * count), sizeof *words);
    for (int i = 0; words && i < count * count; i++)
        words[i].right = gyre_doctor_try(i / count, i % count, words[i].text, sizeof words[i].text);
    return words;
}

static void add_trials(const struct trial_words *words, int count,
                       struct gyre_doctor_report *report)
{
    for (int i = 0; i < count * count; i++) {
        gyre_doctor_detail(report, "tried from %d to %d: %s: %s", i / count, i % count,
                           words[i].right ? "direct" : "staged", words[i].text);
        if (!words[i].right)
            gyre_doctor_worsen(report, GYRE_DOCTOR_NOTE);
    }
}

/* -- all of it --------------------------------------------------------------------------------- */

void gyre_check_cuda(bool tries, struct gyre_doctor_report *report)
{
    int tried = tries ? count_in_a_child() : 0;
    struct trial_words *words = tried ? try_pairs(tried) : NULL;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct gyre_trouble trouble = {0};
    int count = cuda ? cuda->probe(&trouble) : 0;
    if (count > 0)
        gyre_doctor_find(report, "cuda", GYRE_DOCTOR_OK, "%d device%s (CUDA_VISIBLE_DEVICES is %s)",
                         count, count > 1 ? "s" : "", visible ? visible : "not set");
    else
        gyre_doctor_find(
            report, "cuda", GYRE_DOCTOR_ABSENT, "%s",
            cuda ? trouble.text
                 : "this build of Gyre has no CUDA (no nvcc was found when it was configured)");
    for (int device = 0; device < count; device++)
        add_device(cuda, device, count, report);
    if (count > 0) {
        add_pairs(cuda, count, report);
        add_uses(cuda, count, report);
    }
    if (words)
        add_trials(words, tried, report);
    gyre_doctor_figure(report, "devices", count > 0 ? count : 0);
    free(words);
}
