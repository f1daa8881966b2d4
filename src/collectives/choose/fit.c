/* Fits prices to measured times.
 *
 * A predicted time is a sum of prices, each times a count:
 *
 *     time = 2 × latency + 2 × message + 128 × KiB + 192 × KiB folded          (a row per trial)
 *
 * The counts come from the model itself: it computes the time with one price at 1 and all others at
 * 0. The prices with the least squares of relative errors solve as many linear equations as there
 * are prices. They are solved again and again, with each error's square divided by its size before:
 * that finds the least sum of errors, not of squares, so a few trials which no prices explain do
 * not spoil the prices for all others.
 *
 * A price that comes out below a twentieth of its likely value is noise and no machine; it is held
 * there, and the others are solved again. The likely value takes part as a very weak row for each
 * price. So prices that no trial tells apart (latency and message, with two ranks) keep their
 * likely proportion.
 *
 * What a burst lets pass at once is no sum of prices. The model says how much it is with the prices
 * of one solution, and the next is found without it. Some lengths of a burst are tried so, some
 * sizes of the caches that mapped memory has, and over loopback some of the cache and some prices
 * of what is beyond.
 *
 * Between machines the price of folds is not fitted but taken as it is: every byte that an
 * algorithm sends is folded, too, so trials do not tell the two apart. What went to the wrong one
 * would be missed where folds hide behind bytes of another slice.
 *
 * Tested by tests/unit/collectives/choose/tuning_test.c. */
#include "collectives/choose/fit.h"

#include <errno.h>
#include <stdlib.h>

#define PRICES_MAX (5 * GYRE_LINK_KINDS + 4)
#define FLOOR      0.05
#define PRIOR      0.001 /* a price off by all of itself weighs as much as a trial off by 0.1 % */
#define ROUNDS     30
#define ERROR_MIN  0.01 /* smaller errors count alike */
#define BURST_GAIN 0.8  /* a burst leaves less than this of the errors without one */

#define CACHE_KIB_LEAST  (UINT64_C(256))
#define CACHE_KIB_MOST   (UINT64_C(1) << 20)
#define WINDOW_KIB_LEAST (UINT64_C(1) << 10)
#define WINDOW_KIB_MOST  (UINT64_C(1) << 18)
#define WINDOW_GAIN      0.9 /* a window leaves less than this of the errors without one */

struct fit {
    uint32_t trials, prices;
    uint32_t beyond, end;        /* the prices that depend on the sizes of caches */
    uint64_t *price[PRICES_MAX]; /* in the tuning */
    double unit[PRICES_MAX];     /* the value of the price while the model computes its row */
    double likely[PRICES_MAX], value[PRICES_MAX];
    double *row;    /* trials × PRICES_MAX, in shares of the trial's time */
    double *weight; /* of each trial */
    double *given;  /* the share of each trial's time that prices which are not fitted explain */
    double *hidden; /* the share that passes beside others, with the last prices */
};

static bool occurs(const struct gyre_trial *trial, uint32_t trials, int kind)
{
    for (uint32_t t = 0; t < trials; t++)
        if ((int)trial[t].near == kind || (int)trial[t].far == kind)
            return true;
    return false;
}

static void add_price(struct fit *fit, uint64_t *price, uint64_t likely, double unit)
{
    if (!likely)
        return; /* this kind of link has no such price */
    fit->price[fit->prices] = price;
    fit->unit[fit->prices] = unit;
    fit->likely[fit->prices] = fit->value[fit->prices] = (double)likely;
    fit->prices++;
}

/* The likely price of an incast; 0: two ranks have none, and trials of them tell nothing of it. */
static uint64_t likely_incast(const struct gyre_trial *trial, int kind,
                              const struct gyre_tuning *tuning)
{
    return kind == GYRE_LINK_NETWORK && trial->slice.n > 2 ? tuning->link[kind].kib_ps / 8 : 0;
}

