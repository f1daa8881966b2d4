/* A pattern that is different in each of its words, and for each writer, so that pages in another
 * order, pages of somebody else's and old bytes are all seen.
 *
 *     region   pattern │ mark of place 0 │ mark of place 1 │ …      a piece each
 *
 * A peer copies by way of memory of its own device, as its operations do. Where that memory would
 * be classic, host memory takes its place: to allocate and free classic memory may wait for all
 * work of the device, and the owner of the region waits here.
 *
 * Tested by tests/program/cuda/unshared.c. */
#include "transport/memory/proof.h"

#include "base/rng.h"
#include "transport/memory/copy_queue.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (64u << 10)
#define PIECE_WORDS (PIECE_BYTES / 8)
#define OWNER       UINT32_MAX /* as a writer; a peer is its place */

struct proof {
    struct gyre_copy_queue *copy_queue;
    struct gyre_region own; /* of the peer's device; empty: the host alone */
    uint64_t *words;        /* the host's */
    struct gyre_trouble *trouble;
};

uint64_t gyre_proof_bytes(uint32_t ranks)
{
    return (1 + (uint64_t)ranks) * PIECE_BYTES;
}

static char *writer_place(const struct gyre_region *region, uint32_t writer)
{
    return (char *)region->base + (writer == OWNER ? 0 : gyre_proof_bytes(writer));
}

static uint64_t word_of(uint32_t writer, uint32_t index)
{
    return gyre_mix64((uint64_t)writer << 32 | index);
}

/* -- copies ------------------------------------------------------------------------------------ */

static int copy_in_proof(const struct proof *proof, void *to, const void *from)
{
    uint64_t ticket;
    int status, done = 0;
    while ((status = gyre_copy_queue_copy(proof->copy_queue, to, from, PIECE_BYTES, &ticket)) ==
           GYRE_AGAIN)
        sched_yield();
    while (!status && !(done = gyre_copy_queue_done(proof->copy_queue, ticket)))
        sched_yield();
    status = done < 0 ? done : status;
    return status ? gyre_trouble_set(proof->trouble, status, "%s",
                                     gyre_copy_queue_message(proof->copy_queue))
                  : 0;
}

static int bring(const struct proof *proof, void *to, uint32_t writer)
{
    for (uint32_t i = 0; i < PIECE_WORDS; i++)
        proof->words[i] = word_of(writer, i);
    if (!proof->own.base)
        return copy_in_proof(proof, to, proof->words);
    int status = copy_in_proof(proof, proof->own.base, proof->words);
    return status ? status : copy_in_proof(proof, to, proof->own.base);
}

static int fetch_words(const struct proof *proof, const void *from)
{
    memset(proof->words, 0, PIECE_BYTES);
    if (!proof->own.base)
        return copy_in_proof(proof, proof->words, from);
    int status = copy_in_proof(proof, proof->own.base, from);
    return status ? status : copy_in_proof(proof, proof->words, proof->own.base);
}

/* What was fetched is what that writer wrote. */
static int compare_words(const struct proof *proof, uint32_t writer)
{
    uint32_t wrong = 0, first = 0;
    for (uint32_t i = PIECE_WORDS; i-- > 0;)
        if (proof->words[i] != word_of(writer, i)) {
            first = i;
            wrong++;
        }
    if (!wrong)
        return 0;
    return gyre_trouble_set(proof->trouble, GYRE_CORRUPT,
                            "%u of %u words came out wrong when copies between devices were tried, "
                            "the first at byte %u (an IOMMU or a virtual machine may do that)",
                            wrong, PIECE_WORDS, first * 8);
}

/* -- a trial ----------------------------------------------------------------------------------- */

static int open_proof(struct proof *proof, struct gyre_copy_queue *copy_queue,
                      struct gyre_trouble *trouble)
{
    *proof =
        (struct proof){.copy_queue = copy_queue, .words = malloc(PIECE_BYTES), .trouble = trouble};
    return proof->words ? 0 : gyre_trouble_set(trouble, -ENOMEM, "no memory to try copies with");
}

int gyre_proof_begin(struct gyre_copy_queue *copy_queue, const struct gyre_region *region,
                     struct gyre_trouble *trouble)
{
    struct proof proof;
    int status = open_proof(&proof, copy_queue, trouble);
    if (!status)
        status = bring(&proof, writer_place(region, OWNER), OWNER);
    free(proof.words);
    return status;
}

int gyre_proof_answer(struct gyre_copy_queue *copy_queue, const struct gyre_region *region,
                      uint32_t place, struct gyre_trouble *trouble)
{
    struct proof proof;
    const struct gyre_device *device = gyre_device_of(region->kind);
    int status = open_proof(&proof, copy_queue, trouble);
    if (!status && region->length < gyre_proof_bytes(place + 1))
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "memory to try copies with has no place for rank %u of the node",
                                  place);
    if (!status && device->exports(region->device))
        status = device->alloc(region->device, PIECE_BYTES, GYRE_SHARE_OPEN, &proof.own, trouble);
    if (!status)
        status = fetch_words(&proof, writer_place(region, OWNER));
    if (!status)
        status = compare_words(&proof, OWNER);
    if (!status)
        status = bring(&proof, writer_place(region, place), place);
    device->free(&proof.own);
    free(proof.words);
    return status;
}

int gyre_proof_end(struct gyre_copy_queue *copy_queue, const struct gyre_region *region,
                   uint32_t place, struct gyre_trouble *trouble)
{
    struct proof proof;
    int status = open_proof(&proof, copy_queue, trouble);
    if (!status)
        status = fetch_words(&proof, writer_place(region, place));
    if (!status)
        status = compare_words(&proof, place);
    free(proof.words);
    return status;
}
