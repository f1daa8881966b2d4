/* Pairs of ranks on one machine: a Unix socket, each other's pidfd, and the proof that memory can
 * be shared.
 *
 *     higher rank                                lower rank, behind a name that the roster tells
 *        │  U1 magic, from, to, nonce, code ──────▶ │
 *        │ ◀────── U2 nonce, code + pidfd, page     │   code: HMAC(session's key, all before)
 *        │  U3 verdict, code + pidfd, page ───────▶ │   verdict: 0, or why the page is no use
 *        │ ◀────────────────── U4 verdict, code     │
 *
 * A page is a sealed memfd whose content follows from the session key and its owner's rank. Mapping
 * and comparing a page tries exactly what the shm driver will do. A pair shares memory when both
 * verdicts are 0. Only the higher rank reports this, since it knows both verdicts. Each message is
 * one packet and carries its descriptors; a descriptor that was not asked for is closed. The kernel
 * tells the other side's user; a connection of another user is closed before a byte is read.
 *
 * On a large machine (options.h) the page of the lowest rank is the first of the file that all its
 * ranks share, and is kept. The file goes down a tree:
 *
 *      0 ── file ──▶ 1 ── file ──▶ 17 …     17 calls 1, which answers when it has the file itself
 *
 * A rank that cannot share memory with the one above calls the next above, at last the lowest. The
 * plan tells who is a node, and so which ranks are above and below in the node's own tree. Where
 * all ranks of the machine are one node these are the pairs that have met. Others meet then.
 *
 * Tested by tests/unit/transport/join/pair_test.c and tests/program/job/join.c. */
#include "transport/join/inside.h"

#include "base/log.h"
#include "base/rng.h"
#include "transport/memory/node_memory.h"
#include "transport/net/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CODE = GYRE_DIGEST_BYTES,
    U1 = 8 + 4 + 4 + 32 + CODE,
    U2 = U1 + 32 + CODE,
    U3 = U2 + 4 + CODE,
    U4 = U3 + 4 + CODE
};
enum { GUESTS = 16 };
#define CALL_AGAIN (40 * GYRE_MS)
#define HUNG_UP    GYRE_SECOND /* after which a peer that hangs up will not share memory */

static const uint8_t magic[8] = {'G', 'Y', 'R', 'E', 'p', 'a', 'i', 'r'};
static const char *const label[4] = {"u1", "u2", "u3", "u4"};
static const size_t message_end[5] = {0, U1, U2, U3, U4};

struct meeting {
    struct gyre_io_slot io_slot;
    bool higher;         /* this side's rank is the higher one: it connected */
    bool waits;          /* the lower rank's answer, until it has the file of a large node itself */
    uint64_t call_at;    /* a tick from then on calls the peer again; 0: not */
    uint64_t hung_up_at; /* the peer's first; 0: none */
    int step;            /* messages of the transcript so far, 0 … 4 */
    int pidfd;           /* the peer's */
    uint32_t page_error; /* this side's verdict about the peer's page */
    uint64_t since;
    uint8_t transcript[U4];
};

struct gyre_pairing {
    struct gyre_machine machine; /* this rank's */
    bool large;                  /* its ranks meet along a tree */
    uint32_t floors, floor;      /* large: so many ranks above this one; the one that is called */
    uint32_t above[GYRE_JOIN_FLOORS];
    struct gyre_io_slot door;
    int page, self; /* memfd and pidfd to pass along, -1 */
    uint32_t pending;
    char why[GYRE_JOIN_WHY_MAX];
    uint32_t calls, meetings;
    struct meeting *meeting; /* one for each lower rank that this rank meets; then guests */
};

/* -- meetings ---------------------------------------------------------------------------------- */

static int code_of(const struct gyre_joining *join, const struct meeting *meeting, int step,
                   uint8_t code[CODE])
{
    const struct gyre_piece pieces[] = {{label[step], 2},
                                        {meeting->transcript, message_end[step + 1] - CODE}};
    return gyre_hmac_sha256(join->joined->session_key, pieces, 2, code);
}

