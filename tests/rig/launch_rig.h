/* Runs the tool as a user would and looks at what comes out. Every wait ends at a deadline, with
 * the output so far. */
#ifndef GYRE_TESTS_RIG_LAUNCH_RIG_H
#define GYRE_TESTS_RIG_LAUNCH_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RIG_TEXT_MAX (256 * 1024)

/* The words of `gyre run`, and those of a rank that is a line of shell. */
#define WORDS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        "run", __VA_ARGS__, NULL                                                                   \
    }
#define SHELL(script) "sh", "-c", script

struct rig {
    pid_t pid;
    int code; /* exit code, or 128 + n if a signal ended the tool itself; -1 while it runs */
    int in, out, err; /* this side's ends; -1 when closed */
    int life;         /* ends when the last process that the tool ever started has ended */
    bool endless;     /* see rig_start_endless() */
    size_t out_length, err_length;
    char out_text[RIG_TEXT_MAX], err_text[RIG_TEXT_MAX];
};

const char *rig_tool(void); /* the path of `gyre` */

/* Starts `gyre` with these words (ended by NULL). Its standard input is a pipe. */
void rig_start(struct rig *rig, const char *const words[]);

/* Starts a run that tells without end until it is stopped. Where the rig is full it keeps the
 * beginning and what came last; a run of rig_start() fails there. */
void rig_start_endless(struct rig *rig, const char *const words[]);

/* This process becomes `gyre` with these words; its streams stay. Returns an exit code, 99, where
 * it cannot. */
int rig_become(const char *const words[]);

/* Starts it, gives it `input` (NULL: none), waits for its end. */
void rig_run(struct rig *rig, const char *input, const char *const words[]);

void rig_wait_for(struct rig *rig, const char *text);                        /* on either output */
void rig_wait_for_one(struct rig *rig, const char *text, const char *other); /* of two */
void rig_wait_end(struct rig *rig);
void rig_wait_lifeless(struct rig *rig); /* every process it started has ended too */
void rig_signal(struct rig *rig, int number);
void rig_signal_rank(struct rig *rig, int rank, int number); /* which the tool has started here */
void rig_end(struct rig *rig); /* frees what is held; kills the tool if it still runs */

/* What the tool printed, looked at. */
int rig_count_lines(const char *text, const char *line); /* lines exactly equal */
bool rig_has(const char *text, const char *part);
const char *rig_last_line(const char *text);
void rig_expect(const struct rig *rig, int code, const char *last_line_part);

const char *rig_folder(void); /* of this test's own, removed at exit */

#endif
