/* A table of mappings that a signal handler can read: a slot is taken, filled, and then shown by
 * its address. The handler runs in the thread that read, while that thread holds the mapping, so
 * the slot stays as it is. */
#include "data/files/cut_short.h"

#include "base/log.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#define SLOTS     64
#define PATH_MOST 512

static const uint8_t filling; /* its address marks a slot that is being filled */

static struct listed {
    _Atomic(const uint8_t *) data; /* NULL: free */
    uint64_t length;
    char path[PATH_MOST];
} table[SLOTS];

void gyre_cut_short_list(const char *path, const uint8_t *data, uint64_t length)
{
    for (int i = 0; i < SLOTS; i++) {
        const uint8_t *nothing = NULL;
        if (!atomic_compare_exchange_strong(&table[i].data, &nothing, &filling))
            continue;
        snprintf(table[i].path, sizeof table[i].path, "%s", path);
        table[i].length = length;
        atomic_store(&table[i].data, data);
        return;
    }
}

void gyre_cut_short_drop(const uint8_t *data)
{
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load(&table[i].data) == data)
            atomic_store(&table[i].data, NULL);
}

static const char *find_path(const uint8_t *address)
{
    for (int i = 0; i < SLOTS; i++) {
        const uint8_t *data = atomic_load(&table[i].data);
        if (data && address >= data && (uint64_t)(address - data) < table[i].length)
            return table[i].path;
    }
    return NULL;
}

/* The read is repeated when this returns, and then the signal has its default effect. */
static void tell_cut(int signal, siginfo_t *about, void *context)
{
    const char *path = find_path(about->si_addr);
    if (path)
        gyre_log(GYRE_LOG_ERROR,
                 "%s was cut shorter while this process read it, which ends it by SIGBUS: to "
                 "change a file that is in use, write another one and rename it",
                 path);
}

void gyre_cut_short_tell(void)
{
    struct sigaction action = {.sa_sigaction = tell_cut, .sa_flags = SA_SIGINFO | SA_RESETHAND};
    sigaction(SIGBUS, &action, NULL);
}