/* The page that this rank passes: to ranks below, in a large node, the memory of the node. */
static int page_to_pass(const struct gyre_joining *join, const struct meeting *meeting)
{
    const bool file = join->pairing->large && !meeting->higher && join->joined->node_file >= 0;
    return file ? join->joined->node_file : join->pairing->page;
}

/* Sends this rank's pidfd and a page with a packet. Each peer gets a pidfd of its own: the kernel
 * lets at most 500 pollers within pollers watch one file. */
static int send_gifts(const struct gyre_joining *join, const struct meeting *meeting,
                      const uint8_t *bytes, size_t length)
{
    const int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    const int pass[2] = {self, page_to_pass(join, meeting)};
    if (self < 0)
        return -errno;
    int status = gyre_packet_send(meeting->io_slot.fd, bytes, length, pass);
    close(self);
    return status;
}

/* Completes message `step`, whose fields are written, and sends it. */
static int send_step(struct gyre_joining *join, struct meeting *meeting)
{
    int step = meeting->step;
    const size_t length = message_end[step + 1] - message_end[step];
    uint8_t *bytes = meeting->transcript + message_end[step];
    int status = code_of(join, meeting, step, meeting->transcript + message_end[step + 1] - CODE);
    if (!status && (step == 1 || step == 2))
        status = send_gifts(join, meeting, bytes, length);
    else if (!status)
        status = gyre_packet_send(meeting->io_slot.fd, bytes, length, NULL);
    meeting->step++;
    return status;
}

static int receive_step(struct gyre_joining *join, struct meeting *meeting, int fd[2])
{
    int step = meeting->step;
    uint8_t code[CODE];
    int status = gyre_packet_receive(meeting->io_slot.fd, meeting->transcript + message_end[step],
                                     message_end[step + 1] - message_end[step], fd);
    if (status)
        return status;
    if (code_of(join, meeting, step, code) ||
        !gyre_secret_equal(code, meeting->transcript + message_end[step + 1] - CODE, CODE)) {
        gyre_descriptors_close(fd, 2);
        return GYRE_REFUSED;
    }
    meeting->step++;
    return 0;
}

static void put_verdict(struct meeting *meeting)
{
    struct gyre_cursor out = gyre_cursor_over(meeting->transcript + message_end[meeting->step], 4);
    gyre_put_u64(&out, meeting->page_error, 4);
}

static uint32_t get_verdict(struct meeting *meeting, int step)
{
    struct gyre_cursor in = gyre_cursor_over(meeting->transcript + message_end[step], 4);
    return (uint32_t)gyre_get_u64(&in, 4);
}

static void drop_pair(struct gyre_joining *join, struct meeting *meeting)
{
    int fd = meeting->io_slot.fd;
    gyre_join_remove_slot(join, &meeting->io_slot);
    if (fd >= 0)
        close(fd);
    if (meeting->pidfd >= 0)
        close(meeting->pidfd);
    meeting->pidfd = -1;
    meeting->step = 0;
    meeting->waits = false;
}

/* Tries a page, and keeps the memory of a large node. */
static uint32_t try_page(struct gyre_joining *join, const struct meeting *meeting, int *page)
{
    const struct gyre_pairing *pairing = join->pairing;
    const bool file = pairing->large && meeting->higher;
    const uint64_t bytes = file ? gyre_node_memory_bytes(pairing->machine.ranks) : GYRE_PAGE_BYTES;
    const uint32_t owner = file ? pairing->machine.lowest : meeting->io_slot.peer;
    const uint32_t error = gyre_page_try(join->joined->session_key, owner, bytes, *page);
    if (file && !error && join->joined->node_file < 0) {
        join->joined->node_file = *page;
        *page = -1;
    }
    return error;
}

/* Takes the peer's pidfd and tries its page. Both were sent: one that did not arrive found no free
 * descriptor here. */
static void take_gifts(struct gyre_joining *join, struct meeting *meeting, int fd[2])
{
    meeting->page_error = fd[0] < 0 || fd[1] < 0 ? EMFILE : try_page(join, meeting, &fd[1]);
    meeting->pidfd = fd[0];
    fd[0] = -1;
    gyre_descriptors_close(fd, 2);
}

