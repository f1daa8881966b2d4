/* One process that the launcher started, and the process group of all of them.
 *
 * All functions run in the launcher's only thread: a child's parent-death signal follows the thread
 * that forked the child. */
#ifndef GYRE_LAUNCH_CHILD_H
#define GYRE_LAUNCH_CHILD_H

#include "launch/lines.h"

#include "base/status.h"
#include "transport/net/crypto.h"

#include <sched.h>
#include <sys/types.h>

/* A process group that ends with the launcher, however the launcher ends. */
struct gyre_process_group {
    pid_t id;          /* of the keeper, which leads the group */
    int launcher_pipe; /* read end, which every child inherits; ends with the launcher */
    int hold;          /* write end, which only the launcher has */
    int exec_read; /* gets one int, an errno, from each child that could not start its program */
    int exec_write;
};

/* create: -errno with its trouble. destroy: kills what is left in the group; a zeroed struct may be
 * destroyed, too. */
int gyre_process_group_create(struct gyre_process_group *group, struct gyre_trouble *trouble);
void gyre_process_group_destroy(struct gyre_process_group *group);
void gyre_process_group_signal(const struct gyre_process_group *group, int number);

#define GYRE_VARIABLES_MAX 32

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
    const uint8_t *key; /* GYRE_KEY_BYTES that the child finds behind GYRE_KEY_FD; NULL for none */
    const cpu_set_t *cpus; /* NULL: as the launcher */
    enum gyre_child_input input;
    struct gyre_sink *out, *err;
    int out_log, err_log; /* -1 for none; owned by the child from the call on */
};

struct gyre_child {
    char name[192]; /* "rank 3 on gnode7": the caller's, for reports */
    pid_t pid;
    int pidfd;  /* -1 once it was seen to end */
    int input;  /* write end of its standard input, -1 for none */
    int status; /* as waitpid(2) gives it, once pidfd is -1 */
    struct gyre_line_tap out, err;
};

/* Starts a child in the group; *child is zeroed but for its name. -errno with its trouble; the
 * child may be destroyed in any case. */
int gyre_child_spawn(struct gyre_child *child, const struct gyre_process_group *group,
                     const struct gyre_spawn *spawn, struct gyre_trouble *trouble);
void gyre_child_reap(struct gyre_child *child); /* after pidfd became readable */
void gyre_child_destroy(struct gyre_child *child);

#endif
