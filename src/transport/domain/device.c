/* Chooses this process's CUDA device.
 *
 *     a list, 2,4,7     local rank 0 ─▶ 2    1 ─▶ 4    2 ─▶ 7    3: refused, with the devices here
 *     none              the device whose context is current to the thread that joins
 *                       ─▶ else local rank modulo devices, where the program has loaded CUDA
 *                       ─▶ else none: CUDA is not touched, and host memory is served
 *     a number          where several ranks live in one process (gyre_init_in_process), which one
 *                       current device does not tell apart
 *
 * The choice is made before rendezvous, so that a wrong list is told before any rank waits for this
 * one. It is made before any context exists, and makes none, so that no stray context lies on
 * device 0. A list where the machine has no driver is not wrong: the same command line serves both.
 *
 * UUIDs travel in the roster, because processes may number devices differently. So every rank knows
 * the ranks that share a device, and the lowest of them says so.
 *
 * Tested by tests/program/cuda/devices.c. */
#include "transport/domain/inside.h"

#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- the list ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static int refuse_device(const struct gyre_domain *domain,
                                                               struct gyre_trouble *trouble,
                                                               const char *format, ...)
{
    char what[700];
    const struct gyre_job *job = &domain->job;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "rank %d on %.63s (local rank %d): the list of CUDA devices "
                            "(--devices, GYRE_DEVICES) is \"%.100s\"%s",
                            job->rank, gyre_host_name(), job->local_rank, domain->settings.devices,
                            what);
}

/* Takes this rank's entry of the list. */
static int take_entry(const struct gyre_domain *domain, int *device, struct gyre_trouble *trouble)
{
    int place = domain->job.local_rank;
    struct gyre_device_list list;
    if (!gyre_device_list_read(domain->settings.devices, place, &list))
        return refuse_device(
            domain, trouble,
            ": expected numbers with commas between, one for each rank of a machine, "
            "such as 2,4,7");
    if (place < 0)
        return refuse_device(
            domain, trouble,
            ", but the launcher does not tell this rank's place on its machine: set "
            "LOCAL_RANK or options.local_rank");
    if (place >= list.count)
        return refuse_device(
            domain, trouble,
            " and has %d %s: give one for each rank of a machine, or start fewer ranks", list.count,
            list.count == 1 ? "entry" : "entries");
    *device = list.wanted;
    return 0;
}

/* -- what is there ----------------------------------------------------------------------------- */

/* Returns the number of devices; 0: no_cuda says why. */
static int look_for_device(struct gyre_domain *domain)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (cuda)
        return cuda->probe(&domain->no_cuda);
    gyre_trouble_set(&domain->no_cuda, GYRE_UNSUPPORTED,
                     "this build of Gyre has none (no nvcc was found when it was configured)");
    return 0;
}

/* Writes the visible devices: "2 are visible here: 0 NVIDIA H200, 1 NVIDIA H200
 * (CUDA_VISIBLE_DEVICES is not set)". */
static void describe_visible(const struct gyre_domain *domain, int count, char *text, size_t size)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct gyre_device_identity identity;
    size_t used =
        (size_t)snprintf(text, size, "%d %s visible here", count, count == 1 ? "is" : "are");
    for (int device = 0; device < count && used < size; device++)
        if (!gyre_device_of(GYRE_MEMORY_CUDA)->identify(device, &identity, NULL))
            used += (size_t)snprintf(text + used, size - used, "%s %d %s", device ? "," : ":",
                                     device, identity.name);
    if (used < size)
        snprintf(text + used, size - used, " (CUDA_VISIBLE_DEVICES is %.100s)%s%.200s",
                 visible ? visible : "not set", count ? "" : "; ",
                 count ? "" : domain->no_cuda.text);
}

static int take_device(struct gyre_domain *domain, int device, struct gyre_trouble *trouble)
{
    int status =
        gyre_device_of(GYRE_MEMORY_CUDA)->identify(device, &domain->cuda_identity, trouble);
    if (!status)
        domain->cuda_device = device;
    return status;
}

/* Takes the device that the list gives to this rank. */
static int obey(struct gyre_domain *domain, int device, struct gyre_trouble *trouble)
{
    char visible[500];
    int count = look_for_device(domain);
    if (!count && domain->no_cuda.status != -ENODEV) {
        if (domain->job.local_rank == 0)
            gyre_log(GYRE_LOG_WARN, "CUDA devices \"%s\" are not used: %s; host memory is served",
                     domain->settings.devices, domain->no_cuda.text);
        return 0;
    }
    if (device < count)
        return take_device(domain, device, trouble);
    describe_visible(domain, count, visible, sizeof(visible));
    return refuse_device(domain, trouble, " and gives it device %d: %s, counted from 0", device,
                         visible);
}

