/* Which CUDA device is this process's?
 *
 *     GYRE_DEVICES=2,4,7     local rank 0 ─▶ 2    1 ─▶ 4    2 ─▶ 7    3: refused, with what is there
 *     no list                none: CUDA is not touched, and host memory is served
 *
 * It is settled before rendezvous, so that a wrong list is told before anybody waits for this rank,
 * and before any context exists; to choose makes none, so no stray one can lie on device 0. A list
 * where the machine has no driver is not wrong: the same command line serves both. */
#include "transport/domain_parts.h"

#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DIGITS_MAX 4

/* -- the list ---------------------------------------------------------------------------------- */

struct entries {
    int count;
    int wanted; /* the device of that entry, if the list is so long */
};

/* False if it is anything else than numbers with commas between. */
static bool read_list(const char *text, int place, struct entries *entries)
{
    *entries = (struct entries){0, -1};
    for (;; text++) {
        char *end;
        long device = strtol(text, &end, 10);
        if (*text < '0' || *text > '9' || end - text > DIGITS_MAX)
            return false;
        if (entries->count++ == place)
            entries->wanted = (int)device;
        text = end;
        if (!*text)
            return true;
        if (*text != ',')
            return false;
    }
}

__attribute__((format(printf, 3, 4))) static int refuse(const struct gyre_domain *domain,
                                                        struct gyre_trouble *trouble,
                                                        const char *format, ...)
{
    char host[64] = "?", what[600];
    const struct gyre_job *job = &domain->job;
    va_list arguments;
    gethostname(host, sizeof(host) - 1);
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "rank %d on %s (local rank %d): the list of CUDA devices "
                            "(--devices, GYRE_DEVICES) is \"%s\"%s",
                            job->rank, host, job->local_rank, domain->settings.devices, what);
}

/* This rank's entry. */
static int take_entry(const struct gyre_domain *domain, int *device, struct gyre_trouble *trouble)
{
    int place = domain->job.local_rank;
    struct entries entries;
    if (!read_list(domain->settings.devices, place, &entries))
        return refuse(domain, trouble,
                      ": expected numbers with commas between, one for each rank of a machine, "
                      "such as 2,4,7");
    if (place < 0)
        return refuse(domain, trouble,
                      ", but the launcher does not tell this rank's place on its machine: set "
                      "LOCAL_RANK or options.local_rank");
    if (place >= entries.count)
        return refuse(domain, trouble,
                      " and has %d %s: give one for each rank of a machine, or start fewer ranks",
                      entries.count, entries.count == 1 ? "entry" : "entries");
    *device = entries.wanted;
    return 0;
}

/* -- what is there ----------------------------------------------------------------------------- */

/* Number of devices; 0, and then no_cuda says why. */
static int look(struct gyre_domain *domain)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (cuda)
        return cuda->probe(&domain->no_cuda);
    gyre_trouble_set(&domain->no_cuda, GYRE_UNSUPPORTED,
                     "this build of Gyre has none (no nvcc was found when it was configured)");
    return 0;
}

static int check_there(struct gyre_domain *domain, int device, struct gyre_trouble *trouble)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int count = look(domain);
    if (!count && domain->no_cuda.status != -ENODEV) {
        if (domain->job.local_rank == 0)
            gyre_log(GYRE_LOG_WARN, "CUDA devices \"%s\" are not used: %s; host memory is served",
                     domain->settings.devices, domain->no_cuda.text);
        return 0;
    }
    if (device >= count)
        return refuse(domain, trouble,
                      " and gives it device %d: %d %s visible here, counted from 0 "
                      "(CUDA_VISIBLE_DEVICES is %s)%s%s",
                      device, count, count == 1 ? "is" : "are", visible ? visible : "not set",
                      count ? "" : "; ", count ? "" : domain->no_cuda.text);
    domain->cuda_device = device;
    return 0;
}

int gyre_domain_device_choose(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    int device = -1;
    if (!domain->settings.devices) {
        gyre_trouble_set(&domain->no_cuda, GYRE_UNSUPPORTED,
                         "no device was given to this process; use `gyre run --devices` or "
                         "GYRE_DEVICES");
        return 0;
    }
    int status = take_entry(domain, &device, trouble);
    return status ? status : check_there(domain, device, trouble);
}
