/* Threads of a block that meet at barriers, on one thread of the host: each is a fiber, a stack of
 * its own. It runs until it meets a barrier or ends; then the next one runs.
 *
 *     fiber 0   ██▌barrier          ██▌barrier          █ end
 *     fiber 1        ██▌barrier          ██▌barrier          █ end
 *     fiber 2             ██▌barrier          ██▌barrier          █ end
 *
 * A fiber whose thread has ended without a barrier takes the next thread, so a kernel without
 * barriers needs one fiber. Only the first entry to a fiber needs ucontext, whose switches ask the
 * kernel for the signal mask: _setjmp() and _longjmp() do the rest. Fibers are kept for the next
 * block; each thread of the host has its own. */
#include "fake_kernel.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define FIBERS_MOST 1024
#define STACK_BYTES (64 << 10)

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#ifdef HAS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

enum fiber_state { FIBER_IDLE, FIBER_WAITING, FIBER_ENDED };

struct fiber {
    jmp_buf at;
    char *stack;
    void *shadow; /* of the address sanitizer */
    unsigned thread;
    enum fiber_state state;
};

struct crew {
    jmp_buf scheduler;
    void *shadow;
    const void *bottom; /* of the scheduler's stack */
    size_t size;
    struct fiber fiber[FIBERS_MOST];
    struct fiber *now;
    void (*before)(unsigned thread);
    void (*call)(const void *context);
    const void *context;

    ~crew()
    {
        for (auto &each : fiber)
            free(each.stack);
    }
};

static thread_local struct crew crew;

[[noreturn]] static void refuse(const char *what)
{
    fprintf(stderr, "fakecuda: a kernel %s\n", what);
    abort();
}

/* -- what the address sanitizer wants to know -------------------------------------------------- */

static void leave_for(void **shadow, const void *bottom, size_t size)
{
#ifdef HAS_ASAN
    __sanitizer_start_switch_fiber(shadow, bottom, size);
#else
    (void)shadow, (void)bottom, (void)size;
#endif
}

static void arrive(void *shadow, bool in_fiber)
{
#ifdef HAS_ASAN
    if (in_fiber)
        __sanitizer_finish_switch_fiber(shadow, &crew.bottom, &crew.size);
    else
        __sanitizer_finish_switch_fiber(shadow, NULL, NULL);
#else
    (void)shadow, (void)in_fiber;
#endif
}

/* -- switches ---------------------------------------------------------------------------------- */

/* Back to the scheduler, until it turns to this fiber again. */
static void give_way(enum fiber_state state)
{
    struct fiber *fiber = crew.now;
    fiber->state = state;
    if (_setjmp(fiber->at) == 0) {
        leave_for(&fiber->shadow, crew.bottom, crew.size);
        _longjmp(crew.scheduler, 1);
    }
    arrive(crew.now->shadow, true);
}

static void fiber_main()
{
    arrive(NULL, true);
    for (;;) {
        crew.call(crew.context);
        give_way(FIBER_ENDED);
    }
}

static void enter_first(struct fiber *fiber)
{
    ucontext_t entry;
    fiber->stack = static_cast<char *>(malloc(STACK_BYTES));
    if (!fiber->stack || getcontext(&entry))
        refuse("has more threads than there is memory for");
    entry.uc_stack.ss_sp = fiber->stack;
    entry.uc_stack.ss_size = STACK_BYTES;
    entry.uc_link = NULL;
    makecontext(&entry, fiber_main, 0);
    leave_for(&crew.shadow, fiber->stack, STACK_BYTES);
    setcontext(&entry);
}

/* Runs the fiber until it gives way. */
static void turn_to(struct fiber *fiber)
{
    crew.now = fiber;
    crew.before(fiber->thread);
    if (_setjmp(crew.scheduler) == 0) {
        if (!fiber->stack)
            enter_first(fiber);
        leave_for(&crew.shadow, fiber->stack, STACK_BYTES);
        _longjmp(fiber->at, 1);
    }
    arrive(crew.shadow, false);
}

/* -- a block ----------------------------------------------------------------------------------- */

/* Starts each thread; returns how many wait at a barrier, in the first fibers. */
static unsigned start_threads(unsigned threads)
{
    unsigned waiting = 0;
    for (unsigned t = 0; t < threads; t++) {
        crew.fiber[waiting].thread = t;
        turn_to(&crew.fiber[waiting]);
        waiting += crew.fiber[waiting].state == FIBER_WAITING;
    }
    return waiting;
}

static unsigned go_on(unsigned threads)
{
    unsigned waiting = 0;
    for (unsigned t = 0; t < threads; t++) {
        turn_to(&crew.fiber[t]);
        waiting += crew.fiber[t].state == FIBER_WAITING;
    }
    return waiting;
}

extern "C" void fake_fibers_run(unsigned threads, void (*before)(unsigned thread),
                                void (*call)(const void *context), const void *context)
{
    crew.before = before;
    crew.call = call;
    crew.context = context;
    if (threads > FIBERS_MOST)
        refuse("was launched that has larger blocks than a device takes");
    for (unsigned waiting = start_threads(threads); waiting; waiting = go_on(threads))
        if (waiting != threads)
            refuse("has a barrier that not all threads of a block reach");
}

extern "C" void fake_fibers_meet(void)
{
    give_way(FIBER_WAITING);
}