static uint32_t list_prices(struct fit *fit, const struct gyre_trial *trial,
                            struct gyre_tuning *tuning)
{
    uint32_t kinds = 0;
    for (int kind = 0; kind < GYRE_LINK_KINDS; kind++) {
        if (!occurs(trial, fit->trials, kind))
            continue;
        kinds |= 1u << kind;
        struct gyre_price *price = &tuning->link[kind];
        add_price(fit, &price->latency_ns, price->latency_ns, 1);
        add_price(fit, &price->message_ns, price->message_ns, 1);
        add_price(fit, &price->grant_ns, price->grant_ns, 1);
        add_price(fit, &tuning->incast_kib_ps, likely_incast(trial, kind, tuning), 1024);
        if (kind == GYRE_LINK_LOOPBACK)
            fit->beyond = fit->prices;
        add_price(fit, &price->kib_ps, price->kib_ps, 1024);
    }
    if (kinds & 1u << GYRE_LINK_MAPPED) {
        add_price(fit, &tuning->line_kib_ps, tuning->line_kib_ps, 1024);
        fit->beyond = fit->prices;
        add_price(fit, &tuning->shared_kib_ps, tuning->shared_kib_ps, 1024);
        add_price(fit, &tuning->memory_kib_ps, tuning->memory_kib_ps, 1024);
        fit->end = fit->prices;
    }
    if (kinds & ~(1u << GYRE_LINK_MAPPED) && !(kinds & 1u << GYRE_LINK_NETWORK))
        add_price(fit, &tuning->fold_kib_ps, tuning->fold_kib_ps, 1024);
    if (kinds & 1u << GYRE_LINK_LOOPBACK)
        fit->end = fit->prices;
    return kinds;
}

/* The time in ns that one unit of a price adds to the trial. */
static int ask_cost(const struct gyre_trial *trial, const struct gyre_tuning *tuning,
                    struct gyre_walk *walk, double *ns)
{
    struct gyre_link_kinds link_kinds = {trial->near, trial->far, tuning};
    struct gyre_cost cost;
    int status =
        gyre_cost_slice(trial->algorithm, &trial->slice, &link_kinds, GYRE_COST_NEVER, walk, &cost);
    *ns = (double)cost.path / 1000;
    return status;
}

/* Fills the row of one trial, for prices from `first` to `end`. All prices are 0. */
static int fill_row(struct fit *fit, const struct gyre_trial *trial, struct gyre_tuning *tuning,
                    struct gyre_walk *walk, uint32_t t, uint32_t first, uint32_t end)
{
    int status = 0;
    for (uint32_t p = first; !status && p < end; p++) {
        double ns;
        *fit->price[p] = (uint64_t)fit->unit[p];
        status = ask_cost(trial, tuning, walk, &ns);
        fit->row[t * PRICES_MAX + p] = (ns / trial->took_ns - fit->given[t]) / fit->unit[p];
        *fit->price[p] = 0;
    }
    return status;
}

static void forget_prices(struct fit *fit)
{
    for (uint32_t p = 0; p < fit->prices; p++)
        *fit->price[p] = 0;
}

static int fill_rows(struct fit *fit, const struct gyre_trial *trial, struct gyre_tuning *tuning)
{
    struct gyre_walk walk = {0};
    int status = 0;
    forget_prices(fit);
    for (uint32_t t = 0; !status && t < fit->trials; t++) {
        status = ask_cost(&trial[t], tuning, &walk, &fit->given[t]);
        fit->given[t] /= trial[t].took_ns;
        if (!status)
            status = fill_row(fit, &trial[t], tuning, &walk, t, 0, fit->prices);
    }
    gyre_walk_deinit(&walk);
    return status;
}

