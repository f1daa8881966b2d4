/* One process that the launcher started, and the process group of all of them.
 *
 * All functions run in the launcher's only thread: a child's parent-death signal follows the thread
 * that forked the child. */
#ifndef GYRE_LAUNCH_CHILDREN_CHILD_H
#define GYRE_LAUNCH_CHILDREN_CHILD_H

#include "launch/children/lines.h"

#include "base/status.h"
#include "transport/net/crypto.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>

/* A process group whose processes are killed when the launcher ends, for whatever reason. */
struct gyre_process_group {
    pid_t id; /* of the keeper, which leads the group */
    /* Read end, which every child inherits and none reads; it ends with the launcher. A byte in it
     * asks the ranks to leave the job. */
    int launcher_pipe;
    int hold; /* write end, which only the launcher has */
    /* Receives one int, an errno, from each child that could not start its program. */
    int exec_read;
    int exec_write;
    struct rlimit files; /* the limits of descriptors that children get */
};

/* gyre_process_group_create() returns -errno with its trouble. gyre_process_group_destroy() kills
 * the processes left in the group and takes a zeroed struct, too. */
int gyre_process_group_create(struct gyre_process_group *group, struct gyre_trouble *trouble);
void gyre_process_group_destroy(struct gyre_process_group *group);
void gyre_process_group_signal(const struct gyre_process_group *group, int number);
/* Asks all ranks of the group, also those that are started later, to leave the job. */
void gyre_process_group_ask_to_leave(const struct gyre_process_group *group);

#define GYRE_VARIABLES_MAX 40

/* Changes of a child's environment: "NAME=value" sets a variable, "NAME" removes one. */
struct gyre_variables {
    int count;
    size_t used;
    char *item[GYRE_VARIABLES_MAX];
    char text[4096];
};

void gyre_variables_add(struct gyre_variables *variables, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum gyre_child_input { GYRE_INPUT_NONE, GYRE_INPUT_INHERITED, GYRE_INPUT_PIPE };

struct gyre_spawn {
    char *const *program; /* argv, found in PATH */
    struct gyre_variables *variables;
    /* GYRE_KEY_BYTES that the child reads from GYRE_KEY_FD; NULL: no key. */
    const uint8_t *key;
    bool records;          /* a file for the rank's records is GYRE_RECORD_FD */
    const cpu_set_t *cpus; /* NULL: those of the launcher */
    enum gyre_child_input input;
    struct gyre_sink *out, *err;
    struct gyre_shown *shown; /* by all children */
    int out_log, err_log;     /* -1 for none; owned by the child from the call on */
};

/* A child that has ended: it is not started again, its launcher has asked the one that decides, or
 * it is started again at its time. */
enum gyre_child_return { GYRE_CHILD_ENDS, GYRE_CHILD_ASKS, GYRE_CHILD_RETURNS };

#define GYRE_CHILD_HOST_MAX 128

struct gyre_child {
    char name[192]; /* "rank 3 on gnode7": set by the caller, for reports */
    pid_t pid;
    int pidfd;                      /* -1 once the child was seen to end */
    int input;                      /* write end of the child's standard input; -1: none */
    int records;                    /* the file of a rank's records; -1: none */
    int status;                     /* from waitpid(2), valid once pidfd is -1 */
    char host[GYRE_CHILD_HOST_MAX]; /* behind ssh: where ranks of others find its ranks; "": here */
    int ranks;         /* that the child is, or whose launcher it reaches: set by the caller */
    int lost;          /* of these */
    int awaited;       /* of these lost ranks, which are to be started again behind ssh */
    bool young;        /* a launcher behind ssh, whose ranks came to a job that ran */
    bool leaves;       /* one that was asked to have its ranks leave; also once it is gone */
    uint64_t hurry_ns; /* when these ranks are ended; 0: they are not, or were */
    enum gyre_child_return again; /* whether an elastic job starts it again after its end */
    uint64_t due_ns;              /* when */
    int returns;                  /* how often it was started again, the next start included */
    int restart;                  /* number of that start among all restarts of the job */
    struct gyre_line_tap out, err;
};

/* Starts a child in the group. *child is zeroed but for what its caller sets. Returns -errno with
 * its trouble. The child may be destroyed after a failure, too. */
int gyre_child_spawn(struct gyre_child *child, const struct gyre_process_group *group,
                     const struct gyre_spawn *spawn, struct gyre_trouble *trouble);
/* Writes to the standard input of a launcher behind ssh. 0, also where it has ended, which its
 * caller sees as the end of a child; or -errno. */
int gyre_child_say(const struct gyre_child *child, const char *text);

/* Takes the child's status, after pidfd became readable. */
void gyre_child_reap(struct gyre_child *child);
void gyre_child_destroy(struct gyre_child *child);
/* Makes place for another start in the same place of a child that was reaped. */
void gyre_child_clear(struct gyre_child *child);

#endif
