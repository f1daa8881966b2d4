/* futex(2) on a word that may lie in memory shared by processes. */
#ifndef GYRE_TRANSPORT_DOMAIN_FUTEX_H
#define GYRE_TRANSPORT_DOMAIN_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while the word is `seen`, at most for `timeout`. May return early. */
static inline void gyre_futex_wait(_Atomic uint32_t *word, uint32_t seen,
                                   const struct timespec *timeout)
{
    syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout, NULL, 0);
}

/* Wakes at most `most` threads that sleep on the word. */
static inline void gyre_futex_wake(_Atomic uint32_t *word, uint32_t most)
{
    syscall(SYS_futex, word, FUTEX_WAKE, most, NULL, NULL, 0);
}

#endif