/* Fills again what depends on the sizes of caches. */
static int fill_rows_beyond(struct fit *fit, const struct gyre_trial *trial,
                            struct gyre_tuning *tuning)
{
    struct gyre_walk walk = {0};
    int status = 0;
    forget_prices(fit);
    for (uint32_t t = 0; !status && t < fit->trials; t++)
        if (trial[t].near == GYRE_LINK_MAPPED || trial[t].far == GYRE_LINK_LOOPBACK)
            status = fill_row(fit, &trial[t], tuning, &walk, t, fit->beyond, fit->end);
    gyre_walk_deinit(&walk);
    return status;
}

static double sum_of_prices(const struct fit *fit, uint32_t t)
{
    double share = fit->given[t];
    for (uint32_t p = 0; p < fit->prices; p++)
        share += fit->row[t * PRICES_MAX + p] * fit->value[p];
    return share;
}

static double predicted(const struct fit *fit, uint32_t t)
{
    return sum_of_prices(fit, t) - fit->hidden[t];
}

static void set_prices(const struct fit *fit)
{
    for (uint32_t p = 0; p < fit->prices; p++)
        *fit->price[p] = fit->value[p] < 1 ? fit->unit[p] > 1 : (uint64_t)(fit->value[p] + 0.5);
}

/* What the model takes off a sum of prices because a burst passes during latencies. */
static int find_hidden(struct fit *fit, const struct gyre_trial *trial,
                       const struct gyre_tuning *tuning)
{
    struct gyre_walk walk = {0};
    int status = 0;
    set_prices(fit);
    for (uint32_t t = 0; !status && tuning->burst_bytes && t < fit->trials; t++) {
        double ns;
        status = ask_cost(&trial[t], tuning, &walk, &ns);
        fit->hidden[t] = sum_of_prices(fit, t) - ns / trial[t].took_ns;
    }
    gyre_walk_deinit(&walk);
    return status;
}

/* -- least squares ----------------------------------------------------------------------------- */

struct equations {
    double left[PRICES_MAX][PRICES_MAX], right[PRICES_MAX];
    uint32_t price[PRICES_MAX], count; /* the prices that are not held */
};

/* The share of a trial's time that the held prices explain, and those that are not fitted. */
static double held_share(const struct fit *fit, const bool *held, uint32_t t)
{
    double share = fit->given[t] - fit->hidden[t];
    for (uint32_t p = 0; p < fit->prices; p++)
        if (held[p])
            share += fit->row[t * PRICES_MAX + p] * fit->likely[p] * FLOOR;
    return share;
}

/* Sets up the equations, in shares of the likely prices, so that all unknowns have one size. */
static void set_up(const struct fit *fit, const bool *held, struct equations *e)
{
    *e = (struct equations){.count = 0};
    for (uint32_t p = 0; p < fit->prices; p++)
        if (!held[p])
            e->price[e->count++] = p;
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t p = e->price[i];
        e->left[i][i] = e->right[i] = PRIOR * PRIOR;
        for (uint32_t t = 0; t < fit->trials; t++) {
            double own = fit->weight[t] * fit->row[t * PRICES_MAX + p] * fit->likely[p];
            e->right[i] += own * (1 - held_share(fit, held, t));
            for (uint32_t j = 0; j < e->count; j++)
                e->left[i][j] +=
                    own * fit->row[t * PRICES_MAX + e->price[j]] * fit->likely[e->price[j]];
        }
    }
}

/* Solves by elimination. The prior keeps the diagonal above 0. */
static void solve(struct equations *e)
{
    for (uint32_t i = 0; i < e->count; i++)
        for (uint32_t k = i + 1; k < e->count; k++) {
            double factor = e->left[k][i] / e->left[i][i];
            for (uint32_t j = i; j < e->count; j++)
                e->left[k][j] -= factor * e->left[i][j];
            e->right[k] -= factor * e->right[i];
        }
    for (uint32_t i = e->count; i-- > 0;) {
        for (uint32_t j = i + 1; j < e->count; j++)
            e->right[i] -= e->left[i][j] * e->right[j];
        e->right[i] /= e->left[i][i];
    }
}