static void keep_pair(struct gyre_joining *join, struct meeting *meeting)
{
    struct gyre_peer *peer = &join->joined->peer[meeting->io_slot.peer];
    int fd = meeting->io_slot.fd;
    gyre_join_remove_slot(join, &meeting->io_slot);
    if (peer->unix_fd >= 0) { /* a pair has no second proven meeting: keeps the first */
        close(fd);
        drop_pair(join, meeting);
        return;
    }
    peer->unix_fd = fd;
    peer->pidfd = meeting->pidfd;
    meeting->pidfd = -1;
}

/* Answers the ranks below that wait until this rank has met one above, or never will. */
static void answer_waiting(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    for (uint32_t i = pairing->calls; i < pairing->meetings; i++) {
        struct meeting *meeting = &pairing->meeting[i];
        if (!meeting->waits)
            continue;
        meeting->waits = false;
        if (send_step(join, meeting))
            drop_pair(join, meeting);
    }
}

/* Turns to the next rank above, on a large machine. False: there is none. */
static bool turn_higher(struct gyre_joining *join, struct meeting *meeting)
{
    struct gyre_pairing *pairing = join->pairing;
    if (pairing->self < 0 || pairing->page < 0 || pairing->floor + 1 >= pairing->floors)
        return false;
    meeting->io_slot.peer = pairing->above[++pairing->floor];
    meeting->since = meeting->call_at = join->now;
    meeting->hung_up_at = 0;
    return true;
}

/* Forgets the memory of a node to which this rank cannot belong. */
static void leave_node(struct gyre_joining *join)
{
    if (join->joined->node_file >= 0)
        close(join->joined->node_file);
    join->joined->node_file = -1;
    answer_waiting(join);
}

static void note_cannot(struct gyre_joining *join, uint32_t peer, const char *what, int error)
{
    struct gyre_pairing *pairing = join->pairing;
    uint32_t rank = join->joined->rank;
    char me[GYRE_JOIN_WHO_MAX], them[GYRE_JOIN_WHO_MAX], difference[320];

    gyre_identity_difference(&join->identity[rank], &join->identity[peer], difference,
                             sizeof difference);
    if (pairing->why[0])
        return;
    snprintf(pairing->why, sizeof pairing->why, "%s%s%s%s; %s", what, error ? ": " : "",
             error ? strerror(error) : "", error == EMFILE ? " (raise `ulimit -n`)" : "",
             difference);
    if (join->options->nodes != GYRE_NODES_SHARE_ALL)
        gyre_log(GYRE_LOG_WARN, "%s cannot share memory with %s (%s): tcp serves between them",
                 gyre_join_who(join, rank, me), gyre_join_who(join, peer, them), pairing->why);
}

/* Notes a pair that cannot share memory, as this rank, the higher one, has found. */
static void cannot(struct gyre_joining *join, struct meeting *meeting, const char *what, int error)
{
    struct gyre_pairing *pairing = join->pairing;
    drop_pair(join, meeting);
    if (join->phase == GYRE_PHASE_MESH) {
        gyre_join_lose(join, meeting->io_slot.peer, "shares this node but has no Unix socket");
        return;
    }
    if (pairing->large && turn_higher(join, meeting))
        return;
    pairing->pending--;
    note_cannot(join, meeting->io_slot.peer, what, error);
    if (pairing->large)
        leave_node(join);
}

/* A peer whose sockets close one after the other is ending. So it is called again: then its door is
 * closed, too, and it counts as lost. */
static void hung_up(struct gyre_joining *join, struct meeting *meeting, const char *what, int error)
{
    if (!meeting->hung_up_at)
        meeting->hung_up_at = join->now;
    if (join->now > meeting->hung_up_at + HUNG_UP) {
        cannot(join, meeting, what, error);
        return;
    }
    drop_pair(join, meeting);
    meeting->call_at = join->now + CALL_AGAIN;
}

