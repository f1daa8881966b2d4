/* All children of one launcher, watched until the last has ended.
 *
 * The caller creates the set, spawns into all->child[0 … children), adds lines to other launchers
 * and calls gyre_children_watch(), which handles output, signals, the first failure and the orderly
 * end of all other children. Whether the job is to be started again is decided here, and done by
 * the caller, with a new set. */
#ifndef GYRE_LAUNCH_CHILDREN_CHILDREN_H
#define GYRE_LAUNCH_CHILDREN_CHILDREN_H

#include "launch/children/child.h"
#include "launch/children/launcher_line.h"
#include "launch/children/shown.h"

#include <poll.h>
#include <signal.h>

enum { GYRE_HOSTS_TEXT = 1024, GYRE_HOSTS_MOST = 16 }; /* that a newcomer is told */
#define GYRE_CHILDREN_DOUBT_MS      200  /* in which a death by signal replaces an exit code */
#define GYRE_CHILDREN_LAST_WORDS_MS 1000 /* in which other children may write after a failure */
#define GYRE_CHILDREN_TERM_MS       5000 /* from the signal that asks for the end to SIGKILL */
#define GYRE_REPORT_PREFIX          "gyre run: "
/* To the launcher above, each in a line of its own: */
#define GYRE_LOSS_FORMAT "lost %d %d " /* ranks, exit code; then the text */
#define GYRE_BACK_FORMAT "back %d "    /* ranks that are started again; then the text */
#define GYRE_WELL        "well"        /* a rank has ended well */
#define GYRE_LEFT        "left"        /* the same, of one that was asked to leave */

enum gyre_children_phase {
    GYRE_CHILDREN_RUNS,
    GYRE_CHILDREN_DOUBTS,
    GYRE_CHILDREN_LAST_WORDS,
    GYRE_CHILDREN_ENDS,
    GYRE_CHILDREN_KILLED,
    GYRE_CHILDREN_PAUSES /* all have ended; the job is started again at the deadline */
};

struct gyre_first_failure {
    int code;       /* 0: there is none */
    int child;      /* a child whose exit code is still to come, -1: none */
    bool announced; /* to the other launchers */
    bool suspected; /* a mere exit code, which no death has replaced */
    char text[1536];
};

struct gyre_restarts { /* of the whole job, or of single ranks of an elastic job */
    int used, most;
    int first_pause_ms; /* before the first restart */
    int pause_ms;       /* before the next start of the whole job */
};

struct gyre_elastic { /* a job that goes on without ranks that are lost */
    int least;        /* ranks that must be left; 0: the job is not elastic */
    int ranks, lost;  /* of the whole job */
    bool returns;     /* lost ranks are started again, or hosts come and go */
    bool came;        /* one has been, here */
    int well;         /* ranks that have ended well, where `returns` */
    int awaited;      /* restarts that were granted, and whose start was not told yet */
    bool closing;     /* nobody runs any more: none is started again */
    uint64_t calm_ns; /* when a start makes sense again, after ranks have ended well */
    int first_code;   /* of the first that was lost; 0: none was */
    char first[1280];
};

/* How a launcher behind ssh is, in a job whose hosts come and go. */
enum gyre_host_state {
    GYRE_HOST_RUNS,
    GYRE_HOST_RETURNS, /* it has ended, and is started again */
    GYRE_HOST_LEAVES,  /* its ranks were asked to leave the job */
    GYRE_HOST_LEFT,
    GYRE_HOST_LOST /* for good */
};

/* Is the job started again? ASKED: node 0 has not answered yet. */
enum gyre_restart { GYRE_RESTART_UNASKED, GYRE_RESTART_ASKED, GYRE_RESTART_YES, GYRE_RESTART_NO };

