/* Gyre's checkpoints: what a training goes on from after a stop, with any number of ranks.
 *
 *     gyre_checkpoint_create(&checkpoint, comm, NULL);
 *     gyre_checkpoint_add_network(checkpoint, net);             weights, optimiser, loss scale
 *     gyre_checkpoint_add_sampler(checkpoint, "sampler", sampler);
 *     gyre_checkpoint_add_f64(checkpoint, "best", &best);
 *     uint64_t step = 0;
 *     int status = gyre_checkpoint_load(checkpoint, "run1", &step);
 *     if (status && status != -ENOENT) ... gyre_error(NULL) tells why;  -ENOENT: a new run begins
 *     while (step < steps) {
 *         ... a step; step++ ...
 *         if (step % 100 == 0) gyre_checkpoint_save(checkpoint, "run1", step);
 *     }
 *     gyre_checkpoint_destroy(checkpoint);
 *
 * A program adds once what its training consists of. Saving and loading go through the same list,
 * which is the same on all ranks. A program with a model of its own adds its engine instead of a
 * network, and its optimiser's arrays as tensors.
 *
 * Rank 0 alone writes and reads, so no file system need be shared. The folder has generations, each
 * whole or not there at all: after a crash at any moment, the newest that is whole is loaded. The
 * model of a generation is a file that PyTorch loads (docs/checkpoints.md).
 *
 * Going on. With as many ranks as saved it, a training goes on bit for bit. With another number it
 * goes on from the same weights, optimiser and samples; sums over ranks are rounded otherwise then,
 * and what each rank had of its own cannot be given back (enum gyre_checkpoint_place). The learning
 * rate needs no place in the list, for it follows from the step (gyre_learning_rate_at()).
 *
 * The comments of calls are as in gyre.h. All calls on one checkpoint are for one thread. Whatever
 * fails is told by gyre_error(NULL), on all ranks alike.
 */
#ifndef GYRE_CHECKPOINT_H
#define GYRE_CHECKPOINT_H

#include <gyre/model.h>
#include <gyre/sampler.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gyre_checkpoint; /* the list of what a training consists of; opaque */

/* Begin with GYRE_CHECKPOINT_OPTIONS_INIT and set what you need. */
struct gyre_checkpoint_options {
    size_t size;   /* sizeof(struct gyre_checkpoint_options): lets it grow without breaking you */
    uint64_t keep; /* whole generations that stay in the folder, at least 1 */
};

#define GYRE_CHECKPOINT_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(struct gyre_checkpoint_options), 2                                                  \
    }

/* Makes an empty list for the ranks of `comm`. `options` may be NULL. Not collective.
 *   Ownership: the caller ends *checkpoint by gyre_checkpoint_destroy(), and uses it only while the
 *              communicator lives; on failure it is NULL.
 *   Errors:    GYRE_INVALID, -ENOMEM. */
GYRE_API int gyre_checkpoint_create(struct gyre_checkpoint **checkpoint, struct gyre_comm *comm,
                                    const struct gyre_checkpoint_options *options);

/* Frees the list and nothing that is on it. NULL is allowed. */
GYRE_API void gyre_checkpoint_destroy(struct gyre_checkpoint *checkpoint);

/* -- what a training consists of --------------------------------------------------------------- */

/* These calls are not collective, but every rank makes them in the same order.
 *   Ownership: names, shapes and texts are copied. Networks, engines, samplers and the memory of
 *              tensors and numbers stay the caller's, and live until the last save or load.
 *   Errors:    GYRE_INVALID (NULL, an unknown type, a text whose key is on the list), -ENOMEM. */

/* A network: weights and running means, all that its optimiser keeps, its loss scale, what its
 * engine keeps of gradients that travel as another type. It must have joined `comm` before the
 * first save or load. A checkpoint of a network with other layers or another method is refused.
 * Running means are those of rank 0, and after loading everybody's. */