/* Answers the lower rank's pidfd and page with the verdict and this side's own. */
static void higher_answer(struct gyre_joining *join, struct meeting *meeting, int fd[2])
{
    take_gifts(join, meeting, fd);
    put_verdict(meeting);
    int status = send_step(join, meeting);
    if (status)
        hung_up(join, meeting, "sending over the Unix socket", -status);
}

static void higher_ready(struct gyre_joining *join, struct meeting *meeting)
{
    int fd[2];
    int status = receive_step(join, meeting, fd);
    if (status == GYRE_AGAIN)
        return;
    if (status) {
        hung_up(join, meeting, "it hung up on the Unix socket", 0);
        return;
    }
    if (meeting->step == 2) {
        higher_answer(join, meeting, fd);
        return;
    }
    gyre_descriptors_close(fd, 2);
    uint32_t error = meeting->page_error ? meeting->page_error : get_verdict(meeting, 3);
    if (error) {
        cannot(join, meeting, "using a page of its memory", (int)error);
        return;
    }
    keep_pair(join, meeting);
    join->pairing->pending--;
    answer_waiting(join);
}

/* Without a descriptor the peer would wait in vain. */
static bool is_shortage(int status)
{
    return status == -EMFILE || status == -ENFILE;
}

/* Whether U1 names this pair. The code was right, so the peer is a rank of this session. */
static bool right_pair(struct gyre_joining *join, struct meeting *meeting)
{
    struct gyre_cursor in = gyre_cursor_over(meeting->transcript, U1);
    const uint8_t *mark = gyre_cursor_skip(&in, sizeof magic);
    uint32_t from = (uint32_t)gyre_get_u64(&in, 4), to = (uint32_t)gyre_get_u64(&in, 4);
    meeting->io_slot.peer = from;
    return !memcmp(mark, magic, sizeof magic) && to == join->joined->rank && from > to &&
           from < join->joined->n;
}

static int lower_answer(struct gyre_joining *join, struct meeting *meeting, int fd[2])
{
    const struct gyre_pairing *pairing = join->pairing;
    if (meeting->step == 1) {
        gyre_descriptors_close(fd, 2);
        if (!right_pair(join, meeting) ||
            gyre_random_bytes(meeting->transcript + U1, GYRE_NONCE_BYTES))
            return GYRE_REFUSED;
        meeting->waits = pairing->large && pairing->pending > 0 && join->phase < GYRE_PHASE_MESH;
        return meeting->waits ? 0 : send_step(join, meeting);
    }
    take_gifts(join, meeting, fd);
    put_verdict(meeting);
    return send_step(join, meeting);
}

static int lower_ready(struct gyre_joining *join, struct meeting *meeting)
{
    int fd[2];
    if (meeting->waits) { /* the peer has nothing to say now, so this is its end */
        drop_pair(join, meeting);
        return 0;
    }
    int status = receive_step(join, meeting, fd);
    if (status == GYRE_AGAIN)
        return 0;
    if (!status)
        status = lower_answer(join, meeting, fd);
    if (is_shortage(status))
        return gyre_join_no_descriptor(join, status);
    bool over = meeting->step == 4;
    if (!status && over && !meeting->page_error && !get_verdict(meeting, 2))
        keep_pair(join, meeting);
    else if (status || over)
        drop_pair(join, meeting);
    return 0;
}

/* Has the loop watch a descriptor, which is closed where that fails. */
static int add_or_close(struct gyre_joining *join, struct gyre_io_slot *io_slot, int fd)
{
    int status = gyre_join_add_slot(join, io_slot, fd, false);
    if (status)
        close(fd);
    return status;
}

static int open_door(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    struct meeting *vacant = NULL;
    int fd = gyre_door_answer(pairing->door.fd);
    if (fd < 0)
        return is_shortage(fd) ? gyre_join_no_descriptor(join, fd) : 0;
    for (uint32_t i = pairing->calls; i < pairing->meetings && !vacant; i++)
        if (pairing->meeting[i].io_slot.fd < 0)
            vacant = &pairing->meeting[i];
    if (!vacant || pairing->self < 0 || pairing->page < 0) {
        close(fd);
        return 0;
    }
    vacant->step = 0;
    vacant->since = join->now;
    return add_or_close(join, &vacant->io_slot, fd);
}

