/* The inside of this room, for its files only.
 *
 *     children.c   the entry: the loop
 *     changes.c    hosts that come and go
 *     judge.c      what the end of a child means
 *     loss.c       ranks that an elastic job does without
 *     again.c      ranks of an elastic job that are started again
 *     restart.c    whether the job is started again
 *     outcome.c    the phases of the end, and the failure that is reported
 *
 * A file calls only files listed below it. */
#ifndef GYRE_LAUNCH_CHILDREN_INSIDE_H
#define GYRE_LAUNCH_CHILDREN_INSIDE_H

#include "launch/children/children.h"

#define GYRE_QUOTE " last message: " /* in a failure, behind "; its" or "; the" */

/* gyre_children_enter() changes the phase; gyre_children_signal() sends a signal to all children.
 * gyre_children_end() sends a signal and gives the children time to end. gyre_children_kill() kills
 * all children. */
void gyre_children_enter(struct gyre_children *all, enum gyre_children_phase phase, int limit_ms);
void gyre_children_signal(struct gyre_children *all, int number);
void gyre_children_end(struct gyre_children *all, int number);
void gyre_children_kill(struct gyre_children *all);

/* Tells the first failure to all other launchers but `teller`. Later calls do nothing. */
void gyre_children_announce(struct gyre_children *all, const struct gyre_launcher_line *teller);

/* Whether the job is elastic, and runs: an end of a child is no failure then, but a loss. */
bool gyre_children_may_lose(const struct gyre_children *all);

/* Makes a failure the first failure unless a first failure is known and beyond doubt. `teller` is
 * the launcher that told the failure; NULL: the failure was seen here. */
void gyre_children_decide(struct gyre_children *all, int code, const char *text,
                          const struct gyre_launcher_line *teller);
/* Notes an exit code as the first failure until a failure is known beyond doubt: the end of a
 * process may be the consequence of what is noticed later. */
void gyre_children_suspect(struct gyre_children *all, int code, const char *text);
/* Writes a line to standard error, without the last message of a child at the end of `text` where
 * the reader still has that before him. */
void gyre_children_say(struct gyre_children *all, const char *before, const char *text,
                       const char *behind);
/* Writes the report, one line, to standard error. */
void gyre_children_report(struct gyre_children *all);

struct gyre_lost_ranks {
    int node;  /* of the launchers that met; 0 elsewhere */
    int ranks; /* how many, beside those that were lost before */
    int code;  /* exit code of the first of them */
    const char *text;
    bool missed;              /* it was lost before, and could not be started again */
    struct gyre_child *child; /* whose end it is; NULL: none's here */
    struct gyre_child *ssh;   /* behind which a launcher tells it; NULL: it is none's */
};

/* Counts a loss, tells it, and fails the job where too few ranks are left. `teller` as above. */
void gyre_children_lose(struct gyre_children *all, const struct gyre_lost_ranks *loss,
                        struct gyre_launcher_line *teller);
/* Takes the end of another launcher as a loss; false where it is a failure. */
bool gyre_children_lose_launcher(struct gyre_children *all, struct gyre_launcher_line *gone);
/* Takes back as many losses: these ranks run again. Tells it. */
void gyre_children_regain(struct gyre_children *all, const struct gyre_lost_ranks *back,
                          const struct gyre_launcher_line *teller);

/* Takes ranks that leave the job, and those of them that were lost before, out of its count, and
 * fails the job where too few are left. */
void gyre_children_release(struct gyre_children *all, int ranks, int lost);

/* Decides whether a loss is made good by another start, where that is this launcher's to decide,
 * and has it done. `behind` gets what is to be told of it. True: it is. */
bool gyre_again_decide(struct gyre_children *all, const struct gyre_lost_ranks *loss,
                       struct gyre_launcher_line *teller, char behind[64]);
/* Takes a loss of this launcher's own as one on which another launcher decides, if one does. */
void gyre_again_ask(struct gyre_children *all, const struct gyre_lost_ranks *loss);
/* Whether another launcher decides on losses. */
bool gyre_again_asks(const struct gyre_children *all);
/* Notes that a restart was tried and has failed. */
void gyre_again_note_missed(struct gyre_children *all, const struct gyre_lost_ranks *loss,
                            struct gyre_launcher_line *teller);
/* Notes that restarts will never be told, because whoever was to do them has gone. */
void gyre_again_await_none(struct gyre_children *all, int *awaited);
/* Takes another launcher's word about it. */
void gyre_again_hear(struct gyre_children *all, const struct gyre_heard *heard);
/* Notes that a rank has ended well, here or behind `teller`. */
void gyre_again_note_well(struct gyre_children *all);
/* Has no child started again: the ranks leave. Or looks whether nobody runs any more. */
void gyre_again_stop(struct gyre_children *all);
void gyre_again_look(struct gyre_children *all);
/* Whether a child is started again, or may be. */
bool gyre_again_waits(const struct gyre_children *all);
/* When the next child is started again; 0: none is yet. */
uint64_t gyre_again_next_ns(const struct gyre_children *all);
/* The child whose time has come; -1: none. */
int gyre_again_due(const struct gyre_children *all);

/* Notes the end of a host that was asked to leave. */
void gyre_change_note_gone(struct gyre_children *all, int index);
/* Notes that a rank behind a host that was asked to leave has left, or was lost on the way. */
void gyre_change_note_left(struct gyre_children *all, struct gyre_child *child, int ranks);
/* Has the ranks of this launcher leave: the launcher above has asked for it. */
void gyre_change_leave(struct gyre_children *all);
/* Ends the ranks of hosts whose time to leave is over. */
void gyre_change_hurry(struct gyre_children *all);
/* When the next host's time is over; 0: there is none. */
uint64_t gyre_change_next_ns(const struct gyre_children *all);

/* Decides on the status of a child that was reaped. */
void gyre_children_judge(struct gyre_children *all, int index);
/* Decides on what a launcher behind ssh has told. */
void gyre_children_hear_report(struct gyre_children *all, int index);

/* Whether another start cannot help after this exit code. */
bool gyre_restart_is_useless(int code);
/* Asks whether the job is started again. Called when all children have ended. */
void gyre_restart_ask(struct gyre_children *all);
/* Whether the answer is still to come from another launcher. */
bool gyre_restart_is_open(struct gyre_children *all);
/* Takes a launcher's word about it. */
void gyre_restart_hear(struct gyre_children *all, struct gyre_launcher_line *teller,
                       enum gyre_word word);
/* Takes back a YES, here and, as far as they listen, on the other launchers. */
void gyre_restart_revoke(struct gyre_children *all);

#endif
