/* The CPU as a processor: memory is the process's, work has ended when a call returns, and
 * arithmetic is that of ops.h and dense.h. Tested by tests/unit/model/layers/layers_test.c. */
#include "model/processor/inside.h"

#include "base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64 /* bytes */

static struct gyre_host_processor *host_of(struct gyre_processor *on)
{
    return (struct gyre_host_processor *)on;
}

static void host_close(struct gyre_processor *on)
{
    gyre_dense_destroy(host_of(on)->dense);
    free(on);
}

static const char *host_products(const struct gyre_processor *on)
{
    return gyre_dense_name(((const struct gyre_host_processor *)on)->dense);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void *host_alloc(struct gyre_processor *on, size_t bytes)
{
    uint64_t whole = gyre_round_up(bytes ? bytes : 1, LINE);
    void *memory = aligned_alloc(LINE, whole);
    return memory ? memset(memory, 0, whole) : NULL;
}

static void host_free(struct gyre_processor *on, void *memory)
{
    free(memory);
}

static int host_move(struct gyre_processor *on, void *to, const void *from, size_t bytes,
                     struct gyre_trouble *trouble)
{
    if (bytes && to != from)
        memcpy(to, from, bytes);
    return 0;
}

static int host_wait(struct gyre_processor *on, struct gyre_trouble *trouble)
{
    return 0;
}

static void host_copy(struct gyre_processor *on, void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void host_zero(struct gyre_processor *on, void *to, size_t bytes)
{
    memset(to, 0, bytes);
}

/* -- arithmetic -------------------------------------------------------------------------------- */

static void host_multiply(struct gyre_processor *on, const struct gyre_products *products)
{
    struct gyre_product each = products->first;
    for (size_t s = 0; s < products->count; s++) {
        gyre_dense_multiply(host_of(on)->dense, &each);
        each.a += products->a_step;
        each.b += products->b_step;
        each.c += products->c_step;
        if (!products->c_step)
            each.beta = 1;
    }
}

static void host_add_bias(struct gyre_processor *on, float *y, const float *bias, size_t rows,
                          size_t columns, bool relu)
{
    gyre_host_ops(on)->add_bias(y, bias, rows, columns, relu);
}

static void host_relu(struct gyre_processor *on, float *y, const float *x, size_t count)
{
    gyre_host_ops(on)->relu(y, x, count);
}

static void host_relu_back(struct gyre_processor *on, float *dx, const float *dy, const float *y,
                           size_t count)
{
    gyre_host_ops(on)->relu_back(dx, dy, y, count);
}

static void host_column_sums(struct gyre_processor *on, float *sums, const float *x, size_t rows,
                             size_t columns, bool accumulate)
{
    gyre_host_ops(on)->column_sums(sums, x, rows, columns, accumulate);
}

static void host_round(struct gyre_processor *on, enum gyre_precision precision, float *y,
                       const float *x, size_t count)
{
    gyre_host_round(gyre_host_ops(on), precision, y, x, count);
}

static double host_squares(struct gyre_processor *on, const float *x, size_t count)
{
    return gyre_host_ops(on)->squares(x, 0, count);
}

static void host_sgd(struct gyre_processor *on, float *value, const float *gradient, float *m,
                     float *v, size_t count, const struct gyre_update *update)
{
    gyre_host_ops(on)->sgd(value, gradient, m, v, count, update);
}

static void host_adam(struct gyre_processor *on, float *value, const float *gradient, float *m,
                      float *v, size_t count, const struct gyre_update *update)
{
    gyre_host_ops(on)->adam(value, gradient, m, v, count, update);
}

static void host_adamw(struct gyre_processor *on, float *value, const float *gradient, float *m,
                       float *v, size_t count, const struct gyre_update *update)
{
    gyre_host_ops(on)->adamw(value, gradient, m, v, count, update);
}

/* -- the table --------------------------------------------------------------------------------- */

/* A sample at a time: what was spread of one stays in the cache for its product. */
static const struct gyre_processor_table table = {
    .memory = GYRE_MEMORY_HOST,
    .spread_bytes = 0,
    .close = host_close,
    .products = host_products,
    .alloc = host_alloc,
    .free = host_free,
    .put = host_move,
    .get = host_move,
    .wait = host_wait,
    .copy = host_copy,
    .zero = host_zero,
    .multiply = host_multiply,
    .add_bias = host_add_bias,
    .relu = host_relu,
    .relu_back = host_relu_back,
    .column_sums = host_column_sums,
    .round = host_round,
    .squares = host_squares,
    .sgd = host_sgd,
    .adam = host_adam,
    .adamw = host_adamw,
    .fill_channels = gyre_host_fill_channels,
    .channel_sums = gyre_host_channel_sums,
    .spread = gyre_host_spread,
    .gather = gyre_host_gather,
    .pool = gyre_host_pool,
    .pool_back = gyre_host_pool_back,
    .norm_sums = gyre_host_norm_sums,
    .norm_mean = gyre_host_norm_mean,
    .norm_squares = gyre_host_norm_squares,
    .norm_variance = gyre_host_norm_variance,
    .norm_apply = gyre_host_norm_apply,
    .norm_back_sums = gyre_host_norm_back_sums,
    .norm_back = gyre_host_norm_back,
    .cross_entropy = gyre_host_cross_entropy,
    .squared_error = gyre_host_squared_error,
};

int gyre_host_open(struct gyre_processor **processor, struct gyre_trouble *trouble)
{
    struct gyre_host_processor *host = calloc(1, sizeof *host);
    if (!host)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for the CPU's arithmetic");
    host->base.table = &table;
    host->ops = gyre_ops();
    int status = gyre_dense_create(&host->dense, trouble);
    if (status)
        free(host);
    else
        *processor = &host->base;
    return status;
}