int gyre_pairing_ready(struct gyre_joining *join, struct gyre_io_slot *io_slot)
{
    struct meeting *meeting = (struct meeting *)io_slot;
    if (io_slot == &join->pairing->door)
        return open_door(join);
    if (!meeting->higher)
        return lower_ready(join, meeting);
    higher_ready(join, meeting);
    return 0;
}

/* -- open, start, settle, close ---------------------------------------------------------------- */

int gyre_pairing_open(struct gyre_joining *join, struct gyre_rank_identity *mine)
{
    struct gyre_pairing *pairing = calloc(1, sizeof *pairing);
    if (!pairing)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory to meet %u ranks",
                                join->joined->n);
    join->pairing = pairing;
    pairing->door = (struct gyre_io_slot){.fd = -1, .owner = GYRE_SLOT_PAIR};
    pairing->page = pairing->self = -1;
    if (join->options->nodes != GYRE_NODES_APART)
        pairing->door.fd = gyre_door_open(mine->door);
    if (pairing->door.fd < 0) /* no failure: no peer connects, tcp serves */
        memset(mine->door, 0, sizeof mine->door);
    return 0;
}

static int say_hello(struct gyre_joining *join, struct meeting *meeting)
{
    struct gyre_cursor out = gyre_cursor_over(meeting->transcript, U1);
    gyre_put_bytes(&out, magic, sizeof magic);
    gyre_put_u64(&out, join->joined->rank, 4);
    gyre_put_u64(&out, meeting->io_slot.peer, 4);
    int status = gyre_random_bytes(out.at, GYRE_NONCE_BYTES);
    return status ? status : send_step(join, meeting);
}

/* Acts on a Unix socket that refuses. In the same network namespace the refusal of a known socket
 * means that its owner is gone. */
static void no_answer(struct gyre_joining *join, struct meeting *meeting, int error)
{
    uint32_t peer = meeting->io_slot.peer;
    uint64_t here = join->identity[join->joined->rank].space[0],
             there = join->identity[peer].space[0];
    if (error == ECONNREFUSED && here && here == there)
        gyre_join_lose(join, peer, "has closed its Unix socket");
    else
        cannot(join, meeting, "connecting to its Unix socket", error);
}

/* Connects to the peer's Unix socket and sends U1. A full backlog is no answer yet: any user of the
 * machine can fill it for a while. */
static int reach_door(struct gyre_joining *join, struct meeting *meeting)
{
    int fd = gyre_door_connect(join->identity[meeting->io_slot.peer].door);
    meeting->call_at = 0;
    if (fd == -EAGAIN && join->now <= meeting->since + gyre_join_phase_timeout(join)) {
        meeting->call_at = join->now;
        return 0;
    }
    if (fd < 0) {
        no_answer(join, meeting, -fd);
        return 0;
    }
    meeting->since = join->now;
    int status = add_or_close(join, &meeting->io_slot, fd);
    if (status)
        return status;
    status = say_hello(join, meeting);
    if (status)
        hung_up(join, meeting, "sending over the Unix socket", -status);
    return 0;
}

static int begin_meeting(struct gyre_joining *join, struct meeting *meeting)
{
    static const uint8_t none[16];
    join->pairing->pending++;
    meeting->since = join->now;
    if (join->pairing->self < 0)
        cannot(join, meeting, "pidfd_open", -join->pairing->self);
    else if (join->pairing->page < 0)
        cannot(join, meeting, "memfd_create", -join->pairing->page);
    else if (!memcmp(join->identity[meeting->io_slot.peer].door, none, sizeof none))
        cannot(join, meeting, "it has no Unix socket", 0);
    else
        return reach_door(join, meeting);
    return 0;
}

static bool may_share(const struct gyre_joining *join, uint32_t peer)
{
    return join->options->nodes != GYRE_NODES_APART &&
           gyre_identity_one_machine(&join->identity[join->joined->rank], &join->identity[peer]);
}

