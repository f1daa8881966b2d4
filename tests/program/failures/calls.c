/* Every allocation and system call of a scene fails: the first of its kind, then the second, and on
 * until there are no more; once, and from then on. Each time the scene ends within a bound, either
 * with the results of a run in which nothing fails, or with a sentence on every rank, and leaves no
 * descriptor, file, shared memory or process behind.
 *
 *     for scene, kind of call, errno, victim, once or for good:
 *         for n = 1, 2, 3 …  until the n-th is never called
 *             [rank 0]  [rank 1 with failing_calls.so and a book: call, n]  ─▶ ends ─▶ judged
 *
 * `./do test` takes a sample. `tests/program_failures_calls --all` tries every case, in minutes to
 * an hour, and `--all SCENE [TRANSPORT [CALL]]` a part of them. `--one SCENE TRANSPORT CALL N ERRNO
 * STICKY VICTIM` repeats one case and shows what was said. */
#include "program/failures/calls_run.h"
#include "program/failures/calls_work.h"
#include "rig/haste.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLED_MS    10000 /* of ./do test, */
#define SAMPLED_LEAST 6     /* and more where the machine is busy */

/* Which kind fails with what; 0 ends the list. EINTR and EAGAIN are no failures: all goes on. */
static const struct kind {
    enum failing_call call;
    int error[3];
} kinds[] = {
    {FAILING_memory, {ENOMEM}},
    {FAILING_map, {ENOMEM, EPERM}},
    {FAILING_thread, {EAGAIN}},
    {FAILING_file, {EMFILE, EACCES}},
    {FAILING_read, {EIO, EINTR}},
    {FAILING_pread, {EIO, EINTR}},
    {FAILING_write, {ENOSPC, EINTR}},
    {FAILING_pwrite, {ENOSPC, EINTR}},
    {FAILING_send, {ECONNRESET, EINTR, ENOBUFS}},
    {FAILING_sendmsg, {ECONNRESET, EINTR, EAGAIN}},
    {FAILING_recv, {ECONNRESET, EINTR, EAGAIN}},
    {FAILING_recvmsg, {ECONNRESET, EINTR, EAGAIN}},
    {FAILING_socket, {EMFILE}},
    {FAILING_socketpair, {EMFILE}},
    {FAILING_bind, {EADDRINUSE}},
    {FAILING_listen, {EADDRINUSE}},
    {FAILING_connect, {ECONNREFUSED, EADDRNOTAVAIL}},
    {FAILING_accept4, {EMFILE, ECONNABORTED, EINTR}},
    {FAILING_getsockname, {ENOBUFS}},
    {FAILING_getpeername, {ENOTCONN}},
    {FAILING_getsockopt, {ENOBUFS}},
    {FAILING_setsockopt, {ENOMEM, EPERM}},
    {FAILING_epoll_create1, {EMFILE}},
    {FAILING_epoll_ctl, {ENOSPC}},
    {FAILING_epoll_wait, {EINTR}},
    {FAILING_poll, {EINTR, ENOMEM}},
    {FAILING_ppoll, {EINTR}},
    {FAILING_eventfd, {EMFILE}},
    {FAILING_signalfd, {EMFILE}},
    {FAILING_memfd_create, {EMFILE, EPERM}},
    {FAILING_ftruncate, {ENOSPC}},
    {FAILING_fallocate, {ENOSPC, EINTR}},
    {FAILING_fstat, {EIO}},
    {FAILING_fcntl, {EPERM}},
    {FAILING_fsync, {EIO}},
    {FAILING_rename, {ENOSPC}},
    {FAILING_renameat2, {ENOSPC}},
    {FAILING_mkdir, {ENOSPC}},
    {FAILING_unlinkat, {EACCES}},
    {FAILING_opendir, {EMFILE}},
    {FAILING_fdopendir, {ENOMEM}},
    {FAILING_pipe2, {EMFILE}},
    {FAILING_fork, {EAGAIN}},
    {FAILING_spawn, {EAGAIN}},
    {FAILING_execvp, {ENOENT}},
    {FAILING_dup2, {EMFILE}},
    {FAILING_getrandom, {EINTR, ENOSYS}},
    {FAILING_getaddrinfo, {ENOMEM}},
    {FAILING_getifaddrs, {ENOMEM}},
    {FAILING_gethostname, {EPERM}},
    {FAILING_syscall, {EPERM}},
    {FAILING_process_vm_readv, {EPERM}},
    {FAILING_sched_setaffinity, {EPERM}},
    {FAILING_mprotect, {ENOMEM}},
    {FAILING_ring, {ENOMEM, EPERM}},
    {FAILING_submit, {ENOMEM, EAGAIN, EINTR}},
    {FAILING_flight, {ECONNRESET, ENOBUFS, EINTR}},
};

