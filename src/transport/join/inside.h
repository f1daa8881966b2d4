/* The inside of join, for the files of this room only.
 *
 *     join.c      the entry: begins, hands events to their owners, ends
 *     root.c      rank 0: admits ranks, and tells all of them
 *     member.c    every rank's side of the protocol below
 *     mesh.c      TCP connections to the ranks of other nodes
 *     pair.c      Unix sockets to the ranks of this machine
 *     lobby.c     strangers on a listener, until they have proven the key
 *     guest.c     whether a process that has proven the key is a rank of this job
 *     seek.c      finds rank 0 among the places where it may listen (ranks above 0)
 *     place.c     where rank 0 is found: an address, or a file (place.h)
 *     loop.c      descriptors, control connections, losses: shared by all of these
 *     door.c      abstract Unix sockets, pages of memory to pass along, packets
 *     records.c   roster, report and plan, as bytes
 *     identity.c  other records by which ranks join, as bytes
 *     company.c   ranks that have found each other already
 *     joined.c    the result of a join
 *     options.c   the options of a join
 *
 * A file calls only files listed below it. Rank 0 is a member too: its two sides leave each other
 * records in an inbox, which join.c delivers. So all ranks follow one protocol:
 *
 *     member  ──▶  INTRODUCTION    who I am and where
 *     rank 0  ──▶  ROSTER          every rank's introduction, and the nonce of the session
 *                                  members meet over Unix sockets where they may
 *     member  ──▶  REPORT          with which ranks that worked, and where my data listener is
 *     rank 0  ──▶  PLAN            every rank's node and listener
 *                                  members of different nodes connect
 *     member  ──▶  DONE
 *     rank 0  ──▶  GO              the last record in this direction
 *
 *     at any time: WAITING (the missing ranks), FAILURE (the join has failed, and why),
 *     REFUSAL (you are not welcome, and why) */
#ifndef GYRE_TRANSPORT_JOIN_INSIDE_H
#define GYRE_TRANSPORT_JOIN_INSIDE_H

#include "transport/join/loop.h"
#include "transport/net/socket.h"

/* -- member.c ---------------------------------------------------------------------------------- */

int gyre_member_introduce(struct gyre_joining *join, struct gyre_talk *talk);
int gyre_member_hears(struct gyre_joining *join, const struct gyre_record *record); /* of rank 0 */

/* Ends a phase in which this rank has done its part, and tells rank 0. Called after each event. */
int gyre_member_advance(struct gyre_joining *join);

/* Tells rank 0 of a failure (not on rank 0 itself). `echo`: the failure is a broken connection,
 * whose cause may lie elsewhere. */
int gyre_member_tell_failure(struct gyre_joining *join, const struct gyre_trouble *failure,
                             bool echo);

/* -- lobby.c ----------------------------------------------------------------------------------- */

struct gyre_lobby_options {
    struct gyre_claim claim;
    uint8_t key[GYRE_KEY_BYTES];
    uint32_t slots, per_address;
    bool introduction; /* an arrival brings its first record */
    enum gyre_slot_owner owner;
};

/* A stranger that has proven the key. The owner takes or closes *talk, or refuses. */
struct gyre_arrival {
    struct gyre_io_slot *io_slot; /* the lobby's */
    struct gyre_talk *talk;
    struct gyre_record record;
};

struct gyre_lobby;
int gyre_lobby_create(struct gyre_joining *join, const struct gyre_lobby_options *options,
                      struct gyre_lobby **lobby);
int gyre_lobby_listen(struct gyre_lobby *lobby, int fd); /* takes `fd`; at most 4 */

int gyre_lobby_take_listener(struct gyre_lobby *lobby); /* gives the last one back; -1: none */

/* Serves a slot of this lobby. 0: *arrival is filled; GYRE_AGAIN: no stranger has arrived;
 * negative: the join fails. */
int gyre_lobby_ready(struct gyre_lobby *lobby, struct gyre_io_slot *io_slot,
                     struct gyre_arrival *arrival);

/* Tells the arrival the reason and hangs up. */
int gyre_lobby_refuse(struct gyre_lobby *lobby, const struct gyre_arrival *arrival,
                      const struct gyre_refusal *refusal);
void gyre_lobby_tick(struct gyre_lobby *lobby, uint64_t now); /* hangs up on silent strangers */
void gyre_lobby_destroy(struct gyre_lobby *lobby);

/* -- seek.c ------------------------------------------------------------------------------------ */

/* Blocks until rank 0 has proven itself over *talk. `purpose`: JOIN, or NEWCOMER: the waiting room
 * of a job that runs. */
