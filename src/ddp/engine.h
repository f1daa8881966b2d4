/* What other rooms ask of an engine beside gyre/ddp.h. */
#ifndef GYRE_DDP_ENGINE_H
#define GYRE_DDP_ENGINE_H

#include <gyre/ddp.h>
#include <stdbool.h>

struct gyre_ddp_item { /* a parameter or a buffer */
    char *name;
    enum gyre_type type;
    int dimensions;
    uint64_t shape[GYRE_DDP_DIMENSIONS];
    uint64_t elements;
    void *value; /* the caller's */
};

/* The parameters, which live as long as the engine. */
uint32_t gyre_ddp_items(const struct gyre_ddp *ddp, const struct gyre_ddp_item **item);

struct gyre_comm *gyre_ddp_comm(const struct gyre_ddp *ddp);

/* Whether values, gradients and feedback are a CUDA device's. */
bool gyre_ddp_on_device(const struct gyre_ddp *ddp);

/* From that memory to the host's, and back, behind the work on the engine's stream. They wait.
 * Their failures are told by gyre_error(NULL). */
int gyre_ddp_bring_home(struct gyre_ddp *ddp, void *host, const void *from, uint64_t bytes);
int gyre_ddp_bring_there(struct gyre_ddp *ddp, void *to, const void *host, uint64_t bytes);

struct gyre_processor;

/* An engine on a device whose owner judges steps there. It asks for it before the first step.
 * gyre_ddp_wait() then leaves the norm there: gyre_ddp_result() has 0, and does not say of a sum
 * that it is not finite. Of one rank it leaves looks there, too, waits for nothing, and its passes
 * are launches of `owner`, who computes on the engine's stream. Otherwise the owner's stream has to
 * wait for the engine's passes before it uses gradients, or what was found. */
struct gyre_ddp_found {
    void *passes;          /* the stream behind whose work the rest is known; NULL: the owner's */
    const double *squares; /* of the sum of gradients; NULL: no norm was asked for */
    const int32_t *bad;    /* of looks; NULL: the result says it */
};

void gyre_ddp_leave_found(struct gyre_ddp *ddp, struct gyre_processor *owner);
struct gyre_ddp_found gyre_ddp_found(const struct gyre_ddp *ddp);

/* Whether gyre_ddp_ready() of this parameter will put work behind what is on the engine's stream: a
 * look, or the reduction of a bucket. What are launches of the owner are not meant. */
bool gyre_ddp_posts(const struct gyre_ddp *ddp, int parameter);

bool gyre_ddp_in_step(const struct gyre_ddp *ddp); /* between begin and wait */

#endif