GYRE_API int gyre_checkpoint_add_network(struct gyre_checkpoint *checkpoint,
                                         struct gyre_network *network);

/* The engine of a model of the caller's own: values of its parameters, as the model's file, and
 * what it keeps of gradients that travel as another type. Not for a network's engine. */
GYRE_API int gyre_checkpoint_add_ddp(struct gyre_checkpoint *checkpoint, struct gyre_ddp *ddp);

/* Where a tensor of the caller's is written, and who gets it when it is loaded. */
enum gyre_checkpoint_place {
    GYRE_CHECKPOINT_MODEL = 0,    /* the model's file: rank 0's, given to all */
    GYRE_CHECKPOINT_TRAINING = 1, /* the training's file: rank 0's, given to all */
    GYRE_CHECKPOINT_RANKS = 2 /* the training's file: each rank's own. Another number of ranks than
                                     saved it keeps what it has, and rank 0 logs a warning */
};

/* Tensors in the host's memory, of any type, described as parameters are (ddp.h). */
GYRE_API int gyre_checkpoint_add_tensors(struct gyre_checkpoint *checkpoint,
                                         enum gyre_checkpoint_place place,
                                         const struct gyre_ddp_parameter *tensor, int tensors);

/* Single numbers, as GYRE_CHECKPOINT_TRAINING. */
GYRE_API int gyre_checkpoint_add_i64(struct gyre_checkpoint *checkpoint, const char *name,
                                     int64_t *value);
GYRE_API int gyre_checkpoint_add_f64(struct gyre_checkpoint *checkpoint, const char *name,
                                     double *value);

/* A sampler's position. A checkpoint of another seed or number of samples is refused, for the
 * position would mean other samples. After loading the sampler stands there. */
GYRE_API int gyre_checkpoint_add_sampler(struct gyre_checkpoint *checkpoint, const char *name,
                                         struct gyre_sampler *sampler);

/* A text that whoever goes on must have, too, such as a hash of the data: a checkpoint with another
 * value for `key` is refused. One without `key` is taken. Rank 0's counts. */
GYRE_API int gyre_checkpoint_add_text(struct gyre_checkpoint *checkpoint, const char *key,
                                      const char *value);

/* -- saving and loading ------------------------------------------------------------------------ */

/* Saves a generation after `step` steps and makes `folder` if it is missing, not the folders above
 * it. Rank 0's `folder` counts. Then generations older than the newest `keep` whole ones are
 * removed. A generation of the same step is replaced. Between steps: behind the update of one,
 * before gyre_ddp_begin() of the next.
 *   Blocks:    until every rank has called it and the generation is on rank 0's disk.
 *   Errors:    GYRE_INVALID (within a step; a weight is NaN or infinite; two tensors of one
 *              name; the folder has a whole generation of a later step, which loading would
 *              take), GYRE_MISMATCH (ranks have
 *              other lists: the first difference is named), -errno, -ENOMEM, as gyre_all_reduce().
 *              Whatever was in the folder is still there. */
GYRE_API int gyre_checkpoint_save(struct gyre_checkpoint *checkpoint, const char *folder,
                                  uint64_t step);

/* Loads the newest whole generation: gives every rank what is on its list, and *step. Newer ones
 * that are damaged are passed over, each with a warning in rank 0's log that names file and reason.
 * All or nothing: what does not agree with the list is refused before anything is changed.
 *   Blocks:    until every rank has called it.
 *   Errors:    -ENOENT (the folder has no generation, or is missing), GYRE_INVALID (within a step;
 *              none is whole; another model, text or sampler, or a tensor is missing: the first
 *              difference is named), GYRE_MISMATCH, -errno, -ENOMEM, as gyre_all_reduce(). */
GYRE_API int gyre_checkpoint_load(struct gyre_checkpoint *checkpoint, const char *folder,
                                  uint64_t *step);

/* The number of ranks that saved what was loaded last; 0: nothing was. */
GYRE_API int gyre_checkpoint_world(const struct gyre_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif

#endif