int gyre_join_seek(struct gyre_joining *join, enum gyre_purpose purpose, struct gyre_talk *talk);

/* -- guest.c ----------------------------------------------------------------------------------- */

struct gyre_guest {
    struct gyre_claim claim;
    struct gyre_rank_identity identity;
    char configuration[GYRE_JOIN_CONFIG_MAX];
};

/* Reads the guest's introduction: 0 or GYRE_CORRUPT. */
int gyre_guest_read(const struct gyre_talk *talk, const struct gyre_record *record,
                    struct gyre_guest *guest);

/* Writes the text of refusal->code. GYRE_AGAIN: the job goes on without this guest. Negative: the
 * job cannot go on, and the trouble is set. */
int gyre_guest_refuse_rank(struct gyre_joining *join, const struct gyre_guest *guest,
                           struct gyre_refusal *refusal);

/* -- root.c ------------------------------------------------------------------------------------ */

int gyre_root_open(struct gyre_joining *join);
int gyre_root_ready(struct gyre_joining *join, struct gyre_io_slot *io_slot);
int gyre_root_hears(struct gyre_joining *join, uint32_t rank, const struct gyre_record *record);
int gyre_root_tick(struct gyre_joining *join);

/* Tells all ranks that the join has failed, also ranks that arrive from now on. */
void gyre_root_tell_failure(struct gyre_joining *join);

/* Whether ranks that have not been told may be on their way. */
bool gyre_root_lingers(const struct gyre_joining *join);
void gyre_root_close(struct gyre_joining *join);

/* -- door.c ------------------------------------------------------------------------------------ */

int gyre_door_open(const uint8_t name[16]);    /* a listening Unix socket, or -errno */
int gyre_door_connect(const uint8_t name[16]); /* a connection to one; -EPERM: another
                                                  user's; -EAGAIN: its backlog is full */
int gyre_door_answer(int door);                /* a connection that came, or -errno */

/* Make a file of `length` bytes for a peer, whose first page proves the rank that made it; try the
 * one that `rank` passed: 0, or the errno for which it is of no use. */
#define GYRE_PAGE_BYTES 4096u
int gyre_page_make(const uint8_t key[GYRE_KEY_BYTES], uint32_t rank, uint64_t length);
uint32_t gyre_page_try(const uint8_t key[GYRE_KEY_BYTES], uint32_t rank, uint64_t length, int fd);

/* Send or receive one packet, with two descriptors or without (NULL). receive: 0 with exactly
 * `length` bytes, absent descriptors -1; GYRE_AGAIN; -ECONNRESET for the end and for a packet of
 * another size. */
int gyre_packet_send(int socket_fd, const uint8_t *bytes, size_t length, const int fd[2]);
int gyre_packet_receive(int socket_fd, uint8_t *bytes, size_t length, int fd[2]);

/* -- pair.c ------------------------------------------------------------------------------------ */

/* open: before the introduction, makes the Unix socket of `mine`. start: after the roster. busy:
 * some pair is not decided yet. why: the first reason for a pair that cannot share, "" without one.
 * apart: how many ranks run on other machines.
 * settle: after the plan, closes sockets that are no channel of this node, and in a large node may
 * meet others. */
int gyre_pairing_open(struct gyre_joining *join, struct gyre_rank_identity *mine);
int gyre_pairing_start(struct gyre_joining *join);
int gyre_pairing_ready(struct gyre_joining *join, struct gyre_io_slot *io_slot);
int gyre_pairing_tick(struct gyre_joining *join);
bool gyre_pairing_busy(const struct gyre_joining *join);
const char *gyre_pairing_why(const struct gyre_joining *join);
uint32_t gyre_pairing_apart(const struct gyre_joining *join);
int gyre_pairing_settle(struct gyre_joining *join);
void gyre_pairing_close(struct gyre_joining *join);

/* -- mesh.c ------------------------------------------------------------------------------------ */

/* open: before the report, makes the data listener and says where it is. start: after the plan.
 * busy: some connection is missing. rest: all are there. */
int gyre_join_mesh_open(struct gyre_joining *join, struct sockaddr_storage *address);
int gyre_join_mesh_start(struct gyre_joining *join);
int gyre_join_mesh_ready(struct gyre_joining *join, struct gyre_io_slot *io_slot);
int gyre_join_mesh_tick(struct gyre_joining *join);
bool gyre_join_mesh_busy(const struct gyre_joining *join);
void gyre_join_mesh_rest(struct gyre_joining *join);
int gyre_join_mesh_take_listener(struct gyre_joining *join); /* -1: there is none */
void gyre_join_mesh_close(struct gyre_joining *join);

#endif
