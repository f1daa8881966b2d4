/* The kinds of records of a join; and those that speak of many ranks, as bytes: roster, report and
 * plan.
 *
 * Functions on bytes and structs alone: a reader takes a whole record or refuses it, and whoever
 * acts on it does so afterwards. */
#ifndef GYRE_TRANSPORT_JOIN_RECORDS_H
#define GYRE_TRANSPORT_JOIN_RECORDS_H

#include "transport/join/identity.h"
#include "transport/join/joined.h"

enum gyre_join_record {
    GYRE_JOIN_INTRODUCTION = 1,
    GYRE_JOIN_ROSTER,
    GYRE_JOIN_REPORT,
    GYRE_JOIN_PLAN,
    GYRE_JOIN_DONE,
    GYRE_JOIN_GO,
    GYRE_JOIN_WAITING,
    GYRE_JOIN_FAILURE,
    GYRE_JOIN_REFUSAL,
    GYRE_JOIN_WELCOME /* answers a proven data connection */
};

#define GYRE_JOIN_WHY_MAX 480 /* why memory cannot be shared */

/* A ROSTER: the nonce of the session, and the identities of all n ranks. */
size_t gyre_roster_bytes(uint32_t n);
void gyre_roster_encode(const uint8_t nonce[GYRE_NONCE_BYTES],
                        const struct gyre_rank_identity *identity, uint32_t n, uint8_t *out);
int gyre_roster_decode(const struct gyre_record *record, uint32_t n,
                       uint8_t nonce[GYRE_NONCE_BYTES], struct gyre_rank_identity *identity);

/* A REPORT: what a rank has found out about the ranks below it. */
struct gyre_join_report {
    struct sockaddr_storage address; /* of its data listener */
    char why[GYRE_JOIN_WHY_MAX];     /* the first reason for a pair that cannot share memory */
    const uint8_t *shares;           /* a bit per lower rank, set: they share memory */
};
size_t gyre_join_report_bytes(uint32_t rank); /* encoded, at most */
size_t gyre_join_report_encode(const struct gyre_join_report *report, uint32_t rank, uint8_t *out);
/* `shares` then points into the record. */
int gyre_join_report_decode(const struct gyre_record *record, uint32_t rank,
                            struct gyre_join_report *report);

/* A PLAN: node and address of all n members. Other fields of a member stay as they are. */
size_t gyre_plan_bytes(uint32_t n);
void gyre_plan_encode(const struct gyre_member *member, uint32_t n, uint8_t *out);
int gyre_plan_decode(const struct gyre_record *record, uint32_t n, struct gyre_member *member);

#endif
