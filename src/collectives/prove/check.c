/* The checker's entry: all rounds of a proof at once, for one choice of in-place or for those that
 * matter. Tested by tests/unit/collectives/prove/check_test.c. */
#include "collectives/prove/check.h"

#include "collectives/prove/proof.h"

#include <errno.h>
#include <stdlib.h>

int gyre_check_ranks(const struct gyre_algorithm *algorithm, const struct gyre_slice *of_rank,
                     struct gyre_trouble *trouble)
{
    struct gyre_checker *proof;
    int status = gyre_proving_create(&proof, algorithm, of_rank, trouble);
    uint64_t rounds = status == 0 ? gyre_proving_rounds(proof) : 0;
    for (uint64_t i = 0; status == 0 && i < rounds; i++)
        status = gyre_proving_round(proof);
    if (status == 0)
        status = gyre_proving_end(proof);
    gyre_proving_destroy(proof);
    return status;
}

int gyre_check_schedule(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                        struct gyre_trouble *trouble)
{
    int status = gyre_proving_question(algorithm, slice, trouble);
    if (status != 0)
        return status;
    struct gyre_slice *of_rank = calloc(slice->n, sizeof *of_rank);
    if (of_rank == NULL)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to check %u ranks", slice->n);
    unsigned ways = slice->verb == GYRE_VERB_ALL_TO_ALL ? 3 : 1;
    for (unsigned way = 0; status == 0 && way < ways; way++) {
        for (uint32_t rank = 0; rank < slice->n; rank++) {
            of_rank[rank] = *slice;
            of_rank[rank].rank = rank;
            of_rank[rank].in_place = way == 1 || (way == 2 && rank % 2 == 1);
        }
        status = gyre_check_ranks(algorithm, of_rank, trouble);
    }
    free(of_rank);
    return status;
}
