/* What the parts of join share. Included by join*.c only.
 *
 *     join.c         the one loop that serves all descriptors; beginning and end
 *     seek.c    find rank 0 among the places where it may listen (ranks above 0)
 *     place.c   where rank 0 is found: an address, or a file
 *     lobby.c   strangers on a listener, until they have proven the key
 *     guest.c   a proven guest at rank 0: a rank of this job? If not, why?
 *     root.c    rank 0: who is there, what everybody is told
 *     member.c  every rank's side of the protocol below
 *     pair.c    Unix sockets to the ranks of this machine; door.c: names, packets, pages
 *     mesh.c    TCP connections to the others
 *     identity.c    what is told, as bytes
 *
 * Rank 0 is a member too: what it tells all, it tells itself by a call, and so with what a member
 * tells rank 0. So there is one protocol:
 *
 *     member  ──▶  INTRODUCTION    who I am and where
 *     rank 0  ──▶  ROSTER          everybody's introduction, and the nonce of the session
 *                                  members meet over Unix sockets where they may
 *     member  ──▶  REPORT          with whom that worked, and where my data listener is
 *     rank 0  ──▶  PLAN            everybody's node and listener
 *                                  members of different nodes connect
 *     member  ──▶  DONE
 *     rank 0  ──▶  GO              the last record in this direction
 *
 *     at any time: WAITING (who is missing), FAILURE (the join has failed, and why),
 *     REFUSAL (you are not welcome, and why) */
#ifndef GYRE_TRANSPORT_JOIN_INSIDE_H
#define GYRE_TRANSPORT_JOIN_INSIDE_H

#include "base/clock.h"
#include "transport/join/join.h"
#include "transport/net/socket.h"
#include "transport/net/talk.h"

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
    GYRE_JOIN_WELCOME /* the answer to a proven data connection */
};

enum gyre_join_phase {
    GYRE_PHASE_GATHER, /* until the roster */
    GYRE_PHASE_PAIR,   /* until this rank's report */
    GYRE_PHASE_PLAN,   /* until the plan */
    GYRE_PHASE_MESH,   /* until this rank's done */
    GYRE_PHASE_GO,     /* until go */
    GYRE_PHASE_JOINED
};

#define GYRE_JOIN_SILENCE    (5 * GYRE_SECOND) /* a stranger proves itself within this */
#define GYRE_JOIN_SPACES     4                 /* namespaces compared: net, user, mnt, pid */
#define GYRE_JOIN_CONFIG_MAX 4096              /* bytes of a configuration that are compared */
#define GYRE_JOIN_TEXT_MAX   GYRE_TROUBLE_MAX
#define GYRE_JOIN_WHY_MAX    480 /* why memory cannot be shared */
#define GYRE_JOIN_WHO_MAX    160 /* "rank 3 on host (pid 7)" */

/* What a rank tells of itself; after the roster the same on every rank. */
struct gyre_rank_identity {
    char host[64];
    int32_t pid;
    uint32_t uid;
    uint8_t boot[16];                 /* of the running kernel: equal means one machine */
    uint64_t space[GYRE_JOIN_SPACES]; /* inode of each namespace, 0 unknown */
    int32_t simulated;                /* node as --simulate-nodes says, -1 */
    uint8_t door[16];                 /* name of its abstract Unix socket; zeros: it has none */
    uint8_t device[16];               /* UUID of its CUDA device; zeros: it has none */
    struct sockaddr_storage outward;  /* where its data listener should be; port 0 */
};

struct gyre_joining;

struct gyre_io_slot { /* one descriptor that the loop serves */
    int fd;           /* -1: empty */
    uint32_t events;
    uint32_t peer;
    /* Something can be done. 0, or negative: the join fails. */
    int (*ready)(struct gyre_joining *join, struct gyre_io_slot *io_slot);
};

struct gyre_control { /* a logged-in rendezvous connection */
    struct gyre_io_slot io_slot;
    struct gyre_talk talk;
};

struct gyre_root;
struct gyre_pairing;
struct gyre_join_mesh;

struct gyre_joining {
    const struct gyre_job *job;
    const struct gyre_join_options *options;
    struct gyre_trouble *trouble;
    struct gyre_joined *joined;
    struct gyre_rank_identity *identity; /* n */
    enum gyre_join_phase phase;
    int epoll;
    uint64_t now, started, deadline; /* deadline: of the rendezvous, then of each later phase */
    struct gyre_control *control;    /* rank 0: one per rank; others: [0] is rank 0 */
    uint32_t controls;
    uint8_t nonce[GYRE_NONCE_BYTES];  /* rank 0's, of the session */
    char waiting[GYRE_JOIN_TEXT_MAX]; /* whom rank 0 said it waits for */
    bool told;                        /* the failure came from rank 0 */
    uint64_t echo_until; /* not 0: a failure that may be an echo is held back until then */
    struct gyre_trouble echo;
    struct gyre_root *root;
    struct gyre_pairing *pairing;
    struct gyre_join_mesh *mesh;
};