/* Takes the device that the program gives to one of its ranks; it must exist. */
static int take_given(struct gyre_domain *domain, int device, struct gyre_trouble *trouble)
{
    char visible[500];
    if (device == -1) {
        gyre_trouble_set(&domain->no_cuda, GYRE_UNSUPPORTED,
                         "the program gave device -1, none, to this rank");
        return 0;
    }
    int count = look_for_device(domain);
    if (device >= 0 && device < count)
        return take_device(domain, device, trouble);
    describe_visible(domain, count, visible, sizeof(visible));
    return gyre_trouble_set(trouble, count || device < -1 ? GYRE_INVALID : GYRE_UNSUPPORTED,
                            "rank %d on %.63s is given CUDA device %d: %s, counted from 0; -1 is "
                            "no device",
                            domain->job.rank, gyre_host_name(), device, visible);
}

/* Takes the program's own device, or one that the program can use. A failure here turns CUDA
 * off. */
static void follow_device(struct gyre_domain *domain)
{
    const struct gyre_job *job = &domain->job;
    int count = look_for_device(domain);
    if (!count)
        return;
    int device = job->ranks_here > 1 ? -1 : gyre_device_of(GYRE_MEMORY_CUDA)->current();
    if (device < 0)
        device = (job->local_rank < 0 ? job->rank : job->local_rank) % count;
    take_device(domain, device, &domain->no_cuda);
}

int gyre_domain_device_choose(struct gyre_domain *domain, const int *given,
                              struct gyre_trouble *trouble)
{
    int device = -1;
    if (given)
        return take_given(domain, *given, trouble);
    if (domain->settings.devices) {
        int status = take_entry(domain, &device, trouble);
        return status ? status : obey(domain, device, trouble);
    }
    if (gyre_device_cuda_present() || !gyre_device_of(GYRE_MEMORY_CUDA))
        follow_device(domain);
    else
        gyre_trouble_set(&domain->no_cuda, GYRE_UNSUPPORTED,
                         "this program had not loaded CUDA when it joined, and no device was "
                         "named; use `gyre run --devices` or GYRE_DEVICES");
    return 0;
}

/* -- one device, several ranks ----------------------------------------------------------------- */

bool gyre_domain_has_cuda(const struct gyre_domain *domain, uint32_t rank)
{
    static const uint8_t none[sizeof(domain->joined->member[rank].device)];
    return memcmp(domain->joined->member[rank].device, none, sizeof(none)) != 0;
}

static bool same_device(const struct gyre_joined *joined, uint32_t a, uint32_t b)
{
    return memcmp(joined->member[a].device, joined->member[b].device,
                  sizeof(joined->member[a].device)) == 0;
}

/* Writes the ranks on this rank's device, as many as fit: "0, 1 and 5". Returns their number. */
static uint32_t list_ranks(const struct gyre_joined *joined, char *text, size_t size)
{
    uint32_t count = 0, last = joined->rank;
    size_t used = (size_t)snprintf(text, size, "%u", joined->rank);
    for (uint32_t rank = joined->rank; rank < joined->n; rank++)
        if (same_device(joined, joined->rank, rank)) {
            last = rank;
            count++;
        }
    for (uint32_t rank = joined->rank + 1; rank < last && used + 32 < size; rank++)
        if (same_device(joined, joined->rank, rank))
            used += (size_t)snprintf(text + used, size - used, ", %u", rank);
    snprintf(text + used, size - used, " and %u", last);
    return count;
}

void gyre_domain_device_tell(const struct gyre_domain *domain)
{
    char ranks[300], uuid[GYRE_DEVICE_UUID_TEXT];
    const struct gyre_joined *joined = domain->joined;
    if (domain->cuda_device < 0)
        return;
    for (uint32_t lower = 0; lower < joined->rank; lower++)
        if (same_device(joined, lower, joined->rank))
            return;
    if (list_ranks(joined, ranks, sizeof(ranks)) == 1)
        return;
    gyre_device_uuid_text(domain->cuda_identity.uuid, uuid);
    gyre_log(GYRE_LOG_WARN, "ranks %s share GPU %d of %s (%s, %s): their work there takes turns",
             ranks, domain->cuda_device, gyre_host_name(), domain->cuda_identity.name, uuid);
}
