/* Pairs of ranks on one machine: a Unix socket, each other's pidfd, and the proof that memory can
 * be shared.
 *
 *     higher rank                                   lower rank (listens at an abstract name that
 * only the roster tells) │  U1 magic, from, to, nonce, code ────────▶ │   code = HMAC(session key,
 * label | all before) │ ◀──── U2 nonce, code  + pidfd, page        │ │  U3 verdict, code     +
 * pidfd, page ─────▶ │   verdict: 0, or why the page could not be used │ ◀──── U4 verdict, code │
 *
 * A page is a sealed memfd whose content follows from the session key and its owner's rank, so
 * mapping and comparing it tries exactly what the shm driver will do. A pair shares memory when
 * both verdicts are 0; only the higher rank reports it, since it knows both. Each message is one
 * packet, descriptors travel with it, and a descriptor that was not asked for is closed. The kernel
 * says who the other side's user is; another user is hung up on before a byte is read. */
#include "transport/join_state.h"

#include "base/log.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CODE = GYRE_DIGEST_BYTES,
    U1 = 8 + 4 + 4 + 32 + CODE,
    U2 = U1 + 32 + CODE,
    U3 = U2 + 4 + CODE,
    U4 = U3 + 4 + CODE
};
enum { PAGE = 4096, GUESTS = 16 };

static const uint8_t magic[8] = {'G', 'Y', 'R', 'E', 'p', 'a', 'i', 'r'};
static const char *const label[4] = {"u1", "u2", "u3", "u4"};
static const size_t message_end[5] = {0, U1, U2, U3, U4};

struct meeting {
    struct gyre_seat seat;
    bool higher;      /* this side's rank is the higher one: it connected */
    int step;         /* messages of the transcript that are there, 0 … 4 */
    int pidfd;        /* the peer's */
    uint32_t verdict; /* this side's, of the peer's page */
    uint64_t since;
    uint8_t transcript[U4];
};

struct gyre_pairing {
    struct gyre_seat door;
    int page, self; /* memfd and pidfd to pass along, -1 */
    uint32_t pending;
    char why[480];
    uint32_t meetings;
    struct meeting meeting[]; /* [peer] for each lower rank, then guests */
};

/* -- names and pages
 * --------------------------------------------------------------------------------------------- */

static socklen_t door_address(const uint8_t name[16], struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    char *text = address->sun_path + 1; /* a zero before it: the abstract name space */
    int length = snprintf(text, sizeof address->sun_path - 1, "gyre-");
    for (int i = 0; i < 16; i++)
        length += sprintf(text + length, "%02x", name[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int page_content(const struct gyre_joining *join, uint32_t rank, uint8_t content[CODE])
{
    const struct gyre_piece pieces[] = {{"page", 4},
                                        {&rank, sizeof rank}}; /* one machine: one byte order */
    return gyre_hmac_sha256(join->joined->session_key, pieces, 2, content);
}

static int make_page(const struct gyre_joining *join)
{
    uint8_t content[CODE];
    int fd = memfd_create("gyre-join", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (page_content(join, join->joined->rank, content) || ftruncate(fd, PAGE) ||
        pwrite(fd, content, CODE, PAGE - CODE) != CODE ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
        int status = errno ? -errno : -EIO;
        close(fd);
        return status;
    }
    return fd;
}

/* 0, or a positive errno that says why `rank`'s memory cannot be used here. */
static uint32_t try_page(const struct gyre_joining *join, int fd, uint32_t rank)
{
    uint8_t content[CODE];
    struct stat info;
    if (page_content(join, rank, content))
        return EIO;
    if (fd < 0 || fstat(fd, &info) || info.st_size != PAGE)
        return EBADF;
    if ((fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0)
        return EPERM;
    uint8_t *view = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (view == MAP_FAILED)
        return (uint32_t)errno;
    uint32_t verdict = memcmp(view + PAGE - CODE, content, CODE) ? EBADMSG : 0;
    munmap(view, PAGE);
    return verdict;
}

static bool same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) && peer.uid == geteuid();
}

/* -- packets
 * -----------------------------------------------------------------------------------------------------
 */

union rights {
    char bytes[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
};

static int send_packet(int socket_fd, const uint8_t *bytes, size_t length, const int fd[2])
{
    union rights rights = {0};
    struct iovec iov = {(void *)(uintptr_t)bytes, length};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd) {
        message.msg_control = rights.bytes;
        message.msg_controllen = sizeof rights.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(head), fd, 2 * sizeof(int));
    }
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)length ? 0
                                                                                        : -errno;
}

static void take_rights(struct msghdr *message, int fd[2])
{
    fd[0] = fd[1] = -1;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count =
            (head->cmsg_len - CMSG_LEN(0)) / sizeof(int); /* at most 2: that is the room given */
        memcpy(fd, CMSG_DATA(head), count * sizeof(int));
    }
}