static void find_prices(struct fit *fit)
{
    bool held[PRICES_MAX] = {false}, below = true;
    while (below) {
        struct equations e;
        uint32_t lowest = 0;
        set_up(fit, held, &e);
        solve(&e);
        for (uint32_t i = 0; i < e.count; i++)
            if (e.right[i] < e.right[lowest])
                lowest = i;
        below = e.count && e.right[lowest] < FLOOR;
        for (uint32_t p = 0; p < fit->prices; p++)
            fit->value[p] = fit->likely[p] * FLOOR;
        for (uint32_t i = 0; i < e.count; i++)
            fit->value[e.price[i]] = e.right[i] * fit->likely[e.price[i]];
        if (below)
            held[e.price[lowest]] = true;
    }
}

static double error_of(const struct fit *fit, uint32_t t)
{
    double off = predicted(fit, t) - 1;
    return off < 0 ? -off : off;
}

static double sum_of_errors(const struct fit *fit)
{
    double sum = 0;
    for (uint32_t t = 0; t < fit->trials; t++)
        sum += error_of(fit, t);
    return sum;
}

static int find_prices_by_least_sum(struct fit *fit, const struct gyre_trial *trial,
                                    const struct gyre_tuning *tuning)
{
    int status = 0;
    for (uint32_t t = 0; t < fit->trials; t++) {
        fit->weight[t] = 1;
        fit->hidden[t] = 0;
    }
    find_prices(fit);
    for (int i = 0; !status && i < ROUNDS; i++) {
        status = find_hidden(fit, trial, tuning);
        for (uint32_t t = 0; t < fit->trials; t++)
            fit->weight[t] = 1 / (error_of(fit, t) > ERROR_MIN ? error_of(fit, t) : ERROR_MIN);
        find_prices(fit);
    }
    return status ? status : find_hidden(fit, trial, tuning);
}

/* A burst is not in proportion to any time: some are tried. None is the likely one. */
static int find_burst(struct fit *fit, const struct gyre_trial *trial, struct gyre_tuning *tuning)
{
    static const uint64_t bursts[] = {2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10};
    uint64_t best = tuning->burst_bytes = 0;
    int status = find_prices_by_least_sum(fit, trial, tuning);
    double least = BURST_GAIN * sum_of_errors(fit);
    for (size_t i = 0; !status && i < sizeof bursts / sizeof *bursts; i++) {
        tuning->burst_bytes = bursts[i];
        status = find_prices_by_least_sum(fit, trial, tuning);
        if (sum_of_errors(fit) < least) {
            least = sum_of_errors(fit);
            best = bursts[i];
        }
    }
    tuning->burst_bytes = best;
    return status ? status : find_prices_by_least_sum(fit, trial, tuning);
}

static int find_form(struct fit *fit, const struct gyre_trial *trial, struct gyre_tuning *tuning,
                     uint32_t kinds)
{
    return kinds & 1u << GYRE_LINK_NETWORK ? find_burst(fit, trial, tuning)
                                           : find_prices_by_least_sum(fit, trial, tuning);
}

/* The sizes of caches that are tried: the likely ones, powers of two, three quarters of those. */
struct caches {
    uint64_t own_kib, shared_kib;
};

/* Returns the next size that is tried: 256, 384, 512, 768, 1024 … */
static uint64_t next_size(uint64_t kib)
{
    return kib & (kib - 1) ? kib / 3 * 4 : kib / 2 * 3;
}

/* A cache, as loopback and folds feel it. */
struct window {
    uint64_t kib, spill_percent;
};

static int try_caches(struct fit *fit, const struct gyre_trial *trial, struct gyre_tuning *tuning,
                      uint32_t kinds, struct caches caches)
{
    tuning->own_cache_kib = caches.own_kib;
    tuning->shared_cache_kib = caches.shared_kib;
    int status = fill_rows_beyond(fit, trial, tuning);
    return status ? status : find_form(fit, trial, tuning, kinds);
}

