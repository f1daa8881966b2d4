/* Threads of a block that meet at barriers, on one thread of the host: each is a fiber, a stack of
 * its own. It runs until it meets a barrier or ends; then the next one runs.
 *
 *     fiber 0   ██▌barrier          ██▌barrier          █ end
 *     fiber 1        ██▌barrier          ██▌barrier          █ end
 *     fiber 2             ██▌barrier          ██▌barrier          █ end
 *
 * A fiber whose thread has ended without a barrier takes the next thread, so a kernel without
 * barriers needs one fiber. Only the first entry to a fiber needs ucontext, whose switches ask the
 * kernel for the signal mask: _setjmp() and _longjmp() do the rest. The address sanitizer does not
 * bear jumps between stacks, so there ucontext does all of it. Fibers are kept for the next block;
 * each thread of the host has its own. */
#undef _FORTIFY_SOURCE /* whose longjmp() takes another stack for a fault */
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

/* -- places to go on at ------------------------------------------------------------------------ */

#ifdef HAS_ASAN

struct place {
    ucontext_t context;
};

static void go(struct place *from, struct place *to)
{
    swapcontext(&from->context, &to->context);
}

#else

struct place {
    ucontext_t context; /* of the first entry */
    bool is_new;
    jmp_buf at;
};

static void go(struct place *from, struct place *to)
{
    if (_setjmp(from->at))
        return;
    if (to->is_new) {
        to->is_new = false;
        setcontext(&to->context);
    }
    _longjmp(to->at, 1);
}

#endif

/* -- fibers ------------------------------------------------------------------------------------ */

enum fiber_state { FIBER_IDLE, FIBER_WAITING, FIBER_ENDED };

struct fiber {
    struct place place;
    char *stack;
    void *shadow; /* of the address sanitizer */
    unsigned thread;
    enum fiber_state state;
};

struct fiber_crew {
    struct place scheduler;
    void *shadow;
    const void *bottom; /* of the scheduler's stack */
    size_t size;
    struct fiber fiber[FIBERS_MOST];
    struct fiber *now;
    void (*before)(unsigned thread);
    void (*call)(const void *context);
    const void *context;
};

/* A host thread's crew. Thread-local memory is taken from small stacks, so it lies elsewhere. */
static thread_local struct crew_owner {
    struct fiber_crew *crew;

    ~crew_owner()
    {
        for (int i = 0; crew && i < FIBERS_MOST; i++)
            free(crew->fiber[i].stack);
        free(crew);
    }
} own;

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
        __sanitizer_finish_switch_fiber(shadow, &own.crew->bottom, &own.crew->size);
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
    struct fiber *fiber = own.crew->now;
    fiber->state = state;
    leave_for(&fiber->shadow, own.crew->bottom, own.crew->size);
    go(&fiber->place, &own.crew->scheduler);
    arrive(own.crew->now->shadow, true);
}

static void fiber_main()
{
    arrive(NULL, true);
    for (;;) {
        own.crew->call(own.crew->context);
        give_way(FIBER_ENDED);
    }
}

static void make_fiber(struct fiber *fiber)
{
    int failed = getcontext(&fiber->place.context);
    fiber->stack = static_cast<char *>(malloc(STACK_BYTES));
    if (failed || !fiber->stack)
        refuse("has more threads than there is memory for");
    fiber->place.context.uc_stack.ss_sp = fiber->stack;
    fiber->place.context.uc_stack.ss_size = STACK_BYTES;
    fiber->place.context.uc_link = NULL;
    makecontext(&fiber->place.context, fiber_main, 0);
#ifndef HAS_ASAN
    fiber->place.is_new = true;
#endif
}

/* Runs the fiber until it gives way. */
static void turn_to(struct fiber *fiber)
{
    if (!fiber->stack)
        make_fiber(fiber);
    own.crew->now = fiber;
    own.crew->before(fiber->thread);
    leave_for(&own.crew->shadow, fiber->stack, STACK_BYTES);
    go(&own.crew->scheduler, &fiber->place);
    arrive(own.crew->shadow, false);
}

/* -- a block ----------------------------------------------------------------------------------- */

/* Starts each thread; returns how many wait at a barrier, in the first fibers. */
static unsigned start_threads(unsigned threads)
{
    unsigned waiting = 0;
    for (unsigned t = 0; t < threads; t++) {
        struct fiber *fiber = &own.crew->fiber[waiting];
        fiber->thread = t;
        turn_to(fiber);
        waiting += fiber->state == FIBER_WAITING;
    }
    return waiting;
}

static unsigned go_on(unsigned threads)
{
    unsigned waiting = 0;
    for (unsigned t = 0; t < threads; t++) {
        turn_to(&own.crew->fiber[t]);
        waiting += own.crew->fiber[t].state == FIBER_WAITING;
    }
    return waiting;
}

extern "C" void fake_fibers_run(unsigned threads, void (*before)(unsigned thread),
                                void (*call)(const void *context), const void *context)
{
    if (!own.crew)
        own.crew = static_cast<struct fiber_crew *>(calloc(1, sizeof *own.crew));
    if (!own.crew || threads > FIBERS_MOST)
        refuse("has larger blocks than a device takes, or there is no memory for its threads");
    own.crew->before = before;
    own.crew->call = call;
    own.crew->context = context;
    for (unsigned waiting = start_threads(threads); waiting; waiting = go_on(threads))
        if (waiting != threads)
            refuse("has a barrier that not all threads of a block reach");
}

extern "C" void fake_fibers_meet(void)
{
    give_way(FIBER_WAITING);
}
