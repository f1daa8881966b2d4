/* A libc whose n-th call of a kind fails: each function here stands in front of libc's by
 * LD_PRELOAD, counts the call in the book, and fails or passes it on. failing_rings.c stands in
 * front of liburing, which enters the kernel without a function of libc. */
#include "stand_in/failing_inside.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static struct failing_book *book;
static __thread int inside; /* this file's own calls do not count, */
static int in_main;         /* nor what libraries do before main() */

void *failing_next(const char *name)
{
    inside++;
    void *function = dlsym(RTLD_NEXT, name);
    inside--;
    return function;
}

__attribute__((constructor)) static void open_book(void)
{
    void *warm[1];
    backtrace(warm, 1); /* loads what it needs, which allocates */
    book = failing_book_open(getenv("FAILING_CALLS"));
    if (book && strcmp(book->program, program_invocation_short_name) != 0)
        book = NULL;
}

/* Who called: for the report of a test that found the call badly taken. */
static void note_callers(void)
{
    void *caller[FAILING_DEPTH + 2] = {NULL};
    Dl_info first = {0}, info;
    int depth = backtrace(caller, FAILING_DEPTH + 2);
    for (int i = 2; i < depth; i++) {
        if (!dladdr(caller[i], &info) || !info.dli_fname)
            continue;
        if (!first.dli_fname) {
            first = info;
            snprintf(book->module, sizeof book->module, "%s", info.dli_fname);
        }
        book->caller[i - 2] = info.dli_fbase == first.dli_fbase
                                  ? (uint64_t)((char *)caller[i] - (char *)info.dli_fbase)
                                  : 0;
    }
}

static int is_of_foreign_library(const void *caller)
{
    static const char *const names[] = {"libcrypto", "openblas", "libblas", "libgfortran"};
    Dl_info info = {0};
    int found = 0;
    inside++;
    if (dladdr(caller, &info) && info.dli_fname)
        for (int i = 0; i < 4; i++)
            found |= strstr(info.dli_fname, names[i]) != NULL;
    inside--;
    return found;
}

/* libcrypto 3.0, OpenBLAS and what it brings crash or exit where their own memory ends, which no
 * caller can mend: their calls go on. dladdr() reads all symbols of a library, thousands of times
 * while libcrypto starts, so callers are remembered: an address, and in its highest bit whether it
 * is foreign. */
static int is_foreign(const void *caller)
{
    static _Atomic uintptr_t known[4096];
    const uintptr_t foreign = (uintptr_t)1 << 63, address = (uintptr_t)caller;
    _Atomic uintptr_t *slot = &known[address % 4096];
    uintptr_t found = *slot;
    if ((found & ~foreign) != address) {
        found = is_of_foreign_library(caller) ? address | foreign : address;
        *slot = found;
    }
    return (found & foreign) != 0;
}

int failing_fails(enum failing_call call, const void *caller)
{
    if (!in_main || !book || !book->armed || inside || is_foreign(caller))
        return 0;
    int number = ++book->count[call];
    if ((int)call != book->call || number < book->n || (number > book->n && !book->sticky))
        return 0;
    inside++;
    if (book->failed++ == 0)
        note_callers();
    inside--;
    errno = book->error;
    return 1;
}

/* clang-format off */
STAND(void *, malloc, memory, NULL, (size_t bytes), bytes)
STAND(void *, calloc, memory, NULL, (size_t items, size_t bytes), items, bytes)
STAND(void *, realloc, memory, NULL, (void *at, size_t bytes), at, bytes)
STAND(void *, aligned_alloc, memory, NULL, (size_t alignment, size_t bytes), alignment, bytes)
STAND(int, posix_memalign, memory, errno, (void **at, size_t alignment, size_t bytes),
      at, alignment, bytes)
