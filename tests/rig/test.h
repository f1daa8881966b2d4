/* Cmocka, with the headers that it wants before it. Every test includes this. */
#ifndef GYRE_TESTS_RIG_TEST_H
#define GYRE_TESTS_RIG_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#endif