static void close_both(int fd[2])
{
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    fd[0] = fd[1] = -1;
}

/* 0 with exactly `length` bytes; GYRE_AGAIN; -ECONNRESET for the end or anything of another size.
 */
static int receive_packet(int socket_fd, uint8_t *bytes, size_t length, int fd[2])
{
    union rights rights;
    struct iovec iov = {bytes, length};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = rights.bytes,
                             .msg_controllen = sizeof rights.bytes};
    fd[0] = fd[1] = -1;
    ssize_t n = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return GYRE_AGAIN;
    if (n >= 0)
        take_rights(&message, fd);
    if (n == (ssize_t)length && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return 0;
    close_both(fd);
    return -ECONNRESET;
}

/* -- meetings
 * ----------------------------------------------------------------------------------------------------
 */

static int code_of(const struct gyre_joining *join, const struct meeting *meeting, int step,
                   uint8_t code[CODE])
{
    const struct gyre_piece pieces[] = {{label[step], 2},
                                        {meeting->transcript, message_end[step + 1] - CODE}};
    return gyre_hmac_sha256(join->joined->session_key, pieces, 2, code);
}

/* Completes message `step`, whose fields are written, and sends it. */
static int send_step(struct gyre_joining *join, struct meeting *meeting)
{
    int step = meeting->step;
    const int pass[2] = {join->pairing->self, join->pairing->page};
    uint8_t *bytes = meeting->transcript + message_end[step];
    int status = code_of(join, meeting, step, meeting->transcript + message_end[step + 1] - CODE);
    if (!status)
        status = send_packet(meeting->seat.fd, bytes, message_end[step + 1] - message_end[step],
                             step == 1 || step == 2 ? pass : NULL);
    meeting->step++;
    return status;
}

static int receive_step(struct gyre_joining *join, struct meeting *meeting, int fd[2])
{
    int step = meeting->step;
    uint8_t code[CODE];
    int status = receive_packet(meeting->seat.fd, meeting->transcript + message_end[step],
                                message_end[step + 1] - message_end[step], fd);
    if (status)
        return status;
    if (code_of(join, meeting, step, code) ||
        !gyre_secret_equal(code, meeting->transcript + message_end[step + 1] - CODE, CODE)) {
        close_both(fd);
        return GYRE_REFUSED;
    }
    meeting->step++;
    return 0;
}

static void put_verdict(struct meeting *meeting)
{
    struct gyre_cursor out = gyre_cursor_over(meeting->transcript + message_end[meeting->step], 4);
    gyre_put_u64(&out, meeting->verdict, 4);
}

static uint32_t get_verdict(struct meeting *meeting, int step)
{
    struct gyre_cursor in = gyre_cursor_over(meeting->transcript + message_end[step], 4);
    return (uint32_t)gyre_get_u64(&in, 4);
}

static void drop(struct gyre_joining *join, struct meeting *meeting)
{
    int fd = meeting->seat.fd;
    gyre_join_unseat(join, &meeting->seat);
    if (fd >= 0)
        close(fd);
    if (meeting->pidfd >= 0)
        close(meeting->pidfd);
    meeting->pidfd = -1;
    meeting->step = 0;
}