STAND(void *, mmap, map, MAP_FAILED,
      (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
      at, bytes, protection, flags, fd, offset)
STAND(void *, mmap64, map, MAP_FAILED,
      (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
      at, bytes, protection, flags, fd, offset)
STAND(int, mprotect, mprotect, -1, (void *at, size_t bytes, int protection), at, bytes, protection)
STAND(int, pthread_create, thread, errno,
      (pthread_t *thread, const pthread_attr_t *with, void *(*start)(void *), void *argument),
      thread, with, start, argument)
STAND(ssize_t, read, read, -1, (int fd, void *at, size_t bytes), fd, at, bytes)
STAND(ssize_t, pread64, pread, -1, (int fd, void *at, size_t bytes, off_t from),
      fd, at, bytes, from)
STAND(ssize_t, write, write, -1, (int fd, const void *at, size_t bytes), fd, at, bytes)
STAND(ssize_t, pwrite64, pwrite, -1, (int fd, const void *at, size_t bytes, off_t to),
      fd, at, bytes, to)
STAND(ssize_t, send, send, -1, (int fd, const void *at, size_t bytes, int flags),
      fd, at, bytes, flags)
STAND(ssize_t, recv, recv, -1, (int fd, void *at, size_t bytes, int flags), fd, at, bytes, flags)
STAND(ssize_t, sendmsg, sendmsg, -1, (int fd, const struct msghdr *message, int flags),
      fd, message, flags)
STAND(ssize_t, recvmsg, recvmsg, -1, (int fd, struct msghdr *message, int flags),
      fd, message, flags)
STAND(int, socket, socket, -1, (int family, int type, int protocol), family, type, protocol)
STAND(int, socketpair, socketpair, -1, (int family, int type, int protocol, int *pair),
      family, type, protocol, pair)
STAND(int, bind, bind, -1, (int fd, const struct sockaddr *at, socklen_t length), fd, at, length)
STAND(int, listen, listen, -1, (int fd, int most), fd, most)
STAND(int, connect, connect, -1, (int fd, const struct sockaddr *to, socklen_t length),
      fd, to, length)
STAND(int, accept4, accept4, -1, (int fd, struct sockaddr *from, socklen_t *length, int flags),
      fd, from, length, flags)
STAND(int, getsockname, getsockname, -1, (int fd, struct sockaddr *at, socklen_t *length),
      fd, at, length)
STAND(int, getpeername, getpeername, -1, (int fd, struct sockaddr *at, socklen_t *length),
      fd, at, length)
STAND(int, getsockopt, getsockopt, -1,
      (int fd, int level, int name, void *value, socklen_t *length), fd, level, name, value, length)
STAND(int, setsockopt, setsockopt, -1,
      (int fd, int level, int name, const void *value, socklen_t length),
      fd, level, name, value, length)
STAND(int, epoll_create1, epoll_create1, -1, (int flags), flags)
STAND(int, epoll_ctl, epoll_ctl, -1, (int fd, int what, int of, struct epoll_event *event),
      fd, what, of, event)
STAND(int, epoll_wait, epoll_wait, -1, (int fd, struct epoll_event *event, int most, int wait_ms),
      fd, event, most, wait_ms)
STAND(int, poll, poll, -1, (struct pollfd *fds, nfds_t count, int wait_ms), fds, count, wait_ms)
STAND(int, ppoll, ppoll, -1,
      (struct pollfd *fds, nfds_t count, const struct timespec *wait, const sigset_t *set),
      fds, count, wait, set)
STAND(int, eventfd, eventfd, -1, (unsigned value, int flags), value, flags)
STAND(int, signalfd, signalfd, -1, (int fd, const sigset_t *set, int flags), fd, set, flags)
STAND(int, memfd_create, memfd_create, -1, (const char *name, unsigned flags), name, flags)
STAND(int, ftruncate64, ftruncate, -1, (int fd, off_t length), fd, length)
STAND(int, fallocate64, fallocate, -1, (int fd, int mode, off_t from, off_t length),
      fd, mode, from, length)
STAND(int, posix_fallocate64, fallocate, errno, (int fd, off_t from, off_t length),
      fd, from, length)
STAND(int, fstat64, fstat, -1, (int fd, struct stat *status), fd, status)
STAND(int, fsync, fsync, -1, (int fd), fd)
STAND(int, rename, rename, -1, (const char *from, const char *to), from, to)
STAND(int, renameat2, renameat2, -1,
      (int in, const char *from, int at, const char *to, unsigned flags), in, from, at, to, flags)
STAND(int, mkdir, mkdir, -1, (const char *path, mode_t mode), path, mode)
STAND(int, unlinkat, unlinkat, -1, (int in, const char *name, int flags), in, name, flags)
STAND(void *, opendir, opendir, NULL, (const char *path), path)
STAND(void *, fdopendir, fdopendir, NULL, (int fd), fd)
STAND(int, pipe2, pipe2, -1, (int *pair, int flags), pair, flags)
STAND(int, fork, fork, -1, (void))
STAND(int, posix_spawn, spawn, errno,
      (pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
       const posix_spawnattr_t *with, char *const *words, char *const *variables),
      pid, path, actions, with, words, variables)
STAND(int, execvp, execvp, -1, (const char *path, char *const *words), path, words)
STAND(int, dup2, dup2, -1, (int from, int to), from, to)
STAND(ssize_t, getrandom, getrandom, -1, (void *at, size_t bytes, unsigned flags),
      at, bytes, flags)
STAND(int, getaddrinfo, getaddrinfo, EAI_MEMORY,
      (const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **list),
      host, port, hints, list)
STAND(int, getifaddrs, getifaddrs, -1, (void **list), list)
STAND(int, gethostname, gethostname, -1, (char *name, size_t room), name, room)
STAND(ssize_t, process_vm_readv, process_vm_readv, -1,
      (pid_t pid, const struct iovec *here, unsigned long here_count, const struct iovec *there,
       unsigned long there_count, unsigned long flags),
      pid, here, here_count, there, there_count, flags)
STAND(int, sched_setaffinity, sched_setaffinity, -1, (pid_t pid, size_t bytes, const void *set),
      pid, bytes, set)
STAND(void *, fopen64, file, NULL, (const char *path, const char *mode), path, mode)
/* clang-format on */

/* What a library does while it is loaded is its own. */
void *in_front_dlopen(const char *path, int flags) __asm__("dlopen")
    __attribute__((visibility("default")));
void *in_front_dlopen(const char *path, int flags)
{
    static void *(*real)(const char *, int);
    if (!real)
        *(void **)&real = failing_next("dlopen");
    inside++;
    void *library = real(path, flags);
    inside--;
    return library;
}

typedef int main_function(int, char **, char **);

static main_function *main_behind;

static int main_in_front(int count, char **words, char **variables)
{
    in_main = 1;
    return main_behind(count, words, variables);
}

int in_front_start(main_function *run, int count, char **words, void (*init)(void),
                   void (*fini)(void), void (*end)(void), void *stack) __asm__("__libc_start_main")
    __attribute__((visibility("default")));
int in_front_start(main_function *run, int count, char **words, void (*init)(void),
                   void (*fini)(void), void (*end)(void), void *stack)
{
    int (*real)(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void),
                void *);
    *(void **)&real = failing_next("__libc_start_main");
    main_behind = run;
    return real(main_in_front, count, words, init, fini, end, stack);
}

/* Those with an argument that may be missing: one that is passed on although nobody gave it harms
 * nobody. */
#define STAND_OPEN(name)                                                                           \
    int in_front_##name(const char *path, int flags, ...) __asm__(#name)                           \
        __attribute__((visibility("default")));                                                    \
    int in_front_##name(const char *path, int flags, ...)                                          \
    {                                                                                              \
        static int (*real)(const char *, int, ...);                                                \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = va_arg(rest, mode_t);                                                        \
        va_end(rest);                                                                              \
        if (!real)                                                                                 \
            *(void **)&real = failing_next(#name);                                                 \
        return failing_fails(FAILING_file, __builtin_return_address(0)) ? -1                       \
                                                                        : real(path, flags, mode); \
    }

STAND_OPEN(open)
STAND_OPEN(open64)

int in_front_openat64(int in, const char *path, int flags, ...) __asm__("openat64")
    __attribute__((visibility("default")));
int in_front_openat64(int in, const char *path, int flags, ...)
{
    static int (*real)(int, const char *, int, ...);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    if (!real)
        *(void **)&real = failing_next("openat64");
    return failing_fails(FAILING_file, __builtin_return_address(0)) ? -1
                                                                    : real(in, path, flags, mode);
}

int in_front_fcntl64(int fd, int command, ...) __asm__("fcntl64")
    __attribute__((visibility("default")));
int in_front_fcntl64(int fd, int command, ...)
{
    static int (*real)(int, int, ...);
    va_list rest;
    va_start(rest, command);
    long argument = va_arg(rest, long);
    va_end(rest);
    if (!real)
        *(void **)&real = failing_next("fcntl64");
    return failing_fails(FAILING_fcntl, __builtin_return_address(0)) ? -1
                                                                     : real(fd, command, argument);
}

long in_front_syscall(long number, ...) __asm__("syscall") __attribute__((visibility("default")));
long in_front_syscall(long number, ...)
{
    static long (*real)(long, ...);
    long word[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        word[i] = va_arg(rest, long);
    va_end(rest);
    if (!real)
        *(void **)&real = failing_next("syscall");
    if (number != SYS_futex &&
        failing_fails(FAILING_syscall,
                      __builtin_return_address(0))) /* a futex has no typical failure */
        return -1;
    return real(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}
