/* What the cases of the conformance suite stand on: a net from the bench, posts with numbers, and
 * pumping with a deadline. A case is a function that gets a fresh net by link_start(), pumps until
 * what it expects has happened, and gives the net back by link_finish().
 *
 * Every post is an entry in `status`, its token a number that uses all 64 bits; so a token that
 * comes back changed, twice, or without a post is seen at once, in every case. */
#ifndef GYRE_TESTS_LINK_RUN_H
#define GYRE_TESTS_LINK_RUN_H

#include "link/suite.h"

#include "base/clock.h"
#include "transport/stream/frame.h"
#include "rig/test.h"

#define LINK_NEVER    12345 /* a status that nothing has */
#define LINK_DEADLINE (30 * GYRE_SECOND)

enum link_side { HUB, LEAF };

struct link_run {
    const struct gyre_link_bench *bench;
    const struct gyre_driver *driver;
    struct gyre_link_net net;
    int *status;      /* by post */
    uint32_t posts;   /* made so far */
    uint32_t done;    /* completions seen */
    uint64_t give_up; /* real time */
    uint64_t unstep;  /* inverse of TOKEN_STEP */
    int most;         /* completions asked for at once */
};

struct link_case {
    const char *name;
    void (*run)(void **state);
};

#define LINK_CASE(function)                                                                        \
    {                                                                                              \
        .name = #function, .run = function                                                         \
    }

/* Each ends with an empty entry. */
extern const struct link_case link_messages[], link_now[], link_flow[], link_endings[],
    link_wires[];

extern const char *link_suite_name; /* for messages */

/* GYRE_TEST_SLOW, by which real time limits are multiplied. */
uint64_t link_slowness(void);

/* A net of the bench; anything but success fails the case. */
struct link_run *link_start_wish(void **state, const struct gyre_link_wish *wish);
struct link_run *link_start(void **state);
void link_finish(struct link_run *run);

/* Polls one wire, or all of them once; what completed is noted. Fails the case when it has taken
 * too long. */
int link_poll_wire(struct link_run *run, int which);
void link_pump(struct link_run *run);
void link_pump_until(struct link_run *run, uint32_t done);
void link_pump_some(struct link_run *run);
struct gyre_match link_name(uint64_t i);
struct gyre_pipe *link_pipe_of(struct link_run *run, int side);
uint64_t link_token_of(uint32_t post);

/* The driver's own answer; an accepted post is number posts - 1. */
int link_try_send(struct link_run *run, struct gyre_pipe *pipe, const struct gyre_match *match,
                  const void *data, uint64_t length);
int link_try_recv(struct link_run *run, struct gyre_pipe *pipe, const struct gyre_match *match,
                  void *data, uint64_t length);

/* Message i from, or to, a side of leaf 0's pipe; waits while all posts are in use. The post's
 * number. */
uint32_t link_post_send(struct link_run *run, int side, uint64_t i, const void *data,
                        uint64_t length);
uint32_t link_post_recv(struct link_run *run, int side, uint64_t i, void *data, uint64_t length);

/* Bytes that depend on their place and on a seed. */
void link_fill(void *data, uint64_t length, uint64_t seed);
void link_check(const void *data, uint64_t length, uint64_t seed);

/* Every byte still has that value. */
void link_untouched(const void *data, uint64_t length, uint8_t value);

/* Every post so far has completed with 0. */
void link_all_succeeded(const struct link_run *run);

/* One message there, checked; and one of each kind in both directions. */
void link_exchange(struct link_run *run, int from, uint64_t i, uint64_t length, bool receive_first);
void link_pipe_still_works(struct link_run *run, uint64_t i);

#endif
