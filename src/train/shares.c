/* How much of a step each rank gets: given as --shares 4,2, or measured.
 *
 * Measured: after a barrier every rank passes one batch of its own forward and backward, over and
 * over, for the same time, so ranks that share a machine are in each other's way as they will be in
 * training. No rank talks to another meanwhile, and nothing that training goes on from has changed
 * behind it: there is no update, running means are put back, the sampler is not asked, gradients
 * are written anew by the first step.
 *
 *     warm-up │ window │ window │ … │ window      what passes is in some windows, what stays in
 *                                                 all: the fastest window's speed counts
 *
 * All ranks see all speeds and come to the same weights (sampler/shares.h), which stand in every
 * checkpoint. A run that goes on takes those, because other shares would be another run. Tested by
 * tests/program/train/shares.c. */
#include "train/inside.h"

#include "base/clock.h"
#include "base/machine/load.h"
#include "sampler/shares.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS    5
#define WINDOW_NS  (100 * GYRE_MS)
#define TOLD_RATIO 10 /* of speeds; shares even out GYRE_SHARES_RATIO_MOST */
#define TOLD_MOST  16 /* speeds of so many ranks are told one by one */

static int no_memory_for_shares(struct gyre_train *t)
{
    return gyre_trouble_set(t->trouble, -ENOMEM, "rank %d: no memory for the shares", t->rank);
}

bool gyre_train_shares_are_measured(const struct gyre_train *t)
{
    return t->options->shares && strcmp(t->options->shares, "measured") == 0;
}

void gyre_train_free_shares(struct gyre_train *t)
{
    free(t->shares.weight);
    free(t->shares.text);
    free(t->shares.speed);
}

/* -- given ------------------------------------------------------------------------------------- */

/* Exactly n numbers between commas; otherwise weights are zeros. */
static bool parse(const char *text, double *weight, int n)
{
    for (int rank = 0; rank < n; rank++) {
        char *end;
        weight[rank] = strtod(text, &end);
        bool more = rank + 1 < n;
        if (end == text || *end != (more ? ',' : 0)) {
            memset(weight, 0, (size_t)n * sizeof *weight);
            return false;
        }
        text = end + more;
    }
    return true;
}

static int keep_text(struct gyre_train *t, const char *text)
{
    t->shares.text = strdup(text);
    return t->shares.text ? 0 : no_memory_for_shares(t);
}

int gyre_train_read_shares(struct gyre_train *t)
{
    const char *text = t->options->shares;
    if (!text)
        return 0;
    t->shares.weight = calloc((size_t)t->n, sizeof *t->shares.weight);
    if (!t->shares.weight)
        return no_memory_for_shares(t);
    if (gyre_train_shares_are_measured(t))
        return 0;
    if (!parse(text, t->shares.weight, t->n))
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "--shares %s: %d numbers are expected, one for each rank, between "
                                "commas; or the word measured",
                                text, t->n);
    return keep_text(t, text);
}

int gyre_train_resume_shares(struct gyre_train *t, const char *text)
{
    if (!text || !gyre_train_shares_are_measured(t))
        return 0;
    t->shares.resumed = parse(text, t->shares.weight, t->n);
    t->shares.refused = !t->shares.resumed;
    return t->shares.resumed ? keep_text(t, text) : 0;
}

/* -- what a measurement needs ------------------------------------------------------------------ */

/* A batch of this rank, as large as its part would be if all were alike. */
struct shares_trial {
    struct gyre_batch batch;
    uint64_t *index;
    float *x;
    void *y;
};

static void trial_deinit(struct shares_trial *trial)
{
    free(trial->index);
    free(trial->x);
    free(trial->y);
}

static bool trial_allocate(struct gyre_train *t, struct shares_trial *trial, uint64_t samples)
{
    size_t wanted = t->data.label ? sizeof(int64_t) : t->data.width * sizeof(float);
    trial->index = calloc(samples, sizeof *trial->index);
    trial->x = calloc(samples, t->data.features * sizeof *trial->x);
    trial->y = calloc(samples, wanted);
    return trial->index && trial->x && trial->y;
}

static int trial_init(struct gyre_train *t, struct shares_trial *trial)
{
    uint64_t n = (uint64_t)t->n, rank = (uint64_t)t->rank;
    uint64_t samples = t->span < n ? 1 : t->span / n;
    if (!trial_allocate(t, trial, samples))
        return no_memory_for_shares(t);
    for (uint64_t i = 0; i < samples; i++)
        trial->index[i] = (rank + i * n) % t->data.samples;
    gyre_dataset_gather(&t->data, trial->index, samples, trial->x, trial->y);
    trial->batch = (struct gyre_batch){.samples = samples, .x = trial->x, .y = trial->y};
    return gyre_running_keep(&t->replica.running, t->trouble);
}

/* A device has ended with it, too. */
static int pass_trial(struct gyre_train *t, const struct gyre_batch *batch)
{
    struct gyre_loss unused = {0};
    int status = gyre_replica_forward(&t->replica, batch->x, batch->samples, true,
                                      gyre_train_wanted(&t->data, batch), t->trouble);
    if (!status)
        status = gyre_replica_backward(&t->replica, false, false, t->trouble);
    return status ? status : gyre_replica_take_loss(&t->replica, &unused, t->trouble);
}

/* -- measured ---------------------------------------------------------------------------------- */

/* Passes for a window's time, one at least: samples per 1000 s. */
static int time_window(struct gyre_train *t, const struct shares_trial *trial, uint64_t *speed)
{
    uint64_t begun = gyre_now_ns(), passed = 0, samples = 0;
    while (passed < WINDOW_NS) {
        int status = pass_trial(t, &trial->batch);
        if (status)
            return status;
        samples += trial->batch.samples;
        passed = gyre_now_ns() - begun;
    }
    *speed = 1 + (uint64_t)((double)samples / (double)passed * 1e12);
    return 0;
}

