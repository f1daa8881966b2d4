/* Images on the CPU: what convolution and pooling do around their sums.
 *
 * An image is first copied between zeros, so that each line of each row that is spread is one run
 * of it, and a gradient is added up in such a copy before its middle is taken out. Tested by
 * tests/unit/model/layers/layers_test.c. */
#include "model/processor/inside.h"

#include <math.h>
#include <string.h>

static size_t padded_width(const struct gyre_window *w)
{
    return w->width + 2 * w->padding;
}

static size_t padded_height(const struct gyre_window *w)
{
    return w->height + 2 * w->padding;
}

static size_t padded_floats(const struct gyre_window *w)
{
    return w->channels * padded_height(w) * padded_width(w);
}

static size_t kernel_terms(const struct gyre_window *w)
{
    return w->channels * w->kernel * w->kernel;
}

/* -- spreading --------------------------------------------------------------------------------- */

/* Between the image and the same with zeros around it, whichever is const. */
static float *padded_row(const struct gyre_window *w, float *padded, size_t channel, size_t y)
{
    return padded + (channel * padded_height(w) + y + w->padding) * padded_width(w) + w->padding;
}

static void pad(const struct gyre_window *w, const float *x, float *padded)
{
    memset(padded, 0, padded_floats(w) * sizeof *padded);
    for (size_t c = 0; c < w->channels; c++)
        for (size_t y = 0; y < w->height; y++, x += w->width)
            memcpy(padded_row(w, padded, c, y), x, w->width * sizeof *x);
}

static void unpad(const struct gyre_window *w, float *padded, float *dx)
{
    for (size_t c = 0; c < w->channels; c++)
        for (size_t y = 0; y < w->height; y++, dx += w->width)
            memcpy(dx, padded_row(w, padded, c, y), w->width * sizeof *dx);
}

/* Where the element `at` of the kernel, of all channels' kernels, meets the first output. */
static size_t first_place(const struct gyre_window *w, size_t at)
{
    const size_t k = w->kernel;
    return (at / (k * k) * padded_height(w) + at / k % k) * padded_width(w) + at % k;
}

/* Lines are short, and a call of memcpy() for each would take longer than its work. */
static inline void copy_line(float *to, const float *from, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        memcpy(to + i, from + i, 8 * sizeof *to);
    if (count >= 8)
        memcpy(to + count - 8, from + count - 8, 8 * sizeof *to);
    else
        for (; i < count; i++)
            to[i] = from[i];
}

static void spread_rows(const struct gyre_window *w, const float *padded, float *to)
{
    const size_t width = padded_width(w), terms = kernel_terms(w), lines = w->out_height,
                 line = w->out_width;
    for (size_t at = 0; at < terms; at++) {
        const float *from = padded + first_place(w, at);
        for (size_t y = 0; y < lines; y++, to += line, from += width)
            copy_line(to, from, line);
    }
}

void gyre_host_spread(struct gyre_processor *on, const struct gyre_window *w, size_t samples,
                      enum gyre_precision precision, float *to, const float *x, float *padded)
{
    const size_t in = w->channels * w->height * w->width,
                 out = kernel_terms(w) * w->out_height * w->out_width;
    for (size_t s = 0; s < samples; s++) {
        pad(w, x + s * in, padded);
        if (precision != GYRE_PRECISION_F32)
            gyre_host_round(gyre_host_ops(on), precision, padded, padded, padded_floats(w));
        spread_rows(w, padded, to + s * out);
    }
}

static void gather_rows(const struct gyre_window *w, const float *from, float *padded)
{
    const size_t width = padded_width(w), terms = kernel_terms(w), line = w->out_width;
    memset(padded, 0, padded_floats(w) * sizeof *padded);
    for (size_t at = 0; at < terms; at++) {
        float *to = padded + first_place(w, at);
        for (size_t y = 0; y < w->out_height; y++, to += width, from += line)
            for (size_t x = 0; x < line; x++)
                to[x] += from[x];
    }
}

void gyre_host_gather(struct gyre_processor *on, const struct gyre_window *w, size_t samples,
                      float *x, const float *from, float *padded)
{
    const size_t in = w->channels * w->height * w->width,
                 out = kernel_terms(w) * w->out_height * w->out_width;
    for (size_t s = 0; s < samples; s++) {
        gather_rows(w, from + s * out, padded);
        unpad(w, padded, x + s * in);
    }
}

/* -- pooling ----------------------------------------------------------------------------------- */

static uint32_t greatest_at(const struct gyre_window *w, const float *plane, size_t y, size_t x)
{
    size_t best = y * w->width + x;
    for (size_t dy = 0; dy < w->kernel; dy++) {
        for (size_t dx = 0; dx < w->kernel; dx++) {
            size_t at = (y + dy) * w->width + x + dx;
            if (plane[at] > plane[best] || (isnan(plane[at]) && !isnan(plane[best])))
                best = at;
        }
    }
    return (uint32_t)best;
}

void gyre_host_pool(struct gyre_processor *on, const struct gyre_window *w, size_t samples,
                    float *y, uint32_t *where, const float *x)
{
    const size_t plane = w->height * w->width, places = w->out_height * w->out_width;
    for (size_t p = 0; p < samples * w->channels; p++, x += plane) {
        for (size_t at = 0; at < places; at++, y++, where++) {
            *where =
                greatest_at(w, x, at / w->out_width * w->stride, at % w->out_width * w->stride);
            *y = x[*where];
        }
    }
}

void gyre_host_pool_back(struct gyre_processor *on, const struct gyre_window *w, size_t samples,
                         float *dx, const float *dy, const uint32_t *where)
{
    const size_t plane = w->height * w->width, places = w->out_height * w->out_width;
    for (size_t p = 0; p < samples * w->channels; p++) {
        memset(dx, 0, plane * sizeof *dx);
        for (size_t at = 0; at < places; at++)
            dx[where[at]] += dy[at];
        dx += plane, dy += places, where += places;
    }
}
