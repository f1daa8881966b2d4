/* Roster, report and plan, as bytes.
 *
 *     roster   nonce 32 │ identity of rank 0 │ … │ identity of rank n - 1
 *     report   address │ why: length 2, text │ a bit per lower rank
 *     plan     n × (node 4 │ address)
 *
 * A record that is longer than its fields is refused, as one that is shorter. A plan numbers nodes
 * by their lowest rank, so a rank's node is one of the nodes before it or the next new one.
 *
 * Tested by tests/fuzz/join.c and tests/program/job/join.c. */
#include "transport/join/records.h"

static int all_read(const struct gyre_cursor *in)
{
    return in->bad || in->at != in->end ? GYRE_CORRUPT : 0;
}

size_t gyre_roster_bytes(uint32_t n)
{
    return GYRE_NONCE_BYTES + n * gyre_identity_bytes();
}

void gyre_roster_encode(const uint8_t nonce[GYRE_NONCE_BYTES],
                        const struct gyre_rank_identity *identity, uint32_t n, uint8_t *out)
{
    struct gyre_cursor cursor = gyre_cursor_over(out, gyre_roster_bytes(n));
    gyre_put_bytes(&cursor, nonce, GYRE_NONCE_BYTES);
    for (uint32_t rank = 0; rank < n; rank++)
        gyre_identity_put(&cursor, &identity[rank]);
}

int gyre_roster_decode(const struct gyre_record *record, uint32_t n,
                       uint8_t nonce[GYRE_NONCE_BYTES], struct gyre_rank_identity *identity)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    gyre_get_bytes(&in, nonce, GYRE_NONCE_BYTES);
    for (uint32_t rank = 0; rank < n; rank++)
        gyre_identity_get(&in, &identity[rank]);
    return all_read(&in);
}

static size_t share_bytes(uint32_t rank)
{
    return ((size_t)rank + 7) / 8;
}

size_t gyre_join_report_bytes(uint32_t rank)
{
    return GYRE_ADDRESS_BYTES + 2 + GYRE_JOIN_WHY_MAX + share_bytes(rank);
}

size_t gyre_join_report_encode(const struct gyre_join_report *report, uint32_t rank, uint8_t *out)
{
    struct gyre_cursor cursor = gyre_cursor_over(out, gyre_join_report_bytes(rank));
    gyre_address_put(&cursor, &report->address);
    gyre_put_text(&cursor, report->why, sizeof report->why);
    gyre_put_bytes(&cursor, report->shares, share_bytes(rank));
    return (size_t)(cursor.at - out);
}

int gyre_join_report_decode(const struct gyre_record *record, uint32_t rank,
                            struct gyre_join_report *report)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    gyre_address_get(&in, &report->address);
    gyre_get_text(&in, report->why, sizeof report->why);
    report->shares = gyre_cursor_skip(&in, share_bytes(rank));
    return all_read(&in);
}

size_t gyre_plan_bytes(uint32_t n)
{
    return n * (4 + (size_t)GYRE_ADDRESS_BYTES);
}

void gyre_plan_encode(const struct gyre_member *member, uint32_t n, uint8_t *out)
{
    struct gyre_cursor cursor = gyre_cursor_over(out, gyre_plan_bytes(n));
    for (uint32_t rank = 0; rank < n; rank++) {
        gyre_put_u64(&cursor, member[rank].node, 4);
        gyre_address_put(&cursor, &member[rank].address);
    }
}

int gyre_plan_decode(const struct gyre_record *record, uint32_t n, struct gyre_member *member)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < n; rank++) {
        member[rank].node = (uint32_t)gyre_get_u64(&in, 4);
        gyre_address_get(&in, &member[rank].address);
        if (member[rank].node > nodes)
            return GYRE_CORRUPT;
        nodes += member[rank].node == nodes;
    }
    return all_read(&in);
}
