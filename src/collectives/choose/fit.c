/* Fits prices to measured times.
 *
 * A predicted time is a sum of prices, each times a count:
 *
 *     time = 2 × latency + 2 × message + 128 × KiB + 192 × KiB folded          (a row per trial)
 *
 * The counts come from the model itself: it computes the time with one price at 1 and all others at
 * 0. The prices with the least squares of relative errors solve as many linear equations as there
 * are prices. A price that comes out below a twentieth of its likely value is noise and no machine;
 * it is held there, and the others are solved again. The likely value takes part as a very weak row
 * for each price. So prices that no trial tells apart (latency and message, with two ranks) keep
 * their likely proportion.
 *
 * Between machines the price of folds is not fitted but taken as it is: every byte that an
 * algorithm sends is folded, too, so trials do not tell the two apart. What went to the wrong one
 * would be missed where folds hide behind bytes of another slice.
 *
 * Tested by tests/unit/collectives/choose/tuning_test.c. */
#include "collectives/choose/fit.h"

#include <errno.h>
#include <stdlib.h>

#define PRICES_MAX (4 * GYRE_LINK_KINDS + 1)
#define FLOOR      0.05
#define PRIOR      0.001 /* a price off by all of itself weighs as much as a trial off by 0.1 % */

struct fit {
    uint32_t trials, prices;
    uint64_t *price[PRICES_MAX]; /* in the tuning */
    double unit[PRICES_MAX];     /* the value of the price while the model computes its row */
    double likely[PRICES_MAX], value[PRICES_MAX];
    double *row;   /* trials × PRICES_MAX, in shares of the trial's time */
    double *given; /* the share of each trial's time that prices which are not fitted explain */
};

static bool occurs(const struct gyre_trial *trial, uint32_t trials, int kind)
{
    for (uint32_t t = 0; t < trials; t++)
        if ((int)trial[t].near == kind || (int)trial[t].far == kind)
            return true;
    return false;
}

static void add_price(struct fit *fit, uint64_t *price, double unit)
{
    if (!*price)
        return; /* this kind of link has no such price */
    fit->price[fit->prices] = price;
    fit->unit[fit->prices] = unit;
    fit->likely[fit->prices] = fit->value[fit->prices] = (double)*price;
    fit->prices++;
}

static uint32_t list_prices(struct fit *fit, const struct gyre_trial *trial,
                            struct gyre_tuning *tuning)
{
    uint32_t kinds = 0;
    for (int kind = 0; kind < GYRE_LINK_KINDS; kind++) {
        if (!occurs(trial, fit->trials, kind))
            continue;
        kinds |= 1u << kind;
        add_price(fit, &tuning->link[kind].latency_ns, 1);
        add_price(fit, &tuning->link[kind].message_ns, 1);
        add_price(fit, &tuning->link[kind].grant_ns, 1);
        add_price(fit, &tuning->link[kind].kib_ps, 1024);
    }
    if (kinds & ~(1u << GYRE_LINK_MAPPED) && !(kinds & 1u << GYRE_LINK_NETWORK))
        add_price(fit, &tuning->fold_kib_ps, 1024);
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
    *ns = (double)cost.path.all / 1000;
    return status;
}

static int fill_rows(struct fit *fit, const struct gyre_trial *trial, struct gyre_tuning *tuning)
{
    struct gyre_walk walk = {0};
    int status = 0;
    for (uint32_t p = 0; p < fit->prices; p++)
        *fit->price[p] = 0;
    for (uint32_t t = 0; !status && t < fit->trials; t++) {
        status = ask_cost(&trial[t], tuning, &walk, &fit->given[t]);
        fit->given[t] /= trial[t].took_ns;
    }
    for (uint32_t p = 0; !status && p < fit->prices; p++) {
        *fit->price[p] = (uint64_t)fit->unit[p];
        for (uint32_t t = 0; !status && t < fit->trials; t++) {
            double ns;
            status = ask_cost(&trial[t], tuning, &walk, &ns);
            fit->row[t * PRICES_MAX + p] = (ns / trial[t].took_ns - fit->given[t]) / fit->unit[p];
        }
        *fit->price[p] = 0;
    }
    gyre_walk_deinit(&walk);
    return status;
}

static double predicted(const struct fit *fit, uint32_t t)
{
    double share = fit->given[t];
    for (uint32_t p = 0; p < fit->prices; p++)
        share += fit->row[t * PRICES_MAX + p] * fit->value[p];
    return share;
}

/* -- least squares ----------------------------------------------------------------------------- */

struct equations {
    double left[PRICES_MAX][PRICES_MAX], right[PRICES_MAX];
    uint32_t price[PRICES_MAX], count; /* the prices that are not held */
};

/* The share of a trial's time that the held prices explain, and those that are not fitted. */
static double held_share(const struct fit *fit, const bool *held, uint32_t t)
{
    double share = fit->given[t];
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
            double own = fit->row[t * PRICES_MAX + p] * fit->likely[p];
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

static int error_percent(const struct fit *fit)
{
    double sum = 0;
    for (uint32_t t = 0; t < fit->trials; t++)
        sum += predicted(fit, t) > 1 ? predicted(fit, t) - 1 : 1 - predicted(fit, t);
    return (int)(100 * sum / (fit->trials ? fit->trials : 1) + 0.5);
}

int gyre_fit(const struct gyre_trial *trial, uint32_t trials, struct gyre_tuning *tuning,
             uint32_t *kinds)
{
    struct fit fit = {.trials = trials,
                      .row = calloc((size_t)trials + 1, sizeof(double[PRICES_MAX])),
                      .given = calloc((size_t)trials + 1, sizeof(double))};
    *kinds = list_prices(&fit, trial, tuning);
    int status = fit.row && fit.given ? fill_rows(&fit, trial, tuning) : -ENOMEM;
    if (!status)
        find_prices(&fit);
    for (uint32_t p = 0; p < fit.prices; p++)
        *fit.price[p] = fit.value[p] < 1 ? fit.unit[p] > 1 : (uint64_t)(fit.value[p] + 0.5);
    if (!status)
        status = error_percent(&fit);
    free(fit.row);
    free(fit.given);
    return status;
}
