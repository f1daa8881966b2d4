/* Data-parallel training of whatever has gradients: here a parabola, differentiated by hand.
 *
 *     gyre run -n 2 build/examples/bring_your_own
 *
 * gyre/ddp.h wants names, shapes and addresses of parameters, and in each step the gradient of the
 * SUM of this rank's losses, written to the place that gyre_ddp_gradient() tells. The last
 * parameter's gradient is written first and travels while the next is still being computed. What
 * comes back is the mean over all samples of all ranks. */
#include <gyre/ddp.h>

#include <stdio.h>

#define SAMPLES 200 /* of all ranks; each takes every n-th */
#define STEPS   200

enum { CURVE, OFFSET, PARAMETERS }; /* y = curve[0] t + curve[1] t² + offset */

static const double wanted[] = {0.5, -2, 1};

/* Puts one gradient of the squared error in its place and sends it off. */
static int send_gradient(struct gyre_ddp *ddp, int parameter, const double *sums, int count)
{
    double *gradient = gyre_ddp_gradient(ddp, parameter);
    for (int i = 0; i < count; i++)
        gradient[i] = sums[i];
    return gyre_ddp_ready(ddp, parameter);
}

/* This rank's samples, forward and backward: d loss / d curve[0] = 2 error t, and so on. */
static int learn(struct gyre_comm *comm, struct gyre_ddp *ddp, const double *curve, double offset)
{
    double curve_sums[2] = {0, 0}, offset_sum = 0, loss = 0;
    uint64_t samples = 0;
    for (int i = gyre_rank(comm); i < SAMPLES; i += gyre_size(comm), samples++) {
        double t = 2.0 * i / SAMPLES - 1;
        double error =
            (curve[0] - wanted[0]) * t + (curve[1] - wanted[1]) * t * t + offset - wanted[2];
        loss += error * error;
        curve_sums[0] += 2 * error * t;
        curve_sums[1] += 2 * error * t * t;
        offset_sum += 2 * error;
    }
    return gyre_ddp_begin(ddp, samples) || gyre_ddp_add(ddp, 0, loss) ||
           (samples && (send_gradient(ddp, OFFSET, &offset_sum, 1) ||
                        send_gradient(ddp, CURVE, curve_sums, 2))) ||
           gyre_ddp_wait(ddp);
}

/* Plain descent. Every rank does the same with the same gradient, so values stay the same. */
static void update(struct gyre_ddp *ddp, double *curve, double *offset)
{
    const double *gradient = gyre_ddp_gradient(ddp, CURVE);
    for (int i = 0; i < 2; i++)
        curve[i] -= 0.3 * gradient[i];
    *offset -= 0.3 * *(const double *)gyre_ddp_gradient(ddp, OFFSET);
}

int main(void)
{
    double curve[2] = {0, 0}, offset = 0, loss = 1;
    struct gyre_ddp *ddp = NULL;
    struct gyre_comm *comm;
    const struct gyre_ddp_parameter parameter[PARAMETERS] = {
        [CURVE] = {"curve", GYRE_F64, 1, {2}, curve},
        [OFFSET] = {"offset", GYRE_F64, 0, {0}, &offset},
    };

    if (gyre_init(&comm, NULL)) {
        fprintf(stderr, "bring_your_own: %s\n", gyre_error(NULL));
        return 1;
    }
    int failed = gyre_ddp_create(&ddp, comm, parameter, PARAMETERS, NULL);
    for (int step = 0; !failed && step < STEPS; step++) {
        failed = learn(comm, ddp, curve, offset);
        if (failed)
            break;
        update(ddp, curve, &offset);
        loss = gyre_ddp_result(ddp)->sum[0] / (double)gyre_ddp_result(ddp)->samples;
        if (gyre_rank(comm) == 0 && step % 50 == 49)
            printf("step %3d  loss %.9f\n", step + 1, loss);
    }
    if (failed)
        fprintf(stderr, "bring_your_own: %s\n", gyre_error(comm));
    else if (gyre_rank(comm) == 0)
        printf("y = %.3f t %+.3f t^2 %+.3f\n", curve[0], curve[1], offset);
    gyre_ddp_destroy(ddp);
    return gyre_finalize(comm) || failed || loss > 1e-3;
}