/* Takes the peer's pidfd and tries its page. */
static void take_gifts(struct gyre_joining *join, struct meeting *meeting, int fd[2])
{
    meeting->verdict = fd[0] < 0 ? EBADF : try_page(join, fd[1], meeting->seat.peer);
    meeting->pidfd = fd[0];
    fd[0] = -1;
    close_both(fd);
}

static void keep(struct gyre_joining *join, struct meeting *meeting)
{
    struct gyre_peer *peer = &join->joined->peer[meeting->seat.peer];
    int fd = meeting->seat.fd;
    gyre_join_unseat(join, &meeting->seat);
    if (peer->unix_fd >= 0) { /* a second proven meeting of one pair cannot be: keep the first */
        close(fd);
        drop(join, meeting);
        return;
    }
    peer->unix_fd = fd;
    peer->pidfd = meeting->pidfd;
    meeting->pidfd = -1;
}

/* A pair that this rank, the higher one, has found unable to share memory. */
static int cannot(struct gyre_joining *join, struct meeting *meeting, const char *what, int error)
{
    struct gyre_pairing *pairing = join->pairing;
    uint32_t rank = join->joined->rank, peer = meeting->seat.peer;
    char me[160], them[160], difference[320];

    drop(join, meeting);
    pairing->pending--;
    gyre_fact_difference(&join->fact[rank], &join->fact[peer], difference, sizeof difference);
    if (!pairing->why[0]) {
        snprintf(pairing->why, sizeof pairing->why, "%s%s%s; %s", what, error ? ": " : "",
                 error ? strerror(error) : "", difference);
        if (strcmp(join->options->transport, "shm"))
            gyre_log(GYRE_LOG_WARN, "%s cannot share memory with %s (%s): tcp serves between them",
                     gyre_join_who(join, rank, me), gyre_join_who(join, peer, them), pairing->why);
    }
    return gyre_member_advance(join);
}

static int higher_ready(struct gyre_joining *join, struct meeting *meeting)
{
    int fd[2];
    int status = receive_step(join, meeting, fd);
    if (status == GYRE_AGAIN)
        return 0;
    if (status)
        return cannot(join, meeting, "it hung up on the Unix socket", 0);
    if (meeting->step == 2) {
        take_gifts(join, meeting, fd);
        put_verdict(meeting);
        status = send_step(join, meeting);
        return status ? cannot(join, meeting, "sending over the Unix socket", -status) : 0;
    }
    close_both(fd);
    uint32_t theirs = get_verdict(meeting, 3);
    if (meeting->verdict || theirs)
        return cannot(join, meeting, "using a page of its memory",
                      (int)(meeting->verdict ? meeting->verdict : theirs));
    keep(join, meeting);
    join->pairing->pending--;
    return gyre_member_advance(join);
}

/* U1 says who it is; the code has held, so it is a rank of this session. */
static bool right_pair(struct gyre_joining *join, struct meeting *meeting)
{
    struct gyre_cursor in = gyre_cursor_over(meeting->transcript, U1);
    const uint8_t *mark = gyre_cursor_skip(&in, sizeof magic);
    uint32_t from = (uint32_t)gyre_get_u64(&in, 4), to = (uint32_t)gyre_get_u64(&in, 4);
    meeting->seat.peer = from;
    return !memcmp(mark, magic, sizeof magic) && to == join->joined->rank && from > to &&
           from < join->joined->n;
}

static int lower_answer(struct gyre_joining *join, struct meeting *meeting, int fd[2])
{
    if (meeting->step == 1) {
        close_both(fd);
        if (!right_pair(join, meeting) ||
            gyre_random_bytes(meeting->transcript + U1, GYRE_NONCE_BYTES))
            return GYRE_REFUSED;
        return send_step(join, meeting);
    }
    take_gifts(join, meeting, fd);
    put_verdict(meeting);
    return send_step(join, meeting);
}

