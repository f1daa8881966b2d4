/* Where records lie: in a file that the launcher has made, or in one of the process's own.
 *
 *     launcher ── memfd ──▶ GYRE_RECORD_FD ──▶ rank maps and seals it ──▶ killed
 *        └──────────────────── reads it when it reaps the rank ◀────────────┘
 *
 * The peers of a node hold each other's records, but a rank alone on its node has no peer there.
 * The launcher makes the file where GYRE_DUMP is set, as only then somebody wants what is left.
 *
 * Tested by tests/program/cli/why.c. */
#include "transport/recorder/place.h"

#include "base/env.h"
#include "base/log.h"
#include "transport/recorder/dump.h"
#include "transport/recorder/head.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic bool taken; /* by the first recorder of this process, or found to be useless */

/* The launcher's descriptor; -1: none. A process that a rank has started inherits the variable but
 * not the descriptor. */
static int launchers_descriptor(void)
{
    struct gyre_trouble trouble = {0};
    int64_t fd = -1;
    if (!getenv("GYRE_RECORD_FD") || atomic_exchange(&taken, true))
        return -1;
    if (gyre_env_int("GYRE_RECORD_FD", 0, INT_MAX, &fd, &trouble))
        gyre_log(GYRE_LOG_WARN, "%s; this rank's records are in memory of its own", trouble.text);
    else if (fcntl((int)fd, F_GETFD) < 0)
        fd = -1;
    return (int)fd;
}

static bool adopt_launchers_file(uint32_t records, struct gyre_region *region)
{
    struct gyre_trouble trouble = {0};
    const int fd = records == GYRE_RECORDS ? launchers_descriptor() : -1;
    if (fd < 0)
        return false;
    if (gyre_cpu_adopt(fd, gyre_record_bytes(records), GYRE_SHARE_SEALED, region, &trouble)) {
        gyre_log(GYRE_LOG_WARN,
                 "GYRE_RECORD_FD is %d, which is no file for records here: %s; this rank's records "
                 "are in memory of its own",
                 fd, trouble.text);
        return false;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return true;
}

int gyre_record_place_take(uint32_t records, struct gyre_region *region,
                           struct gyre_trouble *trouble)
{
    if (adopt_launchers_file(records, region))
        return 0;
    return gyre_device_of(GYRE_MEMORY_HOST)
        ->alloc(0, gyre_record_bytes(records), GYRE_SHARE_SEALED, region, trouble);
}

/* -- the launcher ------------------------------------------------------------------------------ */

int gyre_record_place_make(void)
{
    int fd = memfd_create("gyre", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)gyre_record_bytes(GYRE_RECORDS));
    if (!error)
        return fd;
    if (fd >= 0)
        close(fd);
    gyre_log(GYRE_LOG_WARN, "no file for a rank's records: %s; if it is killed they may be lost",
             strerror(error));
    return -1;
}

static bool is_left_behind(const struct gyre_record_head *head)
{
    return memcmp(head->magic, GYRE_RECORD_MAGIC, sizeof head->magic) == 0 &&
           head->version == GYRE_RECORD_VERSION && head->records == GYRE_RECORDS &&
           head->state == GYRE_RECORD_RUNS && !gyre_record_rank_fault(head);
}

/* The peers may have ended before they could tell it. */
static void tell_signal(struct gyre_record_head *head, int number)
{
    const char *name = sigabbrev_np(number);
    head->state = GYRE_RECORD_FAILED;
    head->status = GYRE_PEER_LOST;
    head->failed_rank = head->rank;
    snprintf(head->story, sizeof head->story,
             "rank %u (%s, pid %u) was killed by signal %d (SIG%s)", head->rank, head->host,
             head->pid, number, name ? name : "?");
}

void gyre_record_place_keep(int fd, int number)
{
    const size_t bytes = gyre_record_bytes(GYRE_RECORDS);
    struct gyre_record_head *head = malloc(bytes);
    if (head && pread(fd, head, bytes, 0) == (ssize_t)bytes && is_left_behind(head)) {
        gyre_record_clean_texts(head);
        if (number)
            tell_signal(head, number);
        gyre_recorder_dump(head, true);
    }
    free(head);
}