#define KINDS ((int)(sizeof kinds / sizeof *kinds))

static struct calls_scene scenes[] = {
    {.name = "init", .transport = "shm", .ranks = 2},
    {.name = "init", .transport = "tcp", .ranks = 2},
    {.name = "calls", .transport = "shm", .ranks = 2},
    {.name = "calls", .transport = "tcp", .ranks = 2},
    {.name = "memory", .transport = "shm", .ranks = 2},
    {.name = "memory", .transport = "tcp", .ranks = 2},
    {.name = "apart", .transport = "shm", .ranks = 2},
    {.name = "apart", .transport = "tcp", .ranks = 2},
    {.name = "ddp", .transport = "shm", .ranks = 2},
    {.name = "ddp", .transport = "tcp", .ranks = 2},
    {.name = "shrink", .transport = "shm", .ranks = 3, .lost = 1},
    {.name = "shrink", .transport = "tcp", .ranks = 3, .lost = 1},
    {.name = "regroup", .transport = "shm", .ranks = 3, .lost = 1},
    {.name = "regroup", .transport = "tcp", .ranks = 3, .lost = 1},
    {.name = "grow", .transport = "shm", .ranks = 3, .new_ones = 1},
    {.name = "grow", .transport = "tcp", .ranks = 3, .new_ones = 1},
    {.name = "folder", .transport = "shm", .ranks = 2},
    {.name = "folder", .transport = "tcp", .ranks = 2},
    {.name = "store", .transport = "shm", .ranks = 2},
    {.name = "in_process", .transport = "shm", .ranks = 2},
    {.name = "in_process", .transport = "tcp", .ranks = 2},
    {.name = "first_use", .transport = "shm", .ranks = 3, .setting = {"GYRE_LINKS_AT_ONCE", "1"}},
    {.name = "first_use", .transport = "tcp", .ranks = 3, .setting = {"GYRE_LINKS_AT_ONCE", "1"}},
    {.name = "checkpoint", .transport = "shm", .ranks = 2},
    {.name = "data", .transport = "shm", .ranks = 1},
    {.name = "run",
     .transport = "shm",
     .words = {"run", "-n", "2", "sh", "-c", "[ $RANK = 1 ] || echo here"}},
    {.name = "restarts",
     .transport = "shm",
     .words = {"run", "-n", "2", "--restarts", "1", "--restart-pause", "0", "sh", "-c",
               "[ $GYRE_EPOCH = 1 ] || exit 1; [ $RANK = 1 ] || echo here"}},
    {.name = "elastic",
     .transport = "shm",
     .words = {"run", "-n", "2", "--elastic", "1", "sh", "-c",
               "[ $RANK = 1 ] && exit 3; echo here"}},
    {.name = "hosts",
     .transport = "shm",
     .far = true,
     .words = {"run", "--hosts", "a:1,b:1", "sh", "-c", "[ $RANK = 1 ] || echo here"}},
    {.name = "train",
     .transport = "shm",
     .words = {"train", "--preset", "wine", "--ranks", "2", "--epochs", "1", "--quiet", "--save",
               CALLS_FOLDER "/save"}},
};

#define SCENES ((int)(sizeof scenes / sizeof *scenes))

static struct tally {
    int once, for_good, right, told, bad;
} tally[SCENES][KINDS];

static int bad;

static struct calls_scene *find_scene(const char *name, const char *transport)
{
    for (int s = 0; s < SCENES; s++)
        if (!strcmp(scenes[s].name, name) && !strcmp(scenes[s].transport, transport))
            return &scenes[s];
    return NULL;
}

