/* SANITIZED: the test is compiled with the address or thread sanitizer; SANITIZED_THREADS: with the
 * latter. gcc and clang say so each in its own words. */
#ifndef GYRE_TESTS_RIG_SANITIZED_H
#define GYRE_TESTS_RIG_SANITIZED_H

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define SANITIZED_THREADS
#endif
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

#ifdef __SANITIZE_THREAD__
#define SANITIZED_THREADS
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(SANITIZED_THREADS)
#define SANITIZED
#endif

#endif
