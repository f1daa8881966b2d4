#include "program/job/store_rig.h"

#include "rig/comm_rig.h"
#include "rig/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The entry of a key; without one, a free entry. */
static int find_entry(const struct store_table *table, const char *key)
{
    int free = -1;
    for (int i = 0; i < STORE_ENTRIES; i++) {
        if (strcmp(table->entry[i].key, key) == 0)
            return i;
        free = table->entry[i].key[0] ? free : i;
    }
    return free;
}

static int table_set(void *context, const char *key, const void *value, size_t bytes)
{
    struct store_table *table = context;
    if (table->fault == STORE_SET_FAILS)
        return -EIO;
    if (table->fault == STORE_LOSES_ALL)
        return 0;
    pthread_mutex_lock(&table->lock);
    int i = find_entry(table, key);
    snprintf(table->entry[i].key, sizeof table->entry[i].key, "%s", key);
    memcpy(table->entry[i].value, value, bytes);
    table->entry[i].bytes = bytes;
    char *last = &table->entry[i].value[bytes - 2]; /* a digit of the key */
    if (table->fault == STORE_FORGES_KEY)
        *last = *last == '0' ? '1' : '0';
    pthread_mutex_unlock(&table->lock);
    return 0;
}

static int tell_wrong(const struct store_table *table, void *value, size_t *bytes)
{
    if (table->fault == STORE_GET_FAILS)
        return -ECONNREFUSED;
    *bytes = table->fault == STORE_LIES ? 5 : STORE_VALUE * 4;
    memcpy(value, "hello", 5);
    return 0;
}

static int table_get(void *context, const char *key, void *value, size_t *bytes, int timeout_ms)
{
    struct store_table *table = context;
    (void)timeout_ms; /* to look at once is within any time */
    table->gets++;
    if (table->fault == STORE_GET_FAILS || table->fault == STORE_LIES ||
        table->fault == STORE_OVERFLOWS)
        return tell_wrong(table, value, bytes);
    if (table->fault == STORE_IS_SLOW)
        rig_until(&table->answers, 1);
    pthread_mutex_lock(&table->lock);
    int i = find_entry(table, key);
    bool there = i >= 0 && table->entry[i].key[0];
    if (there) {
        *bytes = table->entry[i].bytes;
        memcpy(value, table->entry[i].value, *bytes);
    }
    pthread_mutex_unlock(&table->lock);
    return there ? 0 : GYRE_AGAIN;
}

static int table_remove(void *context, const char *key)
{
    struct store_table *table = context;
    if (table->fault == STORE_KEEPS_ALL)
        return 0;
    pthread_mutex_lock(&table->lock);
    int i = find_entry(table, key);
    if (i >= 0)
        table->entry[i].key[0] = 0;
    pthread_mutex_unlock(&table->lock);
    return 0;
}

struct store_table *store_table_make(enum store_fault fault)
{
    pthread_mutexattr_t shared;
    struct store_table *table =
        mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(table != MAP_FAILED);
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&table->lock, &shared);
    table->fault = fault;
    return table;
}

int store_table_entries(const struct store_table *table)
{
    int count = 0;
    for (int i = 0; i < STORE_ENTRIES; i++)
        count += table->entry[i].key[0] != 0;
    return count;
}

struct gyre_store store_of(struct store_table *table)
{
    return (struct gyre_store){sizeof(struct gyre_store), table, table_set, table_get,
                               table_remove};
}

int store_join(struct store_table *table, const char *name, int rank, int world,
               struct gyre_comm **comm)
{
    const struct gyre_store store = store_of(table);
    struct gyre_options options = GYRE_OPTIONS_INIT;
    unsetenv("GYRE_KEY");
    options.rank = rank;
    options.world = world;
    options.job = name;
    options.store = &store;
    options.join_timeout_ms = 20000 * rig_slow();
    int status = gyre_init(comm, &options);
    if (status)
        fprintf(stderr, "group %s, rank %d: %s\n", name, rank, gyre_error(NULL));
    return status;
}
