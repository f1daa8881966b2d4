/* EXCHANGE: up to 4 KiB of INPUT per rank, in the entry lines.
 *
 *      rank 0:  payload, stamp ──▶ ┌ line of 0 │ 48 bytes, or a payload in the inbox ┐ ──▶ 1 folds
 *      rank 1:  payload, stamp ──▶ └ line of 1 │ …                                   ┘ ──▶ 0 folds
 *
 * Every rank puts its INPUT into its line, stamps the line with the turn, and folds the others'
 * lines: one trip of a cache line between two cores. A rank writes its own OUTPUT only, and its
 * INPUT has been copied out before, so any rank may run in place. Tested by tests/sim/mesh.c. */
#include "collectives/mapped/exchange.h"

#include "base/copy.h"
#include "base/machine/cpu.h"

static bool fits_line(const struct gyre_plan *plan)
{
    return plan->exchange.line_bytes <= GYRE_LINE_PAYLOAD;
}

/* Where a peer, whose line of the turn has come, shows its INPUT. */
static const uint8_t *payload_of(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                                 uint32_t rank, uint64_t turn)
{
    const struct gyre_line *line = gyre_peer_line(mesh, rank, turn);
    bool in_line =
        fits_line(plan) && atomic_load_explicit(&line->stamp, memory_order_relaxed) == turn;
    return in_line ? line->payload : gyre_exchange_payload(mesh, rank, turn);
}

static uint8_t *own_payload(struct gyre_mesh *mesh, const struct gyre_plan *plan, uint64_t turn)
{
    return fits_line(plan) ? gyre_own_line(mesh, turn)->payload
                           : gyre_exchange_payload(mesh, mesh->rank, turn);
}

/* Writes this rank's line. A rank whose INPUT no rank reads stamps its line too, so that a peer in
 * another operation notices the mismatch. */
void gyre_exchange_publish(struct gyre_mesh *mesh, const struct gyre_plan *plan, const void *input,
                           uint64_t fingerprint)
{
    struct gyre_line *line = gyre_own_line(mesh, mesh->turn);
    if (plan->exchange.published_bytes)
        gyre_copy(own_payload(mesh, plan, mesh->turn), input, plan->exchange.published_bytes);
    if (mesh->all_devices && fits_line(plan) && plan->exchange.published_bytes)
        gyre_copy(gyre_exchange_payload(mesh, mesh->rank, mesh->turn), input,
                  plan->exchange.published_bytes);
    line->fingerprint = fingerprint;
    atomic_store_explicit(&line->stamp, mesh->turn, memory_order_release);
}

static void exchange_fold(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                          const uint8_t *input, uint8_t *output)
{
    for (uint32_t m = 0; m < plan->exchange.moves->moves; m++) {
        const struct gyre_move *move = &plan->exchange.moves->move[m];
        const struct gyre_block_ref *end = move->destination;
        const void *from[GYRE_PEERS_MAPPED_MAX];
        void *to = output + gyre_plan_block_at(plan, end->block) + end->offset;
        uint64_t bytes = gyre_part_bytes(plan, 0, end->block, end->offset, move->length);
        for (uint32_t s = 0; s < move->sources; s++) {
            const struct gyre_block_ref *ref = &move->source[s];
            const uint8_t *base =
                ref->rank == mesh->rank ? input : payload_of(mesh, plan, ref->rank, mesh->at);
            from[s] = base + gyre_exchange_at(plan, ref);
        }
        if (bytes)
            gyre_turn_fold(plan, &to, 1, from, move->sources, bytes, false);
    }
}

/* Fetches the lines that the next turn of the same kind will write. */
static void prefetch_next(struct gyre_mesh *mesh, const struct gyre_plan *plan)
{
    const uint8_t *payload = own_payload(mesh, plan, mesh->turn + 1);
    gyre_prefetch_to_write(gyre_own_line(mesh, mesh->turn + 1));
    for (uint64_t at = 0; at < plan->exchange.published_bytes; at += 64)
        gyre_prefetch_to_write(payload + at);
}

int gyre_exchange_begin(struct gyre_mesh *mesh, const struct gyre_plan *plan, const void *input,
                        struct gyre_op_name name)
{
    if (!gyre_turn_is_free(mesh, mesh->turn + 1))
        return GYRE_AGAIN;
    mesh->at = ++mesh->turn;
    gyre_exchange_publish(mesh, plan, input, name.fingerprint);
    prefetch_next(mesh, plan);
    gyre_domain_ring(mesh->domain);
    return 0;
}

/* Waits for the lines that this rank folds. GYRE_AGAIN: one has not come after `spins` looks. */
static int await_lines(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                       struct gyre_op_name name, uint32_t spins)
{
    for (uint32_t m = 0; m < plan->exchange.moves->moves; m++)
        for (uint32_t s = 0; s < plan->exchange.moves->move[m].sources; s++) {
            uint32_t rank = plan->exchange.moves->move[m].source[s].rank;
            int state = rank == mesh->rank ? 0 : gyre_line_state(mesh, rank, name.fingerprint);
            for (uint32_t i = 0; state == GYRE_AGAIN && i < spins; i++) {
                gyre_pause_between_looks(i);
                state = gyre_line_state(mesh, rank, name.fingerprint);
            }
            if (state == GYRE_MISMATCH)
                gyre_turn_mismatch(mesh, rank, name.sequence);
            if (state)
                return state;
        }
    return 0;
}

bool gyre_exchange_ready(struct gyre_mesh *mesh, const struct gyre_plan *plan,
                         struct gyre_op_name name, bool begun)
{
    if (!begun)
        return gyre_turn_is_free(mesh, mesh->turn + 1);
    return await_lines(mesh, plan, name, 0) != GYRE_AGAIN;
}

int gyre_exchange_finish(struct gyre_mesh *mesh, const struct gyre_plan *plan, const void *input,
                         void *output, struct gyre_op_name name, uint32_t spins)
{
    int status = await_lines(mesh, plan, name, spins);
    if (status)
        return status;
    exchange_fold(mesh, plan, input, output);
    gyre_turn_end(mesh, mesh->at);
    return 0;
}
