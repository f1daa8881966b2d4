/* Lines on standard error, one write(2) each, prefixed "gyre[rank 3 @ host]: ", or "gyre[ranks 0-7
 * @ host]: " where several ranks live in the process. The level comes from GYRE_LOG (error, warn,
 * info, debug; default warn), read once. Any thread; never blocks on a lock. */
#ifndef GYRE_BASE_LOG_H
#define GYRE_BASE_LOG_H

#include "base/status.h"

enum gyre_log_level { GYRE_LOG_ERROR, GYRE_LOG_WARN, GYRE_LOG_INFO, GYRE_LOG_DEBUG };

/* Sets the ranks of this process for the prefix; -1: unknown yet. The log itself finds the host
 * name. */
void gyre_log_identity(int first, int last);
void gyre_log(enum gyre_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns GYRE_INVALID where GYRE_LOG is no level; nothing is printed. */
int gyre_log_check(struct gyre_trouble *trouble);

const char *gyre_host_name(void); /* of this machine; static storage */

#endif
