/* Jobs with a planted fault. A slow core is one that the rank shares with a process that is
 * preferred there; a slow link is one that the kernel paces. */
#include "program/cli/hurt.h"

#include "rig/test.h"

#include <dirent.h>
#include <gyre/gyre.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LARGE      16384       /* elements of an all-reduce of a job that is to be slow */
#define SLOW_CALLS 12          /* with a slow core or link, before anybody asks */
#define SLOW_RATE  (256 << 10) /* of a slow link of two ranks, bytes a second */

const char *const fault_word[FAULTS] = {"killed",       "stopped",   "wrong count", "wrong order",
                                        "missing call", "slow core", "slow link"};

struct rig hurt_job, hurt_asked;
char hurt_folder[512];

/* -- a rank ------------------------------------------------------------------------------------ */

static float data[LARGE], sums[LARGE];

/* The calls in turn: all-reduce, all-gather, all-reduce of another length, barrier.
 * In each of them every rank waits for all others. */
static int make_call(struct gyre_comm *comm, int turn, uint64_t more)
{
    switch (turn % 4) {
    case 0:
        return gyre_barrier(comm);
    case 1:
        return gyre_all_reduce(comm, data, sums, 8 + more, GYRE_F32, GYRE_SUM);
    case 2:
        return gyre_all_gather(comm, data, sums, 2 + more, GYRE_F32);
    default:
        return gyre_all_reduce(comm, data, sums, 32 + more, GYRE_F32, GYRE_MAX);
    }
}

static void tell_victim(void)
{
    printf("victim %d\n", (int)getpid());
    fflush(stdout);
}

static int make_hurt_call(struct gyre_comm *comm, const struct plant *plant)
{
    tell_victim();
    if (plant->fault == KILLED)
        raise(SIGKILL);
    if (plant->fault == STOPPED)
        raise(SIGSTOP);
    if (plant->fault == MISSING)
        for (;;)
            pause();
    return make_call(comm, plant->call + (plant->fault == ORDER), plant->fault == COUNT);
}

static int make_calls(struct gyre_comm *comm, const struct plant *plant, bool hurt)
{
    int status = 0;
    for (int call = 1; !status; call++)
        status =
            hurt && call == plant->call ? make_hurt_call(comm, plant) : make_call(comm, call, 0);
    return status;
}

/* -- a slow rank ------------------------------------------------------------------------------- */

/* Computes for so many milliseconds of this thread's processor time. */
static void compute(long ms)
{
    struct timespec now, from;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < ms * 1000000);
}

static int make_long_call(struct gyre_comm *comm, int turn)
{
    switch (turn % 3) {
    case 0:
        return gyre_all_gather(comm, data, sums, LARGE / 16, GYRE_F32);
    case 1:
        return gyre_all_reduce(comm, data, sums, LARGE, GYRE_F32, GYRE_SUM);
    default:
        return gyre_all_reduce(comm, data, sums, LARGE / 2, GYRE_F32, GYRE_MAX);
    }
}

/* Another process takes this rank's core, and is preferred there. It ends with the rank. */
static void share_core(void)
{
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_range(STDERR_FILENO + 1, ~0U, 0);
        for (;;)
            ;
    }
    setpriority(PRIO_PROCESS, 0, 19);
}

/* The kernel sends slowly on every TCP connection of this process. Of many ranks each sends to
 * several at a time. */
static void slow_links(const struct plant *plant)
{
    const unsigned rate = SLOW_RATE / (1 + (unsigned)plant->ranks / 3);
    for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
        setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
}

static int make_long_calls(struct gyre_comm *comm, const struct plant *plant, bool hurt)
{
    int status = 0;
    for (int call = 1; !status; call++) {
        if (hurt && call == plant->call) {
            tell_victim();
            if (plant->fault == CORE)
                share_core();
            else
                slow_links(plant);
        }
        if (hurt && call == plant->call + SLOW_CALLS) {
            puts("slow for long");
            fflush(stdout);
        }
        compute(plant->fault == CORE ? 2 : 1);
        status = make_long_call(comm, call);
    }
    return status;
}

/* -- both faces of the program ----------------------------------------------------------------- */

static void tell_own_handler(int number)
{
    (void)number;
    if (write(STDOUT_FILENO, "handler of its own\n", 19) != 19)
        _exit(1);
}

