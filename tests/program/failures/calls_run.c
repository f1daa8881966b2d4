/* Processes of one run: started, waited for, and judged by their ends, their words and what is left
 * of them. */
#include "program/failures/calls_run.h"
#include "program/failures/calls_work.h"
#include "base/port.h"
#include "rig/clean_room.h"
#include "rig/sanitized.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define BOUND_MS 30000
#define TEXT     16384

#define NEWCOMERS_WAIT "1s" /* for ranks that may have failed */

struct process {
    pid_t pid;
    int out, err, code; /* exit code, 128 + signal; -1: did not end within the bound */
    char out_text[TEXT], err_text[TEXT];
};

struct run {
    struct process process[CALLS_RANKS];
    int count, life; /* `life` ends with the last process that any of them started */
    bool lives_on;
};

bool calls_shows_all;
static char folder[64] = "/tmp/gyre-calls-XXXXXX", module[4200], book_path[100], job[64];
static struct failing_book *book;
static int jobs;
static uint64_t bound_ms = BOUND_MS;
static bool patient; /* the run must succeed, however busy the machine is */

const char *calls_word(enum failing_call call)
{
#define WORD(name) #name,
    static const char *const words[] = {FAILING_CALLS(WORD)};
#undef WORD
    return call < FAILING_KINDS ? words[call] : "";
}

uint64_t calls_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* -- before the first run ---------------------------------------------------------------------- */

static void write_bytes(const char *name, const void *bytes, size_t length)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file))
        abort();
}

static void write_data(void)
{
    static const char csv[] = "a,b,label\n1,2,0\n3,4,1\n5,6,0\n";
    static const unsigned char images[16 + 12] = {0, 0, 8, 3, 0, 0, 0, 3, 0,
                                                  0, 0, 2, 0, 0, 0, 2, 7};
    static const unsigned char labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 1};
    write_bytes("table.csv", csv, sizeof csv - 1);
    write_bytes("images", images, sizeof images);
    write_bytes("labels", labels, sizeof labels);
}

/* Stands for ssh: the commands run here. The variables of the test reach the tool on host b only
 * where that is the victim. */
static void write_ssh(void)
{
    static const char script[] =
        "#!/bin/sh\n"
        "unset LD_PRELOAD\n"
        "[ \"$1\" = b ] && [ \"$CALLS_FAR\" ] && export LD_PRELOAD=\"$CALLS_FAR\"\n"
        "exec sh -c \"$2\"\n";
    char path[200];
    write_bytes("ssh", script, sizeof script - 1);
    snprintf(path, sizeof path, "%s/ssh", folder);
    if (chmod(path, 0700))
        abort();
    setenv("GYRE_SSH", path, 1);
}

/* This program is <build>/tests/NAME: a path from <build>. */
static void from_build(char *path, size_t room, const char *inside)
{
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        abort();
    for (int i = 0; i < 2; i++)
        *strrchr(self, '/') = 0;
    snprintf(path, room, "%s/%s", self, inside);
}

int calls_prepare(void)
{
#ifdef SANITIZED
    printf("skipped: a sanitizer stands in front of libc itself\n");
    return -1;
#endif
    const char *slow = getenv("GYRE_TEST_SLOW");
    if (slow)
        bound_ms *= (uint64_t)atoi(slow);
    clean_room_only_path();
    from_build(module, sizeof module, "tests/libfailing_calls.so");
    if (access(module, R_OK)) {
        printf("skipped: there is no %s\n", module);
        return -1;
    }
    if (clean_room_make(folder))
        abort();
    write_data();
    write_ssh();
    snprintf(book_path, sizeof book_path, "%s/book", folder);
    int fd = open(book_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *book))
        abort();
    close(fd);
    book = failing_book_open(book_path);
    return book ? 0 : -1;
}

/* -- a run ------------------------------------------------------------------------------------- */