struct gyre_children {
    struct gyre_process_group group;
    struct gyre_sink out, err;
    struct gyre_shown shown;
    struct gyre_child *child;
    int children, room, alive; /* places in use, places */
    bool watched;              /* gyre_children_watch() has been called */
    int due;                   /* the child that is to be started again */
    const char *program;
    bool remote;      /* the children are ssh: signals are sent as text to their standard input */
    bool rereads;     /* SIGHUP asks for another look at the hosts, and does not end the job */
    bool reread;      /* it has asked */
    bool leaves;      /* SIGHUP asks the ranks to leave the job */
    bool changed;     /* it has, or a host has left */
    bool leaving;     /* the launcher above has asked the ranks to leave */
    bool tells_early; /* a launcher above waits for the report: print the report at the failure */
    struct gyre_launcher_line *launcher_line;
    int launcher_lines;
    int node;                       /* of the launchers that met; 0 elsewhere */
    char here[GYRE_CHILD_HOST_MAX]; /* this host, as ranks of others find it; "": there are none */
    char hosts[GYRE_HOSTS_TEXT];    /* on which there are ranks, as the leader has told */
    bool leads;    /* node 0: tells each launcher the failures of the others, and decides for all */
    bool hurried;  /* a signal asked for the end: do not wait for slow readers of the output */
    bool for_good; /* a signal asked for the end, or no other start can help */
    uint64_t starved; /* processes that the kernel had killed for memory before the start */
    struct gyre_elastic elastic;
    struct gyre_restarts restarts;
    enum gyre_restart restart;
    enum gyre_children_phase phase;
    uint64_t deadline_ns; /* of the phase; 0: none */
    struct gyre_first_failure first_failure;
    int signal_fd;
    sigset_t old_mask;
    struct pollfd *poll;
};

struct gyre_children_wish {
    int children, room; /* that are started at once; that there may be in all */
    int launcher_lines;
    bool rereads, leaves; /* what SIGHUP means */
};

/* Returns -ENOMEM or -errno with its trouble. gyre_children_destroy() takes the set in either case
 * and kills children that still run. */
int gyre_children_create(struct gyre_children *all, const struct gyre_children_wish *wish,
                         struct gyre_trouble *trouble);
void gyre_children_destroy(struct gyre_children *all);

#define GYRE_CHILDREN_DUE    256 /* greater than all exit codes */
#define GYRE_CHILDREN_CHANGE 257

/* Blocks until all children have ended and their output is written. Returns the exit code, from 0
 * to 255; or GYRE_CHILDREN_DUE: the child all->due of an elastic job is to be started again. The
 * caller spawns it, says so by gyre_children_returned() or gyre_children_missed(), and calls this
 * again. GYRE_CHILDREN_CHANGE: hosts may come or go now, by the calls below, before this is called
 * again. GYRE_RESTART_YES in all->restart then says that the launchers of all nodes have agreed to
 * start the job again, that the line about it is written, and that the pause is over. */
int gyre_children_watch(struct gyre_children *all);

/* The child runs again, or cannot be started, because of `why`. */
void gyre_children_returned(struct gyre_children *all, int index);
void gyre_children_missed(struct gyre_children *all, int index, const char *why);

/* -- hosts that come and go, where `rereads` --------------------------------------------------- */

/* Whether they may: the job runs, and none of its ranks has ended well. */
bool gyre_children_may_change(const struct gyre_children *all);
enum gyre_host_state gyre_children_host(const struct gyre_children *all, int index);
/* How many ranks the job has, or will have, without those that leave. */
int gyre_children_count_staying(const struct gyre_children *all);
/* Asks the ranks of a host that runs or returns to leave; forgets a host that is lost. After
 * `limit_ms` they are ended. */
void gyre_children_let_leave(struct gyre_children *all, int index, int limit_ms);
/* The index of a new place; -1: there is no room. */
int gyre_children_add(struct gyre_children *all);
/* Makes place for another start of a host that is lost or has left. */
void gyre_children_clear(struct gyre_children *all, int index);
/* The host was started, and its child->ranks join. */
void gyre_children_came(struct gyre_children *all, int index);
/* Writes a line to standard error. */
void gyre_children_tell(struct gyre_children *all, const char *text);

/* Lists hosts that have ranks, "a,b", at most GYRE_HOSTS_MOST: those whose ranks have never been
 * started again come first, because rank 0 is one of the oldest. */
void gyre_children_list_hosts(const struct gyre_children *all, char text[GYRE_HOSTS_TEXT]);

/* The pause before a start, after so many others: 1, 2, 4 … 30 s, where the first is a second. */
int gyre_restart_pause_ms(int first_ms, int used);

#endif
