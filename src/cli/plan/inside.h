/* The inside of gyre plan: settle.c reads words, answer.c asks the cost model, simulate.c the
 * engine itself, print.c prints, plan.c is the command. */
#ifndef GYRE_CLI_PLAN_INSIDE_H
#define GYRE_CLI_PLAN_INSIDE_H

#include "cli/flags.h"
#include "collectives/choose/choose.h"
#include "collectives/choose/preference.h"

#define GYRE_PLAN_ROWS_MAX 32

/* Messages and rounds that are rehearsed (collectives/rehearsal): of one choice, of a whole answer.
 * */
#define GYRE_PLAN_WORK     (UINT64_C(1) << 20)
#define GYRE_PLAN_WORK_ALL (UINT64_C(1) << 22)

enum {
    NODES,
    RANKS,
    LINK,
    SLOW,
    SIZE,
    OP,
    TYPE_BYTES,
    MODEL,
    COMPUTE,
    BUCKET,
    SIMULATE,
    JSON,
    HELP,
    FLAGS
};

extern const struct gyre_flag gyre_plan_flags[FLAGS];

struct gyre_plan_link {
    uint64_t bits_per_second, latency_ns;
};

struct gyre_plan_asked {
    const char *word[FLAGS]; /* what was given */
    struct gyre_preference preference;
    struct gyre_plan_link link;
    uint64_t slow_bits_per_second; /* of question.link_kinds.slow_node; 0: no node is slow */
    uint32_t nodes, ranks;         /* ranks of each node */
    uint64_t bytes;                /* of a block */
    uint64_t layers, width;        /* of --model; 0: none */
    uint64_t compute_ns, bucket_bytes;
    struct gyre_layout *layout; /* owned */
    struct gyre_question question;
};

/* Finds what the words and the environment mean. 0, or GYRE_INVALID or -ENOMEM and the story. */
int gyre_plan_settle(struct gyre_plan_asked *asked, struct gyre_trouble *trouble);
void gyre_plan_forget(struct gyre_plan_asked *asked);

/* One algorithm in its best cut. */
struct gyre_plan_row {
    struct gyre_choice choice;
    uint64_t slow_ps;       /* of the same cut where one node is slow; 0: not asked */
    uint64_t scratch_bytes; /* of the fullest rank, all lanes */
    uint64_t near, far;     /* peers of the busiest rank that was looked at: in its node, beyond */
    uint64_t sent_bytes;    /* by rank 0 */
    uint64_t rounds;        /* of rank 0, all slices together */
    uint64_t simulated_ps;  /* what the engine took in virtual time; 0: not asked, or too much */
    uint64_t alike_ps;      /* what the model says of the same: nothing costs a core time */
};

/* Where the time of a choice goes, in picoseconds; the parts add up to the whole. */
struct gyre_plan_parts {
    uint64_t latency, network, inside, folds;
};

/* A training step whose buckets are reduced while the backward pass goes on. */
struct gyre_plan_step {
    uint64_t parameters, buckets, bucket_bytes;
    uint64_t bucket_ps, alone_ps;   /* of a bucket; of all of them */
    uint64_t hidden_ps, exposed_ps; /* behind the backward pass; behind its end */
    const struct gyre_algorithm *algorithm;
};

struct gyre_plan_answer {
    struct gyre_plan_row row[GYRE_PLAN_ROWS_MAX]; /* the fastest first */
    uint32_t rows;
    struct gyre_plan_parts parts; /* of the fastest */
    uint32_t best_if_slow;        /* the row that is fastest where one node is slow */
    struct gyre_plan_step step;   /* of --model */
};

int gyre_plan_answer(const struct gyre_plan_asked *asked, struct gyre_plan_answer *answer,
                     struct gyre_trouble *trouble);

/* Prices a choice that was made on links of other prices, of the cluster as it is asked about. */
int gyre_plan_reprice(const struct gyre_question *question, const struct gyre_choice *choice,
                      const struct gyre_link_kinds *link_kinds, uint64_t *ps);

/* Runs each row's operation by the engine over the simulator, in virtual time. */
int gyre_plan_simulate(const struct gyre_plan_asked *asked, struct gyre_plan_answer *answer,
                       struct gyre_trouble *trouble);

void gyre_plan_print(const struct gyre_plan_asked *asked, const struct gyre_plan_answer *answer);
void gyre_plan_print_json(const struct gyre_plan_asked *asked,
                          const struct gyre_plan_answer *answer);

#endif