/* -- join.c ------------------------------------------------------------------------------------ */

int gyre_join_add_slot(struct gyre_joining *join, struct gyre_io_slot *io_slot, int fd,
                       bool writable);
int gyre_join_rearm(struct gyre_joining *join, struct gyre_io_slot *io_slot, bool writable);
void gyre_join_remove_slot(struct gyre_joining *join,
                           struct gyre_io_slot *io_slot); /* closes nothing */
int gyre_join_serve_one(struct gyre_joining *join);       /* or waits 20 ms */

struct gyre_claim gyre_join_claim(const struct gyre_joining *join, enum gyre_purpose purpose,
                                  uint32_t stripe);
const char *gyre_join_who(const struct gyre_joining *join, uint32_t rank,
                          char text[GYRE_JOIN_WHO_MAX]);

/* What a phase after the roster may take, in nanoseconds. */
uint64_t gyre_join_phase_timeout(const struct gyre_joining *join);

/* -- member.c ----------------------------------------------------------------------------- */

int gyre_join_introduce(struct gyre_joining *join, struct gyre_talk *talk);

/* Takes *talk as the control connection at `index`. */
int gyre_join_control(struct gyre_joining *join, uint32_t index, struct gyre_talk *talk);

int gyre_member_hears(struct gyre_joining *join, const struct gyre_record *record); /* rank 0 */
int gyre_member_advance(struct gyre_joining *join); /* something was decided: is the phase over? */
void gyre_member_fails(struct gyre_joining *join, int status); /* tells rank 0 */

/* A connection inside the mesh broke. Rank 0 is told and decides whether that is the cause of a
 * failure or the echo of one. */
int gyre_join_lost(struct gyre_joining *join, uint32_t peer, const char *what);

/* -- identity.c: pure, but for gather --------------------------------------------------------- */

int gyre_identity_gather(const struct gyre_job *job, struct gyre_rank_identity *identity);
size_t gyre_identity_bytes(void); /* encoded */
void gyre_identity_put(struct gyre_cursor *cursor, const struct gyre_rank_identity *identity);
void gyre_identity_get(struct gyre_cursor *cursor, struct gyre_rank_identity *identity);

/* Of one machine, and of one simulated node? And in what may two that are still be apart? */
bool gyre_identity_one_machine(const struct gyre_rank_identity *a,
                               const struct gyre_rank_identity *b);
void gyre_identity_difference(const struct gyre_rank_identity *a,
                              const struct gyre_rank_identity *b, char *out, size_t size);

struct gyre_story { /* of a FAILURE */
    int32_t status;
    bool echo; /* of something else, perhaps */
    char text[GYRE_JOIN_TEXT_MAX];
};
#define GYRE_STORY_BYTES (4 + 4 + 2 + GYRE_JOIN_TEXT_MAX) /* encoded, at most */
size_t gyre_story_encode(const struct gyre_story *story, uint8_t out[GYRE_STORY_BYTES]);
int gyre_story_decode(const struct gyre_record *record, struct gyre_story *story);

/* Ranks into nodes: each rank joins a lower rank's node if it shares memory with all of that, or
 * opens a new one. `share` is a matrix of n × n bytes, symmetric. Nodes are numbered by their
 * lowest rank. Returns how many there are. */
uint32_t gyre_nodes_assign(uint32_t n, const uint8_t *share, uint32_t *node);

/* -- lobby.c ------------------------------------------------------------------------------ */

struct gyre_lobby_options {
    struct gyre_claim claim;
    uint8_t key[GYRE_KEY_BYTES];
    uint32_t slots, per_address;
    bool introduction; /* wait for the first record before admit() */
    /* A proven guest. 0: taken (*talk moved away). GYRE_AGAIN with *refusal filled: it is told so
     * and leaves, the join goes on. Negative: the join fails; if *refusal is filled, the guest is
     * told first. */
    int (*admit)(struct gyre_joining *join, struct gyre_talk *talk,
                 const struct gyre_record *record, struct gyre_refusal *refusal);
};

struct gyre_lobby;
int gyre_lobby_create(struct gyre_joining *join, const struct gyre_lobby_options *options,
                      struct gyre_lobby **lobby);
int gyre_lobby_listen(struct gyre_lobby *lobby, int fd);      /* takes it; at most 4 */
void gyre_lobby_tick(struct gyre_lobby *lobby, uint64_t now); /* hangs up on the silent */
void gyre_lobby_destroy(struct gyre_lobby *lobby);

