/* Breaks queue pairs while the conformance suite runs: a driver whose poll() and arm() are these
 * does what the verbs driver does, but at some poll after light() the wire's queue pairs go to
 * their error state. So that a case may let one side sleep, this happens only while both are
 * polled, and nobody sleeps before both ends have settled it.
 *
 * A driver whose poll() is verbs_watcher_poll() does what the verbs driver does, and what it sees
 * in memory is counted. */
#ifndef GYRE_TESTS_LINK_VERBS_BREAKER_H
#define GYRE_TESTS_LINK_VERBS_BREAKER_H

#include "transport/link/table.h"

void verbs_breaker_light(void);
uint32_t verbs_breaker_broken(void); /* so far */
int verbs_breaker_poll(struct gyre_wire *handle, uint64_t now, struct gyre_completion *out,
                       int max);
int verbs_breaker_arm(struct gyre_wire *handle, struct gyre_alarm *alarm);

uint64_t verbs_watcher_seen(void); /* records so far */
int verbs_watcher_poll(struct gyre_wire *handle, uint64_t now, struct gyre_completion *out,
                       int max);

#endif
