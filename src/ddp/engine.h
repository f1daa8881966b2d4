/* What other rooms ask of an engine beside gyre/ddp.h. */
#ifndef GYRE_DDP_ENGINE_H
#define GYRE_DDP_ENGINE_H

#include "base/status.h"

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

/* An engine on a device whose owner computes on the engine's stream, told before the first step. Of
 * one rank the engine's passes are launches of `owner`; of several some are graphs if the step
 * `repeats`. gyre_ddp_ready() makes no looks: the owner makes those that the engine's options want,
 * by gyre_ddp_look_at(), before a bucket starts. GYRE_INVALID: as gyre_repeat_init(). */
int gyre_ddp_set_owner(struct gyre_ddp *ddp, struct gyre_processor *owner, bool repeats,
                       struct gyre_trouble *trouble);
bool gyre_ddp_wants_look(const struct gyre_ddp *ddp, int parameter); /* false without an owner */

/* The owner judges steps on the device, and says so before the first one. gyre_ddp_wait() then
 * leaves the norm there, unless ranks gather it: gyre_ddp_result() has 0, and does not say of a sum
 * that it is not finite. Of one rank it leaves looks there, too, and waits for nothing. Otherwise
 * the owner's stream has to wait for the engine's passes before it uses gradients, or what was
 * found. */
struct gyre_ddp_found {
    void *passes;           /* the stream behind whose work the rest is known; NULL: the owner's */
    const double *squares;  /* of the sum of gradients; NULL: no norm was asked for, or see below */
    const double *gathered; /* the same on the host, from all ranks of a sharded engine; or NULL */
    const int32_t *bad;     /* of looks; NULL: the result says it */
};

void gyre_ddp_leave_found(struct gyre_ddp *ddp);
struct gyre_ddp_found gyre_ddp_found(const struct gyre_ddp *ddp);

/* Whether gyre_ddp_ready() of this parameter, of an engine with an owner, will start the reduction
 * of a bucket behind what is on the engine's stream. */
bool gyre_ddp_posts(const struct gyre_ddp *ddp, int parameter);

bool gyre_ddp_in_step(const struct gyre_ddp *ddp); /* between begin and wait */
bool gyre_ddp_is_part(const struct gyre_ddp *ddp); /* gyre_ddp_no_sync() is on */

/* A moment in which no stream of this process is held, nor begins to be: what may wait for all work
 * of a device is called then. False: one is held, and there is nothing to end. */
bool gyre_ddp_quiet_begin(void);
void gyre_ddp_quiet_end(void);

/* Another number than before: values, gradients or buckets may have other places. */
uint64_t gyre_ddp_layout(const struct gyre_ddp *ddp);

#endif