static enum calls_verdict try(const struct calls_scene *scene, const struct calls_case *fault)
{
    int s = (int)(scene - scenes), k = 0;
    enum calls_verdict verdict = calls_try(scene, fault);
    while (kinds[k].call != fault->call)
        k++;
    struct tally *row = &tally[s][k];
    row->once += verdict != CALLS_NEVER_CALLED && !fault->sticky;
    row->for_good += verdict != CALLS_NEVER_CALLED && fault->sticky;
    row->right += verdict == CALLS_ALL_RIGHT;
    row->told += verdict == CALLS_ALL_TOLD;
    row->bad += verdict == CALLS_BAD;
    bad += verdict == CALLS_BAD;
    return verdict;
}

static void print_head(void)
{
    printf("| scene | call | once | for good | right | told | bad |\n"
           "| --- | --- | --- | --- | --- | --- | --- |\n");
    fflush(stdout);
}

static void print_row(int s, int k)
{
    const struct tally *row = &tally[s][k];
    if (row->once + row->for_good)
        printf("| %s, %s | %s | %d | %d | %d | %d | %d |\n", scenes[s].name, scenes[s].transport,
               calls_word(kinds[k].call), row->once, row->for_good, row->right, row->told,
               row->bad);
    fflush(stdout);
}

/* n counts on in ones, and in longer strides where a call is made thousands of times. */
static int further(int n)
{
    return n < 60 ? n + 1 : n + n / 8;
}

/* A call that is interrupted for ever is no machine's, nor a poll() of one descriptor without
 * memory. */
static bool may_last(enum failing_call call, int error)
{
    bool makes = call == FAILING_thread || call == FAILING_fork || call == FAILING_spawn;
    return call != FAILING_poll && (makes || (error != EINTR && error != EAGAIN));
}

/* The tool reads pipes, which have no EIO; the first messages of a socket find its buffer empty. */
static bool may_be(const struct calls_scene *scene, enum failing_call call, int error)
{
    static const char joining[] = " init apart grow folder store in_process first_use train ";
    const bool joins = strstr(joining, scene->name) || scene->lost;
    if (joins && call == FAILING_sendmsg && error == EAGAIN)
        return false;
    return scene->ranks || call != FAILING_read || error != EIO;
}

/* The ranks, or tools, whose calls fail: not those that are lost. */
static int victims(const struct calls_scene *scene)
{
    return scene->ranks ? scene->ranks - scene->lost : scene->far ? 2 : 1;
}

static void sweep(const struct calls_scene *scene, enum failing_call call, int error, int sticky)
{
    for (int victim = 0; victim < victims(scene); victim++)
        for (int n = 1;; n = further(n)) {
            struct calls_case fault = {call, n, error, sticky, victim, NULL};
            if (try(scene, &fault) == CALLS_NEVER_CALLED)
                break;
        }
}

static void sweep_kind(const struct calls_scene *scene, const struct kind *kind)
{
    for (int e = 0; e < 3 && kind->error[e]; e++)
        if (may_be(scene, kind->call, kind->error[e]))
            for (int sticky = 0; sticky <= may_last(kind->call, kind->error[e]); sticky++)
                sweep(scene, kind->call, kind->error[e], sticky);
}

/* Does any rank make calls of the kind? */
static bool calls_any(int count[CALLS_RANKS][FAILING_KINDS], enum failing_call call)
{
    bool any = false;
    for (int victim = 0; victim < CALLS_RANKS; victim++)
        any = any || count[victim][call];
    return any;
}

/* Sweeps the kinds that any rank calls, or one of them. */
static void sweep_kinds(struct calls_scene *scene, const char *only)
{
    int count[CALLS_RANKS][FAILING_KINDS] = {{0}};
    for (int victim = 0; victim < victims(scene); victim++)
        calls_count(scene, victim, count[victim]);
    for (int k = 0; k < KINDS; k++)
        if (calls_any(count, kinds[k].call) &&
            (!only || !strcmp(only, calls_word(kinds[k].call)))) {
            sweep_kind(scene, &kinds[k]);
            print_row((int)(scene - scenes), k);
        }
}

/* Sweeps what the words name: a scene, its transport, a call. A missing word means all. */
static void sweep_all(int count, char **words)
{
    print_head();
    for (int s = 0; s < SCENES; s++)
        if ((count < 1 || !strcmp(words[0], scenes[s].name)) &&
            (count < 2 || !strcmp(words[1], scenes[s].transport)))
            sweep_kinds(&scenes[s], count < 3 ? NULL : words[2]);
}