static void find_machine(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    const uint32_t rank = join->joined->rank;
    pairing->machine = (struct gyre_machine){.lowest = rank, .ranks = 1};
    if (join->options->nodes != GYRE_NODES_APART)
        pairing->machine = gyre_identity_machine(join->identity, join->joined->n, rank);
    pairing->large = pairing->machine.ranks > gyre_join_links_at_once(join->options);
    if (pairing->large)
        pairing->floors =
            gyre_identity_ranks_above(join->identity, join->joined->n, rank, pairing->above);
}

static void note_apart(struct gyre_joining *join, uint32_t peer)
{
    const struct gyre_rank_identity *mine = &join->identity[join->joined->rank],
                                    *theirs = &join->identity[peer];
    bool machine = memcmp(mine->boot, theirs->boot, sizeof mine->boot) != 0;
    if (!join->pairing->why[0] && join->options->nodes == GYRE_NODES_SHARE_ALL)
        snprintf(join->pairing->why, sizeof join->pairing->why, "they run on different %s",
                 machine ? "machines" : "simulated nodes");
}

/* Makes what this rank passes to those that it meets. */
static void make_gifts(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    const uint32_t rank = join->joined->rank;
    const bool file = pairing->large && rank == pairing->machine.lowest;
    if (pairing->machine.ranks < 2)
        return;
    long self = syscall(SYS_pidfd_open, getpid(), 0);
    pairing->self = self < 0 ? -errno : (int)self;
    pairing->page =
        gyre_page_make(join->joined->session_key, rank,
                       file ? gyre_node_memory_bytes(pairing->machine.ranks) : GYRE_PAGE_BYTES);
    if (file && pairing->page >= 0)
        join->joined->node_file = fcntl(pairing->page, F_DUPFD_CLOEXEC, 0);
}

/* Whether this rank calls a lower one. */
static bool calls(const struct gyre_joining *join, uint32_t peer)
{
    const struct gyre_pairing *pairing = join->pairing;
    return may_share(join, peer) && (!pairing->large || peer == pairing->above[0]);
}

static int make_meetings(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    const uint32_t n = join->joined->n, rank = join->joined->rank;
    const bool few = pairing->large && rank > pairing->machine.lowest;
    const uint32_t most = few ? 1 + 2 * GYRE_WATCH_FAN_OUT : n;
    pairing->meeting = calloc(most + GUESTS, sizeof *pairing->meeting);
    if (!pairing->meeting)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory to meet %u ranks", n);
    pairing->meetings = most + GUESTS;
    for (uint32_t i = 0; i < pairing->meetings; i++)
        pairing->meeting[i] =
            (struct meeting){.io_slot = {.fd = -1, .owner = GYRE_SLOT_PAIR}, .pidfd = -1};
    for (uint32_t peer = 0; peer < rank; peer++)
        if (calls(join, peer)) {
            struct meeting *meeting = &pairing->meeting[pairing->calls++];
            meeting->io_slot.peer = peer;
            meeting->higher = true;
        } else if (!may_share(join, peer)) {
            note_apart(join, peer);
        }
    return 0;
}

int gyre_pairing_start(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    int door = pairing->door.fd;
    find_machine(join);
    make_gifts(join);
    int status = make_meetings(join);
    if (!status && door >= 0) {
        pairing->door.fd = -1;
        status = add_or_close(join, &pairing->door, door);
    }
    for (uint32_t i = 0; i < pairing->calls && !status; i++)
        status = begin_meeting(join, &pairing->meeting[i]);
    return status;
}

/* How long an answer may take. The ranks above that the peer waits for fail before it does. */
static uint64_t answer_timeout(const struct gyre_joining *join)
{
    const struct gyre_pairing *pairing = join->pairing;
    const uint64_t timeout = gyre_join_phase_timeout(join);
    return timeout + (pairing->floors - pairing->floor) * timeout / 4;
}