static int lower_ready(struct gyre_joining *join, struct meeting *meeting)
{
    int fd[2];
    int status = receive_step(join, meeting, fd);
    if (status == GYRE_AGAIN)
        return 0;
    if (!status)
        status = lower_answer(join, meeting, fd);
    bool over = meeting->step == 4;
    if (!status && over && !meeting->verdict && !get_verdict(meeting, 2))
        keep(join, meeting);
    else if (status || over)
        drop(join, meeting);
    return 0;
}

static int meeting_ready(struct gyre_joining *join, struct gyre_seat *seat)
{
    struct meeting *meeting = (struct meeting *)seat;
    return meeting->higher ? higher_ready(join, meeting) : lower_ready(join, meeting);
}

static int door_ready(struct gyre_joining *join, struct gyre_seat *seat)
{
    struct gyre_pairing *pairing = join->pairing;
    int fd = accept4(seat->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return 0;
    struct meeting *free_one = NULL;
    for (uint32_t i = join->joined->rank; i < pairing->meetings && !free_one; i++)
        if (pairing->meeting[i].seat.fd < 0)
            free_one = &pairing->meeting[i];
    if (!free_one || !same_user(fd) || pairing->self < 0 || pairing->page < 0) {
        close(fd);
        return 0;
    }
    free_one->step = 0;
    free_one->since = join->now;
    return gyre_join_seat(join, &free_one->seat, fd, false);
}

/* -- the room's entries
 * ------------------------------------------------------------------------------------------ */

/* A failure to make the door is no failure of the join: nobody gets in, tcp serves. */
static int make_door(struct gyre_pairing *pairing, const struct gyre_fact *mine)
{
    struct sockaddr_un address;
    socklen_t length = door_address(mine->door, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 4096))) {
        close(fd);
        fd = -1;
    }
    pairing->door.fd = fd;
    return 0;
}

int gyre_pairing_open(struct gyre_joining *join, const struct gyre_fact *mine)
{
    uint32_t n = join->joined->n, meetings = n + GUESTS;
    struct gyre_pairing *pairing = calloc(1, sizeof *pairing + meetings * sizeof *pairing->meeting);
    if (!pairing)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory to meet %u ranks", n);
    join->pairing = pairing;
    pairing->door = (struct gyre_seat){.fd = -1, .ready = door_ready};
    pairing->page = pairing->self = -1;
    pairing->meetings = meetings;
    for (uint32_t i = 0; i < meetings; i++) {
        struct meeting *meeting = &pairing->meeting[i];
        meeting->seat = (struct gyre_seat){.fd = -1, .peer = i, .ready = meeting_ready};
        meeting->higher = i < join->joined->rank;
        meeting->pidfd = -1;
    }
    return strcmp(join->options->transport, "tcp") ? make_door(pairing, mine) : 0;
}

