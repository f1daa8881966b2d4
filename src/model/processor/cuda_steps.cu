/* Steps of optimisers on a CUDA device: a span of numbers, or all that an optimiser has, in one
 * launch. Values and gradients of a whole step lie in stretches, moments behind each other:
 *
 *     stretch    ├──── 9 ────┤   ├─ 8 ─┤        ├──── 7 ────┤        in any memory
 *     range      ├──── 9 ────┼─ 8 ─┼──── 7 ────┤                     of the moments
 *     block      ├─ 2048 ─┼─ 2048 ─┼─ … ─┤       a thread finds the stretch of its first number
 *
 * A verdict, made by one thread behind the gradients, says whether all of a step is made, and by
 * which factor. Formulas are those of model/kernels/formulas.h, model/learning/scaler.c and
 * gyre_ddp_clip(). Tested by tests/kernel/processor.c and tests/program/cuda/train.sh. */
#include "model/processor/cuda_launch.inc"

#define EACH 8 /* numbers of a thread in a block's piece */

struct by_sgd {
    static __device__ __forceinline__ void step(float *value, float gradient, float *m, float *,
                                                const struct gyre_update &update)
    {
        if (update.momentum == 0) {
            gyre_sgd_plain(value, gradient, &update);
            return;
        }
        if (update.first)
            *m = 0;
        gyre_sgd_momentum(value, gradient, m, &update, update.nesterov);
    }
};

struct by_adam {
    static __device__ __forceinline__ void step(float *value, float gradient, float *m, float *v,
                                                const struct gyre_update &update)
    {
        gyre_adam(value, gradient, m, v, &update);
    }
};

struct by_adamw {
    static __device__ __forceinline__ void step(float *value, float gradient, float *m, float *v,
                                                const struct gyre_update &update)
    {
        gyre_adamw(value, gradient, m, v, &update, 1.0f - update.weight_decay);
    }
};

/* -- a span ------------------------------------------------------------------------------------ */

template <class Rule> struct stepped {
    float *value;
    const float *gradient;
    float *m, *v;
    struct gyre_update update;
    __device__ void element(uint64_t i) const
    {
        Rule::step(value + i, gradient[i], m + i, v + i, update);
    }
};

template <class Rule>
static void step_span(struct gyre_processor *on, float *value, const float *gradient, float *m,
                      float *v, size_t count, const struct gyre_update *update)
{
    for_each(on, stepped<Rule>{value, gradient, m, v, *update}, count);
}

/* -- stretches --------------------------------------------------------------------------------- */

struct all_stepped {
    const struct gyre_step_span *stretch;
    uint64_t count, all; /* stretches; numbers */
    float *m, *v;
    struct gyre_step_constants constants;
    const struct gyre_step_constants *judged; /* in place of them; NULL: they are as given */
};

