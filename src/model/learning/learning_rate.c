/* See learning_rate.h. After the warm-up, PyTorch's StepLR and CosineAnnealingLR in closed form. */
#include "model/learning/learning_rate.h"

#include <math.h>

const char *const gyre_rate_names[] = {[GYRE_RATE_CONSTANT] = "constant",
                                       [GYRE_RATE_STEP] = "step",
                                       [GYRE_RATE_COSINE] = "cosine",
                                       NULL};

int gyre_rate_check(const struct gyre_learning_rate *s, struct gyre_trouble *trouble)
{
    if (gyre_check_size("gyre_learning_rate", s->size, sizeof *s, trouble))
        return GYRE_INVALID;
    if ((unsigned)s->kind > GYRE_RATE_COSINE)
        return gyre_trouble_set(trouble, GYRE_INVALID, "learning rate of kind %d: it is unknown",
                                (int)s->kind);
    if (!(s->rate >= 0) || isinf(s->rate))
        return gyre_trouble_set(trouble, GYRE_INVALID, "learning rate %g: expected 0 or more",
                                s->rate);
    if (s->kind == GYRE_RATE_STEP && (s->every == 0 || !(s->gamma > 0) || isinf(s->gamma)))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "learning rate times %g every %llu steps: expected a factor and a "
                                "number of steps, both more than 0",
                                s->gamma, (unsigned long long)s->every);
    if (s->kind == GYRE_RATE_COSINE &&
        (s->total <= s->warmup || !(s->least >= 0) || s->least > s->rate))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "learning rate by cosine from %g to %g in %llu steps after %llu of "
                                "warm-up: expected a fall, and more steps than the warm-up has",
                                s->rate, s->least, (unsigned long long)s->total,
                                (unsigned long long)s->warmup);
    return 0;
}

int gyre_learning_rate_check(const struct gyre_learning_rate *rate)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    if (!rate)
        return gyre_refuse("gyre_learning_rate_check: the learning rate is NULL");
    trouble->status = 0;
    return gyre_rate_check(rate, trouble);
}

double gyre_learning_rate_at(const struct gyre_learning_rate *s, uint64_t step)
{
    struct gyre_trouble ignored = {0};
    if (!s || gyre_rate_check(s, &ignored))
        return NAN;
    if (step < s->warmup)
        return s->rate * (double)(step + 1) / (double)s->warmup;
    step -= s->warmup;
    if (s->kind == GYRE_RATE_STEP)
        return s->rate * pow(s->gamma, (double)(step / s->every));
    if (s->kind == GYRE_RATE_COSINE) {
        const uint64_t length = s->total - s->warmup;
        if (step >= length)
            return s->least;
        const double angle = acos(-1.0) * (double)step / (double)length;
        return s->least + (s->rate - s->least) * (1 + cos(angle)) / 2;
    }
    return s->rate;
}