static void put(const char *name, int value)
{
    char text[32];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_environment(const struct calls_scene *scene, int rank, int port)
{
    setenv("GYRE_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
    setenv("GYRE_JOB", job, 1);
    setenv("GYRE_TRANSPORT", scene->transport, 1);
    setenv("GYRE_JOIN_TIMEOUT", patient ? "20s" : "2s", 1);
    setenv("GYRE_DEAD_TIME", patient ? "10s" : "2s", 1);
    setenv("GYRE_TIMEOUT", "10s", 1);
    if (scene->setting[0])
        setenv(scene->setting[0], scene->setting[1], 1);
    if (scene->ranks < 2)
        return;
    put("MASTER_PORT", port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    const int members = scene->ranks - scene->new_ones;
    if (rank < members) {
        put("RANK", rank);
        put("WORLD_SIZE", members);
        put("LOCAL_RANK", rank);
        put("LOCAL_WORLD_SIZE", members);
    } else if (!patient) {
        setenv("GYRE_JOIN_TIMEOUT", NEWCOMERS_WAIT, 1);
    }
}

static void make_fail(const struct calls_scene *scene, int victim)
{
    setenv("FAILING_CALLS", book_path, 1);
    setenv(scene->far && victim ? "CALLS_FAR" : "LD_PRELOAD", module, 1);
}

static void become(const struct calls_scene *scene)
{
    static char path[4200], place[CALLS_WORDS][200];
    char *words[CALLS_WORDS + 2] = {path};
    if (scene->ranks) {
        execl("/proc/self/exe", "calls", "--work", scene->name, folder, (char *)NULL);
        _exit(99);
    }
    from_build(path, sizeof path, "gyre");
    for (int i = 0; i < CALLS_WORDS && scene->words[i]; i++) {
        bool inside = scene->words[i][0] == CALLS_FOLDER[0];
        snprintf(place[i], sizeof place[i], "%s%s", inside ? folder : "", scene->words[i] + inside);
        words[i + 1] = place[i];
    }
    execv(path, words);
    _exit(99);
}

static int text_file(void)
{
    char path[100];
    snprintf(path, sizeof path, "%s/said", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_TRUNC | O_APPEND, 0600);
    if (fd < 0)
        abort();
    unlink(path);
    return fd;
}

static void start(const struct calls_scene *scene, int rank, int victim, int port, int life,
                  struct process *process)
{
    process->out = text_file();
    process->err = text_file();
    process->pid = fork();
    if (process->pid)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    set_environment(scene, rank, port);
    if (rank == victim || scene->far)
        make_fail(scene, victim);
    dup2(process->out, STDOUT_FILENO);
    dup2(process->err, STDERR_FILENO);
    fcntl(life, F_SETFD, 0);
    become(scene);
}

static void wait_for(struct process *process, uint64_t end)
{
    int status, fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    struct pollfd ended = {fd, POLLIN, 0};
    uint64_t now = calls_now_ms();
    bool late = poll(&ended, 1, now < end ? (int)(end - now) : 0) <= 0;
    close(fd);
    if (late)
        kill(process->pid, SIGKILL);
    waitpid(process->pid, &status, 0);
    process->code = late ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void read_text(int fd, char *text)
{
    ssize_t length = pread(fd, text, TEXT - 1, 0);
    text[length > 0 ? length : 0] = 0;
    close(fd);
}

static void play(const struct calls_scene *scene, int victim, struct run *run)
{
    int life[2];
    uint16_t port;
    int keeper = gyre_port_reserve(&port);
    uint64_t end = calls_now_ms() + bound_ms;
    snprintf(job, sizeof job, "calls-%d-%d", (int)getpid(), jobs++);
    if (keeper < 0 || pipe2(life, O_CLOEXEC))
        abort();
    run->count = scene->ranks ? scene->ranks : 1;
    for (int i = 0; i < run->count; i++)
        start(scene, i, victim, port, life[1], &run->process[i]);
    close(life[1]);
    for (int i = 0; i < run->count; i++)
        wait_for(&run->process[i], end);
    struct pollfd ended = {life[0], POLLIN, 0};
    run->lives_on = poll(&ended, 1, 90000) != 1;
    close(life[0]);
    close(keeper);
    for (int i = 0; i < run->count; i++) {
        read_text(run->process[i].out, run->process[i].out_text);
        read_text(run->process[i].err, run->process[i].err_text);
    }
}

/* -- the verdict ------------------------------------------------------------------------------- */

/* Shared memory of this job that has outlived it. */
static bool leaves_memory(void)
{
    bool left = false;
    DIR *shm = opendir("/dev/shm");
    struct dirent *entry;
    while (shm && (entry = readdir(shm)))
        left |= strstr(entry->d_name, job) != NULL;
    if (shm)
        closedir(shm);
    return left;
}

static void clean_folder(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s/save %s/step-* %s/room* %s/[0-9]* %s/.[a-z]*",
             folder, folder, folder, folder, folder);
    if (system(command))
        abort();
}

/* Whether nothing can be told: the tool, which writes to standard error only where something has
 * failed, takes it for lost when that write fails. */
static bool is_mute(const struct calls_scene *scene, const struct calls_case *fault)
{
    return fault->call == FAILING_write && (fault->sticky || !scene->ranks);
}

/* Whether a line is told, and the last one names something behind its colon. */
static bool has_sentence(const char *text)
{
    const size_t length = strlen(text);
    return length > 2 && text[length - 1] == '\n' && text[length - 2] != ':' &&
           strncmp(text + length - 3, ": \n", 3) != 0;
}

/* Whether a rank failed where it left: the others may have left before. */
static bool tells_of_end(const struct run *run)
{
    bool tells = false;
    for (int i = 0; i < run->count; i++)
        tells |= strstr(run->process[i].err_text, "gyre_finalize") != NULL;
    return tells;
}

/* Whether the call is made again, and then succeeds. Threads and processes are not: there EAGAIN is
 * a limit. */
static bool interrupts(const struct calls_case *fault)
{
    const bool makes = fault->call == FAILING_thread || fault->call == FAILING_fork ||
                       fault->call == FAILING_spawn;
    return !fault->sticky && !makes && (fault->error == EINTR || fault->error == EAGAIN);
}

static const char *judge(const struct calls_scene *scene, const struct calls_case *fault,
                         const struct run *run)
{
    int told = 0;
    for (int i = 0; i < run->count - scene->lost; i++) {
        const struct process *p = &run->process[i];
        if (p->code < 0)
            return "did not end within the bound";
        if (p->code >= 128)
            return "a signal ended it";
        if (p->code == CALLS_DESCRIPTORS && scene->ranks)
            return "left descriptors";
        if (p->code == CALLS_SILENT && scene->ranks)
            return "failed without a sentence";
        if (p->code == CALLS_UNSTEADY && scene->ranks)
            return "a failure did not stay";
        if (p->code == 0 && strncmp(p->out_text, scene->right[i], CALLS_RESULTS - 1) != 0 &&
            strcmp(scene->name, "train") != 0)
            return "wrong results";
        if (p->code && !has_sentence(p->err_text) && !is_mute(scene, fault))
            return "failed without a sentence";
        if (fault->everywhere && !strstr(p->err_text, fault->everywhere))
            return "did not tell the cause";
        told += p->code != 0;
    }
    if (told && told < run->count && !scene->lost && !tells_of_end(run))
        return "not all ranks were told";
    if (interrupts(fault) && told)
        return "failed where it had to try again";
    if (run->lives_on)
        return "a process lives on";
    return leaves_memory() ? "left shared memory" : NULL;
}

static void show(const struct calls_scene *scene, const struct calls_case *fault,
                 const struct run *run, const char *what)
{
    printf("%s: --one %s %s %s %d %d %d %d\n", what, scene->name, scene->transport,
           calls_word(fault->call), fault->n, fault->error, fault->sticky, fault->victim);
    printf("  called by %s:", book->module);
    for (int i = 0; i < FAILING_DEPTH; i++)
        printf(" 0x%llx", (unsigned long long)book->caller[i]);
    for (int i = 0; i < run->count; i++)
        printf("\n  process %d, exit code %d: %s%s", i, run->process[i].code,
               run->process[i].out_text, run->process[i].err_text);
    printf("\n");
    fflush(stdout);
}

static void write_book(const struct calls_scene *scene, const struct calls_case *fault)
{
    memset(book, 0, sizeof *book);
    snprintf(book->program, sizeof book->program, "%s", scene->ranks ? "calls" : "gyre");
    book->call = fault->call;
    book->n = fault->n;
    book->error = fault->error;
    book->sticky = fault->sticky;
    book->armed = scene->ranks == 0;
}

void calls_count(struct calls_scene *scene, int victim, int count[FAILING_KINDS])
{
    static struct run run;
    struct calls_case none = {.call = FAILING_KINDS, .victim = victim};
    memset(&run, 0, sizeof run);
    patient = true;
    write_book(scene, &none);
    play(scene, victim, &run);
    clean_folder();
    for (int i = 0; i < run.count; i++) {
        snprintf(scene->right[i], CALLS_RESULTS, "%.*s", CALLS_RESULTS - 1,
                 run.process[i].out_text);
        if (run.process[i].code) {
            show(scene, &none, &run, "fails by itself");
            exit(1);
        }
    }
    for (int i = 0; i < FAILING_KINDS; i++)
        count[i] = book->count[i];
}

enum calls_verdict calls_try(const struct calls_scene *scene, const struct calls_case *fault)
{
    static struct run run;
    memset(&run, 0, sizeof run);
    patient = interrupts(fault);
    write_book(scene, fault);
    play(scene, fault->victim, &run);
    clean_folder();
    if (!book->failed)
        return CALLS_NEVER_CALLED;
    const char *what = judge(scene, fault, &run);
    if (what || calls_shows_all)
        show(scene, fault, &run, what ? what : "well");
    return what ? CALLS_BAD : run.process[0].code == 0 ? CALLS_ALL_RIGHT : CALLS_ALL_TOLD;
}