static int connect_to(struct gyre_joining *join, struct meeting *meeting)
{
    struct sockaddr_un address;
    socklen_t length = door_address(join->fact[meeting->seat.peer].door, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = fd < 0                                             ? errno
                : connect(fd, (struct sockaddr *)&address, length) ? errno
                : same_user(fd)                                    ? 0
                                                                   : EPERM;
    if (!error)
        return gyre_join_seat(join, &meeting->seat, fd, false);
    if (fd >= 0)
        close(fd);
    return -error;
}

static int say_hello(struct gyre_joining *join, struct meeting *meeting)
{
    struct gyre_cursor out = gyre_cursor_over(meeting->transcript, U1);
    gyre_put_bytes(&out, magic, sizeof magic);
    gyre_put_u64(&out, join->joined->rank, 4);
    gyre_put_u64(&out, meeting->seat.peer, 4);
    int status = gyre_random_bytes(out.at, GYRE_NONCE_BYTES);
    return status ? status : send_step(join, meeting);
}

static int begin(struct gyre_joining *join, struct meeting *meeting)
{
    if (join->pairing->self < 0)
        return cannot(join, meeting, "pidfd_open", -join->pairing->self);
    if (join->pairing->page < 0)
        return cannot(join, meeting, "memfd_create", -join->pairing->page);
    meeting->since = join->now;
    int status = connect_to(join, meeting);
    if (status)
        return cannot(join, meeting, "connecting to its Unix socket", -status);
    status = say_hello(join, meeting);
    return status ? cannot(join, meeting, "sending over the Unix socket", -status) : 0;
}

static bool may_share(const struct gyre_joining *join, uint32_t peer)
{
    return strcmp(join->options->transport, "tcp") != 0 &&
           gyre_fact_one_machine(&join->fact[join->joined->rank], &join->fact[peer]);
}

static void note_apart(struct gyre_joining *join, uint32_t peer)
{
    const struct gyre_fact *mine = &join->fact[join->joined->rank], *theirs = &join->fact[peer];
    bool machine = memcmp(mine->boot, theirs->boot, sizeof mine->boot) != 0;
    if (!join->pairing->why[0] && !strcmp(join->options->transport, "shm"))
        snprintf(join->pairing->why, sizeof join->pairing->why, "they run on different %s",
                 machine ? "machines" : "simulated nodes");
}

int gyre_pairing_start(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    uint32_t rank = join->joined->rank;
    bool wanted = false;
    for (uint32_t peer = 0; peer < join->joined->n; peer++)
        wanted |= peer != rank && may_share(join, peer);
    if (wanted) {
        long self = syscall(SYS_pidfd_open, getpid(), 0);
        pairing->self = self < 0 ? -errno : (int)self;
        pairing->page = make_page(join);
    }
    int door = pairing->door.fd;
    pairing->door.fd = -1;
    int status = door < 0 ? 0 : gyre_join_seat(join, &pairing->door, door, false);
    pairing->pending = 1; /* so that no answer ends the phase before all were asked */
    for (uint32_t peer = 0; peer < rank && !status; peer++) {
        if (!may_share(join, peer)) {
            note_apart(join, peer);
            continue;
        }
        pairing->pending++;
        status = begin(join, &pairing->meeting[peer]);
    }
    pairing->pending--;
    return status ? status : gyre_member_advance(join);
}

int gyre_pairing_tick(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    for (uint32_t peer = 0; peer < join->joined->rank; peer++)
        if (pairing->meeting[peer].seat.fd >= 0 &&
            join->now > pairing->meeting[peer].since + gyre_join_patience(join))
            return gyre_join_lost(join, peer, "does not answer on its Unix socket");
    for (uint32_t i = join->joined->rank; i < pairing->meetings; i++)
        if (pairing->meeting[i].seat.fd >= 0 &&
            join->now > pairing->meeting[i].since + GYRE_JOIN_SILENCE)
            drop(join, &pairing->meeting[i]);
    return 0;
}

bool gyre_pairing_busy(const struct gyre_joining *join)
{
    return join->pairing->pending > 0;
}

const char *gyre_pairing_why(const struct gyre_joining *join)
{
    return join->pairing->why;
}

int gyre_pairing_settle(struct gyre_joining *join)
{
    for (uint32_t rank = 0; rank < join->joined->n; rank++) {
        struct gyre_peer *peer = &join->joined->peer[rank];
        bool near =
            rank != join->joined->rank && join->joined->member[rank].node == join->joined->node;
        if (near && peer->unix_fd < 0)
            return gyre_join_lost(join, rank, "shares this node but left no Unix socket");
        if (near || peer->unix_fd < 0)
            continue;
        close(peer->unix_fd);
        close(peer->pidfd);
        peer->unix_fd = peer->pidfd = -1;
    }
    return 0;
}

void gyre_pairing_close(struct gyre_joining *join)
{
    struct gyre_pairing *pairing = join->pairing;
    if (!pairing)
        return;
    int fd[2] = {pairing->self, pairing->page}, door[2] = {pairing->door.fd, -1};
    gyre_join_unseat(join, &pairing->door);
    close_both(fd);
    close_both(door);
    for (uint32_t i = 0; i < pairing->meetings; i++)
        drop(join, &pairing->meeting[i]);
    free(pairing);
    join->pairing = NULL;
}
