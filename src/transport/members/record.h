/* The records by which members agree, as bytes. */
#ifndef GYRE_TRANSPORT_MEMBERS_RECORD_H
#define GYRE_TRANSPORT_MEMBERS_RECORD_H

#include "transport/members/membership.h"
#include "transport/members/members.h"
#include "transport/net/address.h"
#include "transport/net/talk.h"

#include <stddef.h>

/* Kinds of records on a connection of purpose MEMBERS. All but the last two carry a statement. */
enum gyre_member_record {
    GYRE_MEMBER_CALL = 32, /* to the coordinator: this member takes part */
    GYRE_MEMBER_PROBE,     /* of the coordinator: how do you stand? */
    GYRE_MEMBER_ANSWER,    /* how the answering member stands */
    GYRE_MEMBER_VIEW,      /* of the coordinator: the next view */
    GYRE_MEMBER_CUT_OFF,   /* of the coordinator: too many members are silent */
    GYRE_MEMBER_SEATS      /* who sits on some seats; before a VIEW with newcomers */
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

/* Who sits on the seats from `first` on: | first 4 | count 4 | count × seat |, and a seat is
 * | address 24 | pid 4 | host 64 |. say: 0 or as gyre_talk_say(), -ENOMEM. read: writes at[first]
 * and those behind it, of n; all of them must be `least` or more. 0 or GYRE_CORRUPT. */
int gyre_seats_say(struct gyre_talk *talk, const struct gyre_seat *at, uint32_t first,
                   uint32_t count);
int gyre_seats_read(const struct gyre_record *record, uint32_t least, uint32_t n,
                    struct gyre_seat *at);
void gyre_seat_put(struct gyre_cursor *cursor, const struct gyre_seat *seat);
void gyre_seat_get(struct gyre_cursor *cursor, struct gyre_seat *seat);
enum { GYRE_SEAT_BYTES = GYRE_ADDRESS_BYTES + 4 + 64 };

/* The statement of a member that takes part in no agreement. */
struct gyre_statement gyre_members_statement(const struct gyre_members *members);

#endif