/* No time is in proportion to the size of a cache: some are tried. */
static int find_caches(struct fit *fit, const struct gyre_trial *trial, struct gyre_tuning *tuning,
                       uint32_t kinds)
{
    struct caches best = {tuning->own_cache_kib, tuning->shared_cache_kib}, c;
    int status = find_form(fit, trial, tuning, kinds);
    double least = sum_of_errors(fit);
    for (c.own_kib = CACHE_KIB_LEAST; c.own_kib < CACHE_KIB_MOST; c.own_kib = next_size(c.own_kib))
        for (c.shared_kib = 2 * c.own_kib; c.shared_kib <= CACHE_KIB_MOST;
             c.shared_kib = next_size(c.shared_kib)) {
            if (!status)
                status = try_caches(fit, trial, tuning, kinds, c);
            if (!status && sum_of_errors(fit) < least) {
                least = sum_of_errors(fit);
                best = c;
            }
        }
    return status ? status : try_caches(fit, trial, tuning, kinds, best);
}

static int try_window(struct fit *fit, const struct gyre_trial *trial, struct gyre_tuning *tuning,
                      uint32_t kinds, struct window window)
{
    tuning->window_kib = window.kib;
    tuning->spill_percent = window.spill_percent;
    int status = fill_rows_beyond(fit, trial, tuning);
    return status ? status : find_form(fit, trial, tuning, kinds);
}

/* Tries cache sizes as they are, and what bytes beyond cost more. */
static int find_spill(struct fit *fit, const struct gyre_trial *trial, struct gyre_tuning *tuning,
                      uint32_t kinds)
{
    static const uint64_t percents[] = {10, 20, 40, 60, 90, 140};
    struct window best = {tuning->window_kib, 0}, w;
    int status = try_window(fit, trial, tuning, kinds, best);
    double least = WINDOW_GAIN * sum_of_errors(fit);
    for (w.kib = WINDOW_KIB_LEAST; w.kib < WINDOW_KIB_MOST; w.kib = next_size(w.kib))
        for (size_t i = 0; !status && i < sizeof percents / sizeof *percents; i++) {
            w.spill_percent = percents[i];
            status = try_window(fit, trial, tuning, kinds, w);
            if (!status && sum_of_errors(fit) < least) {
                least = sum_of_errors(fit);
                best = w;
            }
        }
    return status ? status : try_window(fit, trial, tuning, kinds, best);
}

static int fit_prices(struct fit *fit, const struct gyre_trial *trial, struct gyre_tuning *tuning,
                      uint32_t kinds)
{
    int status = fill_rows(fit, trial, tuning);
    if (status)
        return status;
    if (kinds & 1u << GYRE_LINK_MAPPED)
        return find_caches(fit, trial, tuning, kinds);
    return kinds & 1u << GYRE_LINK_LOOPBACK ? find_spill(fit, trial, tuning, kinds)
                                            : find_form(fit, trial, tuning, kinds);
}

static int error_percent(const struct fit *fit)
{
    return (int)(100 * sum_of_errors(fit) / (fit->trials ? fit->trials : 1) + 0.5);
}

int gyre_fit(const struct gyre_trial *trial, uint32_t trials, struct gyre_tuning *tuning,
             uint32_t *kinds)
{
    struct fit fit = {.trials = trials,
                      .row = calloc((size_t)trials + 1, sizeof(double[PRICES_MAX])),
                      .weight = calloc((size_t)trials + 1, sizeof(double)),
                      .given = calloc((size_t)trials + 1, sizeof(double)),
                      .hidden = calloc((size_t)trials + 1, sizeof(double))};
    *kinds = list_prices(&fit, trial, tuning);
    int status = -ENOMEM;
    if (fit.row && fit.weight && fit.given && fit.hidden)
        status = fit_prices(&fit, trial, tuning, *kinds);
    set_prices(&fit);
    if (!status)
        status = error_percent(&fit);
    free(fit.row);
    free(fit.weight);
    free(fit.given);
    free(fit.hidden);
    return status;
}