int hurt_become_rank(int argc, char **argv)
{
    struct gyre_comm *comm;
    if (argc != 5)
        return -1;
    const struct plant plant = {.fault = (enum fault)atoi(argv[1]),
                                .ranks = atoi(argv[2]),
                                .victim = atoi(argv[3]),
                                .call = atoi(argv[4])};
    if (getenv("OWN_HANDLER"))
        signal(SIGUSR2, tell_own_handler);
    if (gyre_init(&comm, NULL))
        return 1;
    const bool hurt = gyre_rank(comm) == plant.victim;
    (plant.fault < CORE ? make_calls : make_long_calls)(comm, &plant, hurt);
    gyre_finalize(comm);
    return 1;
}

static char self[4096];

bool hurt_prepare(void)
{
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    snprintf(hurt_folder, sizeof hurt_folder, "%s/dumps", rig_folder());
    return length > 0 && !mkdir(hurt_folder, 0700) && !setenv("GYRE_DUMP", hurt_folder, 1);
}

const char *hurt_program(void)
{
    return self;
}

/* -- one fault --------------------------------------------------------------------------------- */

static void empty_folder(void)
{
    char path[1024];
    const struct dirent *entry;
    DIR *dumps = opendir(hurt_folder);
    assert_non_null(dumps);
    while ((entry = readdir(dumps))) {
        snprintf(path, sizeof path, "%s/%s", hurt_folder, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    closedir(dumps);
}

void hurt_start(const struct plant *plant, const char *dead_time)
{
    char number[5][16];
    const int of[5] = {(int)plant->fault, plant->ranks, plant->victim, plant->call, plant->ranks};
    for (int i = 0; i < 5; i++)
        snprintf(number[i], sizeof number[i], "%d", of[i]);
    empty_folder();
    setenv("GYRE_DEAD_TIME", dead_time, 1);
    setenv("GYRE_TRANSPORT", plant->tcp ? "tcp" : "auto", 1);
    char nodes[20];
    snprintf(nodes, sizeof nodes, "%dx1", plant->ranks);
    if (plant->alone)
        rig_start(&hurt_job, WORDS("-n", number[4], "--simulate-nodes", nodes, "--", self,
                                   number[0], number[1], number[2], number[3]));
    else
        rig_start(&hurt_job,
                  WORDS("-n", number[4], "--", self, number[0], number[1], number[2], number[3]));
}

int hurt_victim(void)
{
    rig_wait_for(&hurt_job, "victim ");
    return atoi(strstr(hurt_job.out_text, "victim ") + 7);
}

void hurt_ask(const char *where)
{
    rig_run(&hurt_asked, NULL, (const char *const[]){"why", "--json", where, NULL});
}

bool hurt_names_rank(const struct plant *plant)
{
    char text[32];
    snprintf(text, sizeof text, ",\"rank\":%d,", plant->victim);
    const char *kind = strstr(hurt_asked.out_text, "\"kind\":");
    return kind && strchr(kind, ',') && !strncmp(strchr(kind, ','), text, strlen(text));
}

bool hurt_names_call(const struct plant *plant)
{
    char text[32];
    snprintf(text, sizeof text, "\"number\":%d,", plant->call);
    return plant->fault >= CORE || rig_has(hurt_asked.out_text, text);
}

bool hurt_names_kind(const struct plant *plant)
{
    char text[64];
    snprintf(text, sizeof text, "\"kind\":\"%s\"", fault_word[plant->fault]);
    return rig_has(hurt_asked.out_text, text);
}

static bool is_named(const struct plant *plant)
{
    return hurt_names_kind(plant) && hurt_names_rank(plant) && hurt_names_call(plant);
}

/* Asks a living job until the fault shows: whoever is starved may look stopped for a while. */
static void ask_living(const struct plant *plant, bool until_named)
{
    char process[16];
    snprintf(process, sizeof process, "%d", hurt_victim());
    if (plant->fault >= CORE)
        rig_wait_for(&hurt_job, "slow for long");
    for (;;) {
        hurt_ask(process);
        if (until_named ? is_named(plant) : hurt_asked.code != 0)
            return;
        rig_end(&hurt_asked);
        usleep(20000);
    }
}

void hurt_end_living(void)
{
    rig_signal(&hurt_job, SIGKILL);
    rig_wait_end(&hurt_job);
    rig_wait_lifeless(&hurt_job);
}

void hurt_plant(const struct plant *plant, bool until_named)
{
    const bool lives = plant->fault == STOPPED || plant->fault >= MISSING;
    hurt_start(plant, lives ? "0" : "20s");
    if (lives) {
        ask_living(plant, until_named);
        hurt_end_living();
    } else {
        rig_wait_end(&hurt_job);
        hurt_ask(hurt_folder);
    }
    rig_end(&hurt_job);
}
