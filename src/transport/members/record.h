/* The records by which members agree, as bytes. */
#ifndef GYRE_TRANSPORT_MEMBERS_RECORD_H
#define GYRE_TRANSPORT_MEMBERS_RECORD_H

#include "transport/members/membership.h"
#include "transport/members/members.h"
#include "transport/net/talk.h"

#include <stddef.h>

/* Kinds of records on a connection of purpose MEMBERS. All but CUT_OFF carry a statement. */
enum gyre_member_record {
    GYRE_MEMBER_CALL = 32, /* to the coordinator: this member takes part */
    GYRE_MEMBER_PROBE,     /* of the coordinator: how do you stand? */
    GYRE_MEMBER_ANSWER,    /* how the answering member stands */
    GYRE_MEMBER_VIEW,      /* of the coordinator: the next view */
    GYRE_MEMBER_CUT_OFF    /* of the coordinator: too many members are silent */
};

/* | epoch 4 | seen 4 | coordinator 4 | leaving 1 | standing n | */
size_t gyre_statement_bytes(uint32_t n);
size_t gyre_statement_encode(const struct gyre_statement *statement, uint32_t n, uint8_t *out);

/* *statement points into the record. 0 or GYRE_CORRUPT. */
int gyre_statement_decode(const struct gyre_record *record, uint32_t n,
                          struct gyre_statement *statement);

/* Says a statement; 0 or as gyre_talk_say(), -ENOMEM. */
int gyre_statement_say(struct gyre_talk *talk, enum gyre_member_record kind,
                       const struct gyre_statement *statement, uint32_t n);

/* The statement of a member that takes part in no agreement. */
struct gyre_statement gyre_members_statement(const struct gyre_members *members);

#endif