/* The fastest window's speed; the first only warms up. */
static int time_own(struct gyre_train *t, const struct shares_trial *trial, uint64_t *speed)
{
    int status = 0;
    for (int w = 0; !status && w < 1 + WINDOWS; w++) {
        uint64_t of_window = 0;
        status = time_window(t, trial, &of_window);
        *speed = w && of_window > *speed ? of_window : *speed;
    }
    gyre_running_restore(&t->replica.running);
    return status;
}

/* The same, and what else this machine did meanwhile. */
static int time_and_watch_load(struct gyre_train *t, const struct shares_trial *trial,
                               uint64_t *speed, struct gyre_load *load)
{
    static struct gyre_load_look before, after;
    gyre_load_look("", &before);
    int status = time_own(t, trial, speed);
    gyre_load_look("", &after);
    gyre_load_between("", &before, &after, load);
    return status;
}

static int share_load(struct gyre_train *t, const struct gyre_load *own)
{
    struct gyre_load *load = calloc((size_t)t->n, sizeof *load);
    int status = gyre_train_agree(t, load ? 0 : no_memory_for_shares(t));
    if (!status)
        status = gyre_train_explain(t, gyre_all_gather(t->comm, own, load, sizeof *own, GYRE_U8));
    if (!status)
        gyre_load_tell(load, t->n, t->shares.load, sizeof t->shares.load);
    free(load);
    return status;
}

static int measure_speed(struct gyre_train *t)
{
    struct gyre_load load;
    struct shares_trial trial = {0};
    uint64_t mine = 1;
    t->shares.speed = calloc((size_t)t->n, sizeof *t->shares.speed);
    int status = t->shares.speed ? trial_init(t, &trial) : no_memory_for_shares(t);
    status = gyre_train_agree(t, status); /* which also begins together */
    if (!status)
        status = gyre_train_agree(t, time_and_watch_load(t, &trial, &mine, &load));
    trial_deinit(&trial);
    if (!status)
        status = share_load(t, &load);
    if (status)
        return status;
    status = gyre_all_gather(t->comm, &mine, t->shares.speed, 1, GYRE_U64);
    if (status)
        return gyre_train_explain(t, status);
    gyre_shares_from_speeds(t->shares.speed, (uint32_t)t->n, t->shares.weight);
    return 0;
}

static int write_text(struct gyre_train *t)
{
    size_t room = (size_t)t->n * 24, at = 0;
    char *text = t->shares.text = malloc(room);
    for (int rank = 0; text && rank < t->n; rank++)
        at +=
            (size_t)snprintf(text + at, room - at, "%s%g", rank ? "," : "", t->shares.weight[rank]);
    return text ? 0 : no_memory_for_shares(t);
}

/* What rank 0 has from a checkpoint is everybody's; zeros: it has nothing. */
int gyre_train_settle_shares(struct gyre_train *t)
{
    if (!gyre_train_shares_are_measured(t))
        return 0;
    double *weight = t->shares.weight;
    if (t->n == 1)
        weight[0] = 1;
    int status = gyre_broadcast(t->comm, weight, weight, (size_t)t->n, GYRE_F64, 0);
    if (status)
        return gyre_train_explain(t, status);
    if (weight[0] > 0)
        return 0;
    status = measure_speed(t);
    return status ? status : gyre_train_agree(t, write_text(t));
}

/* -- telling ----------------------------------------------------------------------------------- */

static void tell_speeds(const struct gyre_train *t, uint64_t slowest, uint64_t fastest)
{
    if (t->n > TOLD_MOST) {
        fprintf(t->terminal, "%" PRIu64 " to %" PRIu64, slowest / 1000, fastest / 1000);
        return;
    }
    for (int rank = 0; rank < t->n; rank++) {
        const char *between = !rank ? "" : rank + 1 < t->n ? ", " : " and ";
        fprintf(t->terminal, "%s%" PRIu64, between, (t->shares.speed[rank] + 500) / 1000);
    }
}

/* Not a note of the report: a line of many ranks is whole, because it is to be given again. */
void gyre_train_tell_shares(const struct gyre_train *t)
{
    const uint64_t *speed = t->shares.speed;
    uint64_t slowest = UINT64_MAX, fastest = 0;
    if (t->shares.resumed)
        fprintf(t->terminal, "shares %s, as in the checkpoint\n", t->shares.text);
    if (!speed)
        return;
    int last = 0;
    for (int rank = 0; rank < t->n; rank++) {
        last = speed[rank] < slowest ? rank : last;
        slowest = speed[rank] < slowest ? speed[rank] : slowest;
        fastest = speed[rank] > fastest ? speed[rank] : fastest;
    }
    fprintf(t->terminal, "shares %s from ", t->shares.text);
    tell_speeds(t, slowest, fastest);
    fprintf(t->terminal, " samples/s%s\n",
            t->shares.refused ? "; the checkpoint has those of another number of ranks" : "");
    if (fastest / TOLD_RATIO > slowest)
        fprintf(t->terminal,
                "hint: rank %d is %" PRIu64 " times slower than the fastest, and shares even out "
                "%d times: training may be faster without it\n",
                last, fastest / slowest, GYRE_SHARES_RATIO_MOST);
    if (*t->shares.load)
        fprintf(stderr,
                "warning: while speeds were measured, %s: the shares follow that load; measure "
                "again when it is quiet, or give shares by hand\n",
                t->shares.load);
}
