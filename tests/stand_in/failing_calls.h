/* The book of a libc whose n-th call of one kind fails. A test writes down in a file which call
 * fails and with what; programs that run with failing_calls.so in LD_PRELOAD and the file's path in
 * FAILING_CALLS map it, count their calls in it, and fail the one that is written down. The book is
 * shared by a program and all that it starts, and outlives them. */
#ifndef GYRE_TESTS_STAND_IN_FAILING_CALLS_H
#define GYRE_TESTS_STAND_IN_FAILING_CALLS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FAILING_DEPTH 12 /* callers that are kept of the first call that failed */

/* Every call that can be made to fail. `memory` is malloc() and its kin, and `file` open() and its
 * kin, counted as one. Of io_uring, `ring` makes one, `submit` gives it operations or waits for
 * them, and a `flight` is a send or receive that it carries. */
/* clang-format off */
#define FAILING_CALLS(X) \
    X(memory) X(map) X(thread) X(file) X(read) X(pread) X(write) X(pwrite) X(send) X(sendmsg) \
    X(recv) X(recvmsg) X(socket) X(socketpair) X(bind) X(listen) X(connect) X(accept4) \
    X(getsockname) X(getpeername) X(getsockopt) X(setsockopt) X(epoll_create1) X(epoll_ctl) \
    X(epoll_wait) X(poll) X(ppoll) X(eventfd) X(signalfd) X(memfd_create) X(ftruncate) \
    X(fallocate) X(fstat) X(fcntl) X(fsync) X(rename) X(renameat2) X(mkdir) X(unlinkat) \
    X(opendir) X(fdopendir) X(pipe2) X(fork) X(spawn) X(execvp) X(dup2) X(getrandom) \
    X(getaddrinfo) X(getifaddrs) X(gethostname) X(syscall) X(process_vm_readv) \
    X(sched_setaffinity) X(mprotect) X(ring) X(submit) X(flight)

enum failing_call {
#define FAILING_CALL(name) FAILING_##name,
    FAILING_CALLS(FAILING_CALL)
#undef FAILING_CALL
    FAILING_KINDS
};
/* clang-format on */

struct failing_book {
    _Atomic int armed; /* calls count and fail while it is set */
    char program[16];  /* in a program of this name */
    int call, n, error, sticky;
    _Atomic int count[FAILING_KINDS];
    _Atomic int failed;             /* calls that did */
    char module[256];               /* of the first: the program or library of its caller, */
    uint64_t caller[FAILING_DEPTH]; /* and offsets in it, the innermost first, 0 elsewhere */
};

/* The book of this process; NULL: it has none. */
static inline struct failing_book *failing_book_open(const char *path)
{
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *book =
        fd < 0 ? MAP_FAILED
               : mmap(NULL, sizeof(struct failing_book), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return book == MAP_FAILED ? NULL : book;
}

#endif
