/* A liburing whose n-th call of a kind fails, and whose n-th send or receive ends with an error:
 * that operation is replaced by one that does nothing and has the error as its result, for which
 * the kernel has a flag since Linux 6.10. */
#include "stand_in/failing_inside.h"

#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define INJECT_RESULT 1u /* IORING_NOP_INJECT_RESULT */

/* clang-format off */
STAND(int, io_uring_queue_init_params, ring, -errno,
      (unsigned entries, struct io_uring *ring, struct io_uring_params *with), entries, ring, with)
STAND(int, __io_uring_get_cqe, submit, -errno,
      (struct io_uring *ring, struct io_uring_cqe **at, unsigned submit, unsigned wait, void *mask),
      ring, at, submit, wait, mask)
/* clang-format on */

static bool kernel_injects(void)
{
    struct utsname system;
    int version = 0, level = 0;
    return !uname(&system) && sscanf(system.release, "%d.%d", &version, &level) == 2 &&
           (version > 6 || (version == 6 && level >= 10));
}

/* Gives the operation errno as its result. */
static void fail_flight(struct io_uring_sqe *sqe)
{
    uint64_t name = sqe->user_data;
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = IORING_OP_NOP;
    sqe->rw_flags = INJECT_RESULT;
    sqe->len = (unsigned)-errno;
    sqe->user_data = name;
}

/* Looks at the operations that the ring has not been given yet. */
static void take_off(struct io_uring *ring, const void *caller)
{
    struct io_uring_sq *queue = &ring->sq;
    for (unsigned at = queue->sqe_head; kernel_injects() && at != queue->sqe_tail; at++) {
        struct io_uring_sqe *sqe = &queue->sqes[at & queue->ring_mask];
        bool flies = sqe->opcode == IORING_OP_SENDMSG || sqe->opcode == IORING_OP_RECVMSG;
        if (flies && failing_fails(FAILING_flight, caller))
            fail_flight(sqe);
    }
}

/* An operation that is not taken now is looked at again with the next call: fails first. */
int in_front_submit(struct io_uring *ring) __asm__("io_uring_submit")
    __attribute__((visibility("default")));
int in_front_submit(struct io_uring *ring)
{
    static int (*real)(struct io_uring *);
    if (!real)
        *(void **)&real = failing_next("io_uring_submit");
    if (failing_fails(FAILING_submit, __builtin_return_address(0)))
        return -errno;
    take_off(ring, __builtin_return_address(0));
    return real(ring);
}

int in_front_submit_and_wait(struct io_uring *ring,
                             unsigned wait) __asm__("io_uring_submit_and_wait")
    __attribute__((visibility("default")));
int in_front_submit_and_wait(struct io_uring *ring, unsigned wait)
{
    static int (*real)(struct io_uring *, unsigned);
    if (!real)
        *(void **)&real = failing_next("io_uring_submit_and_wait");
    if (failing_fails(FAILING_submit, __builtin_return_address(0)))
        return -errno;
    take_off(ring, __builtin_return_address(0));
    return real(ring, wait);
}