/* The stretch that has number i of the range: the last that begins at or before it. */
static __device__ __forceinline__ uint64_t stretch_of(const struct all_stepped &given, uint64_t i)
{
    uint64_t low = 0, high = given.count;
    while (high - low > 1) {
        const uint64_t middle = (low + high) / 2;
        if (given.stretch[middle].at <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

template <class Rule>
static __global__ void __launch_bounds__(THREADS)
    step_all_kernel(const __grid_constant__ struct all_stepped given)
{
    const struct gyre_step_constants &constants = given.judged ? *given.judged : given.constants;
    const struct gyre_verdict *verdict = constants.verdict;
    if (verdict && !verdict->goes)
        return;
    struct gyre_update update = constants.update[0];
    if (verdict && verdict->applied != constants.known + 1)
        update = constants.update[1];
    if (verdict)
        update.factor = verdict->factor;
    for (uint64_t piece = (uint64_t)blockIdx.x * THREADS * EACH; piece < given.all;
         piece += (uint64_t)gridDim.x * THREADS * EACH) {
        uint64_t i = piece + threadIdx.x, s = i < given.all ? stretch_of(given, i) : 0;
        for (int k = 0; k < EACH && i < given.all; k++, i += THREADS) {
            while (s + 1 < given.count && given.stretch[s + 1].at <= i)
                s++;
            const struct gyre_step_span here = given.stretch[s];
            Rule::step(here.value + (i - here.at), here.gradient[i - here.at], given.m + i,
                       given.v + i, update);
        }
    }
}

template <class Rule>
static void launch_all(struct gyre_processor *on, const struct all_stepped &given)
{
    const uint64_t each = THREADS * EACH;
    launch<struct all_stepped>(on, (void (*)(struct all_stepped))step_all_kernel<Rule>,
                               grid_of(on, (given.all + each - 1) / each), dim3(THREADS), given);
}

static void step_all(struct gyre_processor *on, enum gyre_step_rule rule,
                     const struct gyre_step_spans *stretches, float *m, float *v,
                     const struct gyre_step_constants *constants, bool judged)
{
    const struct gyre_step_constants none = {};
    const struct all_stepped given = {
        stretches->stretch,         stretches->count,         stretches->numbers, m, v,
        judged ? none : *constants, judged ? constants : NULL};
    if (!stretches->numbers)
        return;
    if (rule == GYRE_RULE_SGD)
        launch_all<by_sgd>(on, given);
    else if (rule == GYRE_RULE_ADAM)
        launch_all<by_adam>(on, given);
    else
        launch_all<by_adamw>(on, given);
}

/* -- verdicts ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ bool finite_double(double x)
{
    return x - x == 0;
}

struct judged {
    const struct gyre_evidence *evidence;
    struct gyre_verdict *verdict;

    __device__ bool looks_good(double squares, int32_t bad) const
    {
        return !evidence->refused && bad < 0 && finite_double(squares) &&
               (!evidence->loss || finite_double(*evidence->loss));
    }

    /* The mean's factor, with what clipping asks for. */
    __device__ double clipped(double norm, double scale) const
    {
        const double factor = evidence->most * scale / (norm + 1e-6);
        return evidence->most > 0 && finite_double(norm) && factor < 1 ? evidence->factor * factor
                                                                       : evidence->factor;
    }

    __device__ void rescale(struct gyre_verdict *v) const
    {
        const float larger = (float)((double)v->scale * evidence->growth);
        if (!v->finite) {
            v->scale = (float)((double)v->scale * evidence->backoff);
            v->good = 0;
        } else if (++v->good == evidence->growth_interval) {
            v->scale = finite_double((double)larger) ? larger : v->scale;
            v->good = 0;
        }
    }

    __device__ void element(uint64_t) const
    {
        struct gyre_verdict v = *verdict;
        const double squares = evidence->squares ? *evidence->squares : 0, scale = (double)v.scale;
        const bool scaled = evidence->growth_interval > 0;
        v.norm = sqrt(squares) * evidence->factor;
        v.bad = evidence->bad ? *evidence->bad : -1;
        v.finite = looks_good(squares, v.bad);
        v.stuck = v.stuck || (!v.finite && !scaled);
        v.goes = v.finite && !v.stuck && !evidence->skips;
        v.factor = (float)(clipped(v.norm, scale) * (double)(float)(1 / scale));
        v.applied += (uint64_t)v.goes;
        if (scaled)
            rescale(&v);
        *verdict = v;
    }
};

static void judge_step(struct gyre_processor *on, const struct gyre_evidence *evidence,
                       struct gyre_verdict *verdict)
{
    for_each(on, judged{evidence, verdict}, 1);
}

/* -- the table --------------------------------------------------------------------------------- */

extern "C" bool gyre_cuda_fill_steps(struct gyre_processor_table *table)
{
    table->sgd = step_span<by_sgd>;
    table->adam = step_span<by_adam>;
    table->adamw = step_span<by_adamw>;
    table->step_all = step_all;
    table->judge = judge_step;
    return true;
}

extern "C" void gyre_cuda_load_steps(void)
{
    const struct gyre_update update = {};
    const struct gyre_step_spans one = {NULL, 1, 1};
    const struct gyre_step_constants constants = {};
    step_span<by_sgd>(NULL, NULL, NULL, NULL, NULL, 1, &update);
    step_span<by_adam>(NULL, NULL, NULL, NULL, NULL, 1, &update);
    step_span<by_adamw>(NULL, NULL, NULL, NULL, NULL, 1, &update);
    for (int rule = GYRE_RULE_SGD; rule <= GYRE_RULE_ADAMW; rule++)
        step_all(NULL, (enum gyre_step_rule)rule, &one, NULL, NULL, &constants, false);
    judge_step(NULL, NULL, NULL);
}
