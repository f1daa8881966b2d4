/* A store for tests: a table in memory that the test shares with its ranks, with a fault. */
#ifndef GYRE_TESTS_PROGRAM_JOB_STORE_RIG_H
#define GYRE_TESTS_PROGRAM_JOB_STORE_RIG_H

#include <gyre/gyre.h>

#include <pthread.h>

enum { STORE_ENTRIES = 8, STORE_VALUE = 256 };

enum store_fault {
    STORE_GOOD,
    STORE_KEEPS_ALL,
    STORE_SET_FAILS,
    STORE_GET_FAILS,
    STORE_LOSES_ALL,
    STORE_LIES,
    STORE_FORGES_KEY,
    STORE_OVERFLOWS,
    STORE_IS_SLOW /* get() answers when `answers` is set */
};

struct store_table {
    pthread_mutex_t lock;
    enum store_fault fault;
    _Atomic int gets, answers;
    struct {
        char key[64], value[STORE_VALUE];
        size_t bytes;
    } entry[STORE_ENTRIES];
};

struct store_table *store_table_make(enum store_fault fault);
int store_table_entries(const struct store_table *table); /* how many keys have a value */

/* The store of a table, for options.store. */
struct gyre_store store_of(struct store_table *table);

/* Joins the group of that name as one of `world` ranks, with no key but the store's. What goes
 * wrong is told on standard error. */
int store_join(struct store_table *table, const char *name, int rank, int world,
               struct gyre_comm **comm);

#endif