int gyre_pairing_tick(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    int status = 0;
    for (uint32_t i = 0; i < pairing->calls && !status; i++) {
        struct meeting *meeting = &pairing->meeting[i];
        if (meeting->call_at && join->now >= meeting->call_at)
            status = reach_door(join, meeting);
        else if (meeting->io_slot.fd >= 0 && join->now > meeting->since + answer_timeout(join))
            gyre_join_lose(join, meeting->io_slot.peer, "does not answer on its Unix socket");
    }
    for (uint32_t i = pairing->calls; i < pairing->meetings; i++) {
        struct meeting *meeting = &pairing->meeting[i];
        /* Who has proven the key is a rank with many others to meet. */
        uint64_t limit = meeting->step > 0 ? answer_timeout(join) : GYRE_JOIN_SILENCE;
        if (meeting->io_slot.fd >= 0 && join->now > meeting->since + limit)
            drop_pair(join, meeting);
    }
    return status;
}

bool gyre_pairing_busy(const struct gyre_joining *join)
{
    return join->pairing->pending > 0;
}

const char *gyre_pairing_why(const struct gyre_joining *join)
{
    return join->pairing->why;
}

/* Keeps the file that is the memory of a large node with more than one rank. */
static void settle_node_file(struct gyre_joining *join)
{
    struct gyre_joined *joined = join->joined;
    joined->large = joined->member[joined->rank].large;
    joined->places = join->pairing->machine.ranks;
    if (joined->large && joined->node_file < 0)
        gyre_join_lose(join, join->pairing->machine.lowest, "left no memory for this node");
    if (joined->large || joined->node_file < 0)
        return;
    close(joined->node_file);
    joined->node_file = -1;
}

uint32_t gyre_pairing_apart(const struct gyre_joining *join)
{
    return join->joined->n - join->pairing->machine.ranks;
}

/* Whether the watch's tree of a large node has one rank of it just above another. */
static bool is_above(const struct gyre_joined *joined, uint32_t above, uint32_t below)
{
    const int32_t place = joined->member[below].local_rank;
    return place > 0 && (uint32_t)joined->member[above].local_rank ==
                            gyre_joined_above((uint32_t)place, GYRE_WATCH_FAN_OUT);
}

/* Meets a rank of this node now, if that is this one's part. */
static int meet_late(struct gyre_joining *join, uint32_t peer)
{
    struct gyre_pairing *pairing = join->pairing;
    if (!join->joined->large)
        gyre_join_lose(join, peer, "shares this node but left no Unix socket");
    if (!join->joined->large || peer > join->joined->rank)
        return 0;
    struct meeting *meeting = &pairing->meeting[0];
    meeting->io_slot.peer = peer;
    meeting->step = 0;
    return begin_meeting(join, meeting);
}

static void close_pair(struct gyre_peer *peer)
{
    if (peer->unix_fd < 0)
        return;
    close(peer->unix_fd);
    close(peer->pidfd);
    peer->unix_fd = peer->pidfd = -1;
}

int gyre_pairing_settle(struct gyre_joining *join)
{
    struct gyre_joined *joined = join->joined;
    const uint32_t own = joined->rank;
    int status = 0;
    settle_node_file(join);
    for (uint32_t rank = 0; rank < joined->n && !status; rank++) {
        struct gyre_peer *peer = &joined->peer[rank];
        peer->one_machine = rank != own && joined->member[rank].node == joined->node;
        if (!peer->one_machine ||
            (joined->large && !is_above(joined, rank, own) && !is_above(joined, own, rank)))
            close_pair(peer);
        else if (peer->unix_fd < 0)
            status = meet_late(join, rank);
    }
    return status;
}

void gyre_pairing_close(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    if (!pairing)
        return;
    int fd[3] = {pairing->self, pairing->page, pairing->door.fd};
    gyre_join_remove_slot(join, &pairing->door);
    gyre_descriptors_close(fd, 3);
    for (uint32_t i = 0; i < pairing->meetings; i++)
        drop_pair(join, &pairing->meeting[i]);
    free(pairing->meeting);
    free(pairing);
    join->pairing = NULL;
}
