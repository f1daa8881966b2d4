/* Writes records to a file: on failure, and on SIGUSR2.
 *
 * A dump is the records as they lie in memory, so a signal's handler may write it: nothing here
 * that the handler calls allocates or locks. `gyre dump` prints a dump as lines of JSON.
 *
 * Tested by tests/program/cli/why.c. */
#include "transport/recorder/dump.h"

#include "base/disk/folder.h"
#include "base/disk/regular.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORDERS_MAX 64

static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(const struct gyre_recorder *) listed[RECORDERS_MAX]; /* for the handler */

/* Writes the file. One that exists is written over, unless it has to be absent: whoever reads a
 * file that is being written finds it torn, and says so. */
static bool write_dump(const char *path, const struct gyre_record_head *head, bool absent)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (absent ? O_EXCL : O_TRUNC), 0600);
    if (fd < 0)
        return absent && errno == EEXIST;
    bool whole = gyre_regular_write(fd, head, gyre_record_bytes(head->records));
    return close(fd) == 0 && whole;
}

/* Writes the path of a rank's dump; false: none is wanted. */
static bool dump_path(const struct gyre_record_head *head, char path[GYRE_RECORDER_PATH])
{
    const char *folder = getenv("GYRE_DUMP");
    char job[9];
    if (!folder || !*folder)
        return false;
    for (int i = 0; i < 4; i++)
        snprintf(job + 2 * i, 3, "%02x", head->job[i]);
    int length =
        snprintf(path, GYRE_RECORDER_PATH, "%s/%s-rank-%u.gyrerec", folder, job, head->rank);
    return length > 0 && length < GYRE_RECORDER_PATH;
}

void gyre_recorder_dump(const struct gyre_record_head *head, bool absent)
{
    char path[GYRE_RECORDER_PATH];
    if (dump_path(head, path) && !write_dump(path, head, absent))
        gyre_log(GYRE_LOG_WARN, "cannot write %s, which GYRE_DUMP asks for: %s", path,
                 strerror(errno));
}

static void dump_all(int number)
{
    int before = errno;
    (void)number;
    for (int i = 0; i < RECORDERS_MAX; i++) {
        const struct gyre_recorder *recorder = atomic_load(&listed[i]);
        if (recorder)
            write_dump(recorder->path, recorder->head, false);
    }
    errno = before;
}

static void enlist_recorder(const struct gyre_recorder *from, const struct gyre_recorder *to)
{
    pthread_mutex_lock(&listing);
    for (int i = 0; i < RECORDERS_MAX; i++)
        if (atomic_load(&listed[i]) == from) {
            atomic_store(&listed[i], to);
            break;
        }
    pthread_mutex_unlock(&listing);
}

void gyre_recorder_dump_on_signal(struct gyre_recorder *recorder)
{
    struct sigaction now, ours = {.sa_handler = dump_all, .sa_flags = SA_RESTART};
    struct gyre_trouble trouble = {0};
    if (!recorder || !dump_path(recorder->head, recorder->path))
        return;
    if (gyre_folder_make(getenv("GYRE_DUMP"), 0777, &trouble))
        gyre_log(GYRE_LOG_WARN, "a failure will leave no records: GYRE_DUMP: %s", trouble.text);
    enlist_recorder(NULL, recorder);
    if (sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        sigaction(SIGUSR2, &ours, NULL);
}

void gyre_recorder_ignore_signal(const struct gyre_recorder *recorder)
{
    enlist_recorder(recorder, NULL);
}
