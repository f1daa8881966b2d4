/* Threads of a block that meet at barriers, on one thread of the host: each is a fiber, a stack of
 * its own. It runs until it meets a barrier or ends; then the next one runs.
 *
 *     fiber 0   ██▌barrier          ██▌barrier          █ end
 *     fiber 1        ██▌barrier          ██▌barrier          █ end
 *     fiber 2             ██▌barrier          ██▌barrier          █ end
 *
 * A fiber whose thread has ended without a barrier takes the next thread, so a kernel without
 * barriers needs one fiber and no switch. At a barrier a fiber turns to the next one, and the last
 * to the first. The block's caller runs again when all threads have ended. Only the first entry to
 * a fiber needs ucontext. Jumps between fibers are the compiler's own where it has them, else
 * _setjmp() and _longjmp(), which take three times as long. The address sanitizer takes those for
 * an unwinding; the thread sanitizer follows no others. Fibers are kept for the next block; each
 * thread of the host has its own. */
#undef _FORTIFY_SOURCE /* whose longjmp() takes another stack for a fault */
#include "fake_kernel.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define FIBERS_MOST 1024
#define STACK_BYTES ((64 << 10) + 832) /* powers of two would share few sets of a cache */

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#elif __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif

#ifdef HAS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

/* -- places to go on at ------------------------------------------------------------------------ */

#if defined(HAS_ASAN) || (defined(__x86_64__) && !defined(HAS_TSAN))
typedef void *jump_point[5];
#define LEAVE_POINT(point) __builtin_setjmp(point)
#define JUMP_TO(point)     __builtin_longjmp(point, 1)
#define APART              __attribute__((noinline)) /* leaving and jumping: as it has to be */
#else
typedef jmp_buf jump_point;
#define LEAVE_POINT(point) _setjmp(point)
#define JUMP_TO(point)     _longjmp(point, 1)
#define APART
#endif

#ifdef HAS_ASAN
#define UNWATCHED APART __attribute__((no_sanitize_address))
#else
#define UNWATCHED APART
#endif

struct place {
    ucontext_t context; /* of the first entry */
    bool is_new;
    jump_point at;
};

UNWATCHED static void enter(struct place *to)
{
    if (to->is_new) {
        to->is_new = false;
        setcontext(&to->context);
    }
    JUMP_TO(to->at);
}

UNWATCHED static void go(struct place *from, struct place *to)
{
    if (!LEAVE_POINT(from->at))
        enter(to);
}

/* -- fibers ------------------------------------------------------------------------------------ */

struct fiber {
    struct place place;
    char *stack;
    void *shadow; /* of the address sanitizer */
    unsigned thread;
};

struct fiber_crew {
    struct fiber caller; /* of the block; its stack is the host thread's */
    const void *bottom;  /* of the caller's stack */
    size_t size;
    struct fiber fiber[FIBERS_MOST];
    struct fiber *last, *now;
    unsigned threads, turn, waiting; /* of the block; had their turn since a barrier; wait there */
    bool started;                    /* all threads have been */
    void (*before)(unsigned thread);
    void (*call)(const void *context);
    const void *context;
};

/* A host thread's crew. Thread-local memory is taken from small stacks, so it lies elsewhere. */
static __thread struct fiber_crew *crew;

/* Frees it when the host thread ends. Whoever names a variable with a destructor asks each time
 * whether it was made. */
static thread_local struct crew_owner {
    ~crew_owner()
    {
        for (int i = 0; crew && i < FIBERS_MOST; i++)
            free(crew->fiber[i].stack);
        free(crew);
        crew = NULL;
    }
    void own()
    {
    }
} owner;

[[noreturn]] static void refuse(const char *what)
{
    fprintf(stderr, "fakecuda: a kernel %s\n", what);
    abort();
}

/* -- switches ---------------------------------------------------------------------------------- */

/* What the address sanitizer wants to know: where the host thread's stack will be. */
static void leave_for(struct fiber *from, const struct fiber *to)
{
#ifdef HAS_ASAN
    if (to->stack)
        __sanitizer_start_switch_fiber(&from->shadow, to->stack, STACK_BYTES);
    else
        __sanitizer_start_switch_fiber(&from->shadow, crew->bottom, crew->size);
#else
    (void)from, (void)to;
#endif
}

/* A switch from the caller tells where its stack is. */
static void arrive(const struct fiber *at)
{
#ifdef HAS_ASAN
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(at->shadow, &bottom, &size);
    if (crew->last == &crew->caller) {
        crew->bottom = bottom;
        crew->size = size;
    }
#else
    (void)at;
#endif
}

static void fiber_main();

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
    fiber->place.is_new = true;
}

/* Returns when somebody turns to `from` again. */
static void turn_to(struct fiber *from, struct fiber *to)
{
    if (to != &crew->caller && !to->stack)
        make_fiber(to);
    crew->last = from;
    crew->now = to;
    leave_for(from, to);
    go(&from->place, &to->place);
    arrive(from);
}

/* Whoever is next: of the first threads to start, or of those that a barrier has freed, each in its
 * fiber; the caller where all have ended. */
static struct fiber *next_fiber(void)
{
    if (++crew->turn == crew->threads) {
        if (!crew->waiting)
            return &crew->caller;
        if (crew->waiting != crew->threads)
            refuse("has a barrier that not all threads of a block reach");
        crew->started = true;
        crew->turn = crew->waiting = 0;
    }
    struct fiber *next = &crew->fiber[crew->started ? crew->turn : crew->waiting];
    if (!crew->started)
        next->thread = crew->turn;
    return next;
}

static void give_way(struct fiber *fiber)
{
    struct fiber *next = next_fiber();
    if (next != fiber)
        turn_to(fiber, next);
    crew->before(fiber->thread);
}

static void fiber_main()
{
    struct fiber *self = crew->now;
    arrive(self);
    crew->before(self->thread);
    for (;;) {
        crew->call(crew->context);
        give_way(self);
    }
}

/* -- a block ----------------------------------------------------------------------------------- */

static void make_crew(void)
{
    crew = static_cast<struct fiber_crew *>(calloc(1, sizeof *crew));
    owner.own();
}

extern "C" void fake_fibers_run(unsigned threads, void (*before)(unsigned thread),
                                void (*call)(const void *context), const void *context)
{
    if (!crew)
        make_crew();
    if (!crew || threads > FIBERS_MOST)
        refuse("has larger blocks than a device takes, or there is no memory for its threads");
    crew->before = before;
    crew->call = call;
    crew->context = context;
    crew->threads = threads;
    crew->turn = crew->waiting = 0;
    crew->started = false;
    crew->fiber[0].thread = 0;
    turn_to(&crew->caller, &crew->fiber[0]);
}

extern "C" void fake_fibers_meet(void)
{
    crew->waiting++;
    give_way(crew->now);
}