/* -- place.c ------------------------------------------------------------------------------ */

struct gyre_rendezvous {
    int listener[4];
    int listeners;
    char file[520]; /* written by this process; "" if none */
};

/* open: rank 0 listens, and says where. close: removes the file, closes what it still holds. */
int gyre_rendezvous_open(struct gyre_joining *join, struct gyre_rendezvous *place);
void gyre_rendezvous_close(struct gyre_rendezvous *place);

/* Where rank 0 may be: writes at most `max` addresses with ports and returns how many. -EAGAIN:
 * that is not known yet. */
int gyre_rendezvous_find(struct gyre_joining *join, struct sockaddr_storage *out, int max,
                         struct gyre_trouble *trouble);

/* -- seek.c ------------------------------------------------------------------------------- */

/* Blocks until rank 0 has proven itself over *talk. */
int gyre_join_seek(struct gyre_joining *join, struct gyre_talk *talk);

/* -- guest.c ------------------------------------------------------------------------------ */

struct gyre_guest {
    struct gyre_claim claim;
    struct gyre_rank_identity identity;
    char configuration[GYRE_JOIN_CONFIG_MAX];
};

/* Reads its introduction: 0 or GYRE_CORRUPT. */
int gyre_guest_read(const struct gyre_talk *talk, const struct gyre_record *record,
                    struct gyre_guest *guest);

/* Writes the text of refusal->code. GYRE_AGAIN: the job goes on without this guest. Negative: it
 * cannot, and the trouble is set. */
int gyre_guest_refuse_rank(struct gyre_joining *join, const struct gyre_guest *guest,
                           struct gyre_refusal *refusal);

/* -- root.c ------------------------------------------------------------------------------- */

int gyre_root_open(struct gyre_joining *join);
int gyre_root_hears(struct gyre_joining *join, uint32_t rank, const struct gyre_record *record);
int gyre_root_lost(struct gyre_joining *join, uint32_t rank); /* its control connection ended */
int gyre_root_tick(struct gyre_joining *join);
void gyre_root_fails(struct gyre_joining *join); /* tells all, and who comes within a second */
void gyre_root_close(struct gyre_joining *join);

/* -- door.c ------------------------------------------------------------------------------- */

int gyre_door_open(const uint8_t name[16]);    /* a listening Unix socket, or -errno */
int gyre_door_connect(const uint8_t name[16]); /* a connection to one; -EPERM: another user's */
int gyre_door_answer(int door);                /* a connection that came, or -errno */

/* A page to pass along, and whether the page that `rank` passed can be used: 0, or an errno. */
int gyre_page_make(const uint8_t key[GYRE_KEY_BYTES], uint32_t rank);
uint32_t gyre_page_try(const uint8_t key[GYRE_KEY_BYTES], uint32_t rank, int fd);

/* One packet, with two descriptors or without (NULL). receive: 0 with exactly `length` bytes,
 * absent descriptors -1; GYRE_AGAIN; -ECONNRESET for the end and anything of another size. */
int gyre_packet_send(int socket_fd, const uint8_t *bytes, size_t length, const int fd[2]);
int gyre_packet_receive(int socket_fd, uint8_t *bytes, size_t length, int fd[2]);
void gyre_close_both(int fd[2]);

/* -- pair.c ------------------------------------------------------------------------------- */

/* open: before the introduction, makes the door of `mine`. start: after the roster. busy: some
 * pair is not decided yet. why: the first reason for a pair that cannot share, "" without one.
 * settle: after the plan, closes what is no channel of this node. */
int gyre_pairing_open(struct gyre_joining *join, struct gyre_rank_identity *mine);
int gyre_pairing_start(struct gyre_joining *join);
int gyre_pairing_tick(struct gyre_joining *join);
bool gyre_pairing_busy(const struct gyre_joining *join);
const char *gyre_pairing_why(const struct gyre_joining *join);
int gyre_pairing_settle(struct gyre_joining *join);
void gyre_pairing_close(struct gyre_joining *join);

/* -- mesh.c ------------------------------------------------------------------------------- */

/* open: before the report, makes the data listener and says where it is. start: after the plan.
 * busy: some connection is missing. */
int gyre_join_mesh_open(struct gyre_joining *join, struct sockaddr_storage *address);
int gyre_join_mesh_start(struct gyre_joining *join);
int gyre_join_mesh_tick(struct gyre_joining *join);
bool gyre_join_mesh_busy(const struct gyre_joining *join);
void gyre_join_mesh_close(struct gyre_joining *join);

#endif
