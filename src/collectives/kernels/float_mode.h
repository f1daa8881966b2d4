/* The CPU's rounding and flush modes around a kernel.
 *
 * A caller may have asked for other modes (flush_denormal in Python, -ffast-math's start-up code, a
 * rounding mode of interval arithmetic, traps), and ranks of one job need not have asked for the
 * same. Kernels whose result depends on them therefore run in the default: to nearest even, nothing
 * flushed, nothing trapped. Reading the mode costs one or two nanoseconds; it is written only where
 * it differs. */
#ifndef GYRE_COLLECTIVES_KERNELS_FLOAT_MODE_H
#define GYRE_COLLECTIVES_KERNELS_FLOAT_MODE_H

#if defined(__x86_64__)
#include <xmmintrin.h>

typedef unsigned int gyre_float_mode;
#define GYRE_FLOAT_MODE_DEFAULT 0x1f80U
#define GYRE_FLOAT_MODE_STICKY  0x003fU /* flags of past operations: no modes */

static inline gyre_float_mode gyre_float_mode_read(void)
{
    return _mm_getcsr();
}

static inline void gyre_float_mode_write(gyre_float_mode mode)
{
    _mm_setcsr(mode);
}

#elif defined(__aarch64__)
#include <stdint.h>

typedef uint64_t gyre_float_mode;
#define GYRE_FLOAT_MODE_DEFAULT 0U
#define GYRE_FLOAT_MODE_STICKY  0U

static inline gyre_float_mode gyre_float_mode_read(void)
{
    gyre_float_mode mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

static inline void gyre_float_mode_write(gyre_float_mode mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}

#else
#include <fenv.h>

typedef int gyre_float_mode;
#define GYRE_FLOAT_MODE_DEFAULT FE_TONEAREST
#define GYRE_FLOAT_MODE_STICKY  0

static inline gyre_float_mode gyre_float_mode_read(void)
{
    return fegetround();
}

static inline void gyre_float_mode_write(gyre_float_mode mode)
{
    fesetround(mode);
}
#endif

static inline int gyre_float_mode_differs(gyre_float_mode mode)
{
    return __builtin_expect((mode & ~GYRE_FLOAT_MODE_STICKY) != GYRE_FLOAT_MODE_DEFAULT, 0);
}

/* Code between gyre_float_mode_enter() and gyre_float_mode_leave() runs in the default mode. The
 * empty asm keeps loads and stores, and with them the arithmetic in between, from crossing. */
static inline gyre_float_mode gyre_float_mode_enter(void)
{
    gyre_float_mode mode = gyre_float_mode_read();
    if (gyre_float_mode_differs(mode))
        gyre_float_mode_write(GYRE_FLOAT_MODE_DEFAULT);
    __asm__ volatile("" : : : "memory");
    return mode;
}

static inline void gyre_float_mode_leave(gyre_float_mode mode)
{
    __asm__ volatile("" : : : "memory");
    if (gyre_float_mode_differs(mode))
        gyre_float_mode_write(mode);
}

#endif