/* Cases that were badly taken once: each is tried again. */
static const struct {
    const char *scene, *transport;
    struct calls_case fault;
} found[] = {
    {"shrink", "shm", {FAILING_memory, 4, ENOMEM, 0, 0, NULL}},    /* descriptor 0 was closed */
    {"shrink", "shm", {FAILING_epoll_ctl, 3, ENOSPC, 0, 0, NULL}}, /* one left open: the door, */
    {"shrink", "shm", {FAILING_epoll_ctl, 5, ENOSPC, 0, 0, NULL}}, /* and who came through it */
    {"hosts", "shm", {FAILING_write, 1, EINTR, 0, 0, NULL}},  /* the key was not written again */
    {"folder", "shm", {FAILING_write, 1, EINTR, 0, 0, NULL}}, /* nor the address of rank 0 */
    {"grow", "tcp", {FAILING_memory, 1, ENOMEM, 0, 1, NULL}}, /* told without its cause */
    /* The other process looked for rank 0 in vain. */
    {"in_process", "shm", {FAILING_thread, 2, EAGAIN, 0, 0, "no thread for each rank"}},
    /* What one thread had started on both ranks stood still. */
    {"in_process", "shm", {FAILING_thread, 4, EAGAIN, 1, 0, "no thread for each rank"}},
    {"checkpoint", "shm", {FAILING_memory, 7, ENOMEM, 0, 0, NULL}}, /* told without its cause */
    /* A group failed on one rank of a process, and gyre_error() of the other told nothing. */
    {"in_process", "tcp", {FAILING_sendmsg, 15, ECONNRESET, 0, 1, NULL}},
    {"in_process", "tcp", {FAILING_sendmsg, 18, ECONNRESET, 1, 0, NULL}},
};

static void try_found(void)
{
    int count[FAILING_KINDS];
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        struct calls_scene *scene = find_scene(found[i].scene, found[i].transport);
        calls_count(scene, found[i].fault.victim, count);
        try(scene, &found[i].fault);
    }
}

/* One case of each kind and scene in turn, by a fixed stride, until the time is over. */
static void sample(void)
{
    static int count[SCENES][FAILING_KINDS];
    static bool counted[SCENES];
    uint64_t end = calls_now_ms() + SAMPLED_MS;
    int tried = 0;
    for (unsigned i = 0; (calls_now_ms() < end || tried < SAMPLED_LEAST) && i < 100000; i++) {
        int s = (int)(i % SCENES), k = (int)(i * 7 / SCENES % KINDS);
        if (!counted[s])
            calls_count(&scenes[s], 0, count[s]);
        counted[s] = true;
        int most = count[s][kinds[k].call];
        if (!most)
            continue;
        try(&scenes[s], &(struct calls_case){kinds[k].call, 1 + (int)(i * 13 % (unsigned)most),
                                             kinds[k].error[0], 0, 0, NULL});
        tried++;
    }
    print_head();
    for (int s = 0; s < SCENES; s++)
        for (int k = 0; k < KINDS; k++)
            print_row(s, k);
    printf("%d cases of all: --all tries every one\n", tried);
}

static int one(char **words)
{
    struct calls_case fault = {FAILING_KINDS,  atoi(words[3]), atoi(words[4]),
                               atoi(words[5]), atoi(words[6]), NULL};
    for (int k = 0; k < FAILING_KINDS; k++)
        if (!strcmp(calls_word((enum failing_call)k), words[2]))
            fault.call = (enum failing_call)k;
    struct calls_scene *scene = find_scene(words[0], words[1]);
    if (scene) {
        int count[FAILING_KINDS];
        calls_count(scene, fault.victim, count);
        calls_shows_all = true;
        printf("%d calls; verdict %d\n", count[fault.call], (int)calls_try(scene, &fault));
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "--work"))
        return calls_work(argv[2], argv[3]);
    if (calls_prepare())
        return 77;
    if (argc == 9 && !strcmp(argv[1], "--one"))
        return one(argv + 2);
    if (argc > 1 && !strcmp(argv[1], "--all")) {
        sweep_all(argc - 2, argv + 2);
    } else {
        try_found();
        sample();
    }
    return bad != 0;
}
