/* A wire with a delay: passes each frame on between two TAP interfaces, a fixed time after it came,
 * in order, both ways at once. bench/parts/plan_veth measures over such wires.
 *
 *     build/bench/wire 500us machine:veth0 bridge:port0
 *
 *     namespace "machine"                                      namespace "bridge"
 *       veth0 ── read ─▶ [frame, due][frame, due] … ── write ─▶ port0
 *       veth0 ◀─ write ── … [due, frame][due, frame] ◀─ read ── port0
 *
 * An end is NAMESPACE:INTERFACE. A namespace is one of `ip netns`, or a path such as
 * /proc/7/ns/net. The program makes both interfaces and sets them up, writes "ready" on standard
 * output, and passes frames until SIGTERM or SIGINT, or until an interface is gone. The interfaces
 * go with the program, and the program with its parent. Frames may be as long as the kernel's
 * segmentation offload makes them, so a fast wire costs few system calls. The speed of a wire is
 * tbf's matter.
 *
 * A way holds RING_BYTES. A frame for which that has no room is lost, as is one that an interface
 * refuses, or that finds no place in an interface's queue. The end is told on standard error, with
 * the lost frames and how late frames were: a process that waits for a core delays them further.
 * Exits with 0, 1 where frames were lost or something failed, or 2 after wrong words. */
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define RING_BYTES    ((size_t)32 << 20)
#define FRAME_MAX     (((size_t)64 << 10) + 256) /* with headers */
#define READ_AT_ONCE  64                         /* frames, before others are passed on */
#define QUEUE_FRAMES  10000                      /* that wait at an interface to be read */
#define DELAY_NS_MOST 10e9

struct frame {
    uint64_t due_ns;
    size_t length;
    unsigned char bytes[];
};

struct end {
    const char *words;    /* NAMESPACE:INTERFACE */
    char namespace[4096]; /* the path of its file */
    const char *interface;
    int fd;
};

/* One way of the wire. Frames lie from `first` to `last`; wrapped, from `first` to `top` and from 0
 * to `last`. */
struct direction {
    struct end *from, *to;
    unsigned char *ring;
    size_t first, last, top;
    bool wrapped;
    uint64_t taken, passed, without_room, refused;
    uint64_t late_ns, latest_ns;
    int why; /* the errno of the first frame that was refused */
};

__attribute__((format(printf, 2, 3), noreturn)) static void fail(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("wire: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(code);
}

/* -- words ------------------------------------------------------------------------------------- */

static uint64_t read_delay(const char *text)
{
    static const char *const unit[] = {"ns", "us", "ms", "s"};
    double scale = 1, number;
    char *rest;
    number = strtod(text, &rest);
    for (int i = 0; i < 4 && rest != text; i++, scale *= 1000)
        if (!strcmp(rest, unit[i]) && number >= 0 && number * scale <= DELAY_NS_MOST)
            return (uint64_t)(number * scale);
    fail(2, "the delay is \"%s\": expected 0s to 10s, as in 500us or 1.5ms", text);
}

static void read_end(struct end *end, const char *words)
{
    const char *colon = strrchr(words, ':');
    if (!colon || colon == words || !colon[1] || strlen(colon + 1) >= IFNAMSIZ)
        fail(2, "\"%s\": expected NAMESPACE:INTERFACE, as in machine:veth0", words);
    int length = (int)(colon - words);
    end->words = words;
    end->interface = colon + 1;
    snprintf(end->namespace, sizeof end->namespace, "%s%.*s",
             memchr(words, '/', (size_t)length) ? "" : "/run/netns/", length, words);
}

/* -- interfaces -------------------------------------------------------------------------------- */

static void enter(const struct end *end)
{
    int fd = open(end->namespace, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET))
        fail(1, "%s: cannot enter namespace %s: %s", end->words, end->namespace, strerror(errno));
    close(fd);
}

/* Lengthens the queue of frames that nobody has read yet, which is short for a reader that may wait
 * for a core, and sets the interface up. */
static void set_up(const struct end *end, struct ifreq *request)
{
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request->ifr_qlen = QUEUE_FRAMES;
    if (any < 0 || ioctl(any, SIOCSIFTXQLEN, request))
        fail(1, "%s: cannot lengthen its queue: %s", end->words, strerror(errno));
    request->ifr_flags = IFF_UP;
    if (ioctl(any, SIOCSIFFLAGS, request))
        fail(1, "%s: cannot set the interface up: %s", end->words, strerror(errno));
    close(any);
}

/* Frames come and go with the header of segmentation offload, and are never looked into. */
static void make_interface(struct end *end)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    enter(end);
    end->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (end->fd < 0)
        fail(1, "/dev/net/tun: %s", strerror(errno));
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", end->interface);
    if (ioctl(end->fd, TUNSETIFF, &request))
        fail(1, "%s: cannot make the interface: %s", end->words, strerror(errno));
    if (ioctl(end->fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6))
        fail(1, "%s: no segmentation offload: %s", end->words, strerror(errno));
    set_up(end, &request);
}

/* The frames that found no place in the interface's queue: the fourth number behind those of what
 * the interface received, in its line of /proc/net/dev. */
static uint64_t frames_without_place(const struct end *end)
{
    char line[512], *at;
    uint64_t dropped = 0;
    enter(end);
    FILE *file = fopen("/proc/self/net/dev", "re");
    while (file && fgets(line, sizeof line, file))
        if ((at = strchr(line, ':'))) {
            *at = '\0';
            if (!strcmp(line + strspn(line, " "), end->interface))
                sscanf(at + 1, "%*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &dropped);
        }
    if (file)
        fclose(file);
    return dropped;
}

/* -- one way ----------------------------------------------------------------------------------- */

static struct frame *frame_at(const struct direction *way, size_t offset)
{
    return (struct frame *)(void *)(way->ring + offset);
}

/* Where the next frame may lie; NULL: the ring has no room for the longest. */
static struct frame *find_room(struct direction *way)
{
    const size_t most = sizeof(struct frame) + FRAME_MAX;
    if (!way->wrapped && way->first == way->last)
        way->first = way->last = 0;
    if (!way->wrapped && RING_BYTES - way->last < most) {
        way->top = way->last;
        way->last = 0;
        way->wrapped = true;
    }
    if (way->wrapped && way->first - way->last < most)
        return NULL;
    return frame_at(way, way->last);
}

static struct frame *next_frame(struct direction *way)
{
    if (way->wrapped && way->first == way->top) {
        way->first = 0;
        way->wrapped = false;
    }
    return way->wrapped || way->first != way->last ? frame_at(way, way->first) : NULL;
}

static size_t space_of(const struct frame *frame)
{
    return (sizeof *frame + frame->length + 15) & ~(size_t)15;
}

/* Takes what has come. False: the interface is gone. */
static bool take_frames(struct direction *way, uint64_t delay_ns)
{
    static unsigned char lost[FRAME_MAX];
    for (int i = 0; i < READ_AT_ONCE; i++) {
        struct frame *frame = find_room(way);
        ssize_t length = read(way->from->fd, frame ? frame->bytes : lost, FRAME_MAX);
        if (length <= 0)
            return length < 0 && (errno == EAGAIN || errno == EINTR);
        if (!frame) {
            way->without_room++;
            continue;
        }
        frame->due_ns = gyre_now_ns() + delay_ns;
        frame->length = (size_t)length;
        way->last += space_of(frame);
        way->taken++;
    }
    return true;
}

static void note_lateness(struct direction *way, uint64_t late_ns)
{
    way->passed++;
    way->late_ns += late_ns;
    if (late_ns > way->latest_ns)
        way->latest_ns = late_ns;
}

/* Passes on what is due, and returns when the next frame is; 0: there is none. */
static uint64_t pass_frames(struct direction *way)
{
    struct frame *frame;
    while ((frame = next_frame(way))) {
        uint64_t now = gyre_now_ns();
        if (frame->due_ns > now)
            return frame->due_ns;
        if (write(way->to->fd, frame->bytes, frame->length) == (ssize_t)frame->length)
            note_lateness(way, now - frame->due_ns);
        else if (!way->refused++)
            way->why = errno;
        way->first += space_of(frame);
    }
    return 0;
}

/* -- both -------------------------------------------------------------------------------------- */

static void init_way(struct direction *way, struct end *from, struct end *to)
{
    *way = (struct direction){.from = from, .to = to};
    way->ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (way->ring == MAP_FAILED)
        fail(1, "no memory for %zu MiB of frames: %s", RING_BYTES >> 20, strerror(errno));
}

/* Waits until one of the three has something, or until the first of both ways is due. */
static int wait_for_frames(struct pollfd poll[3], const uint64_t due_ns[2])
{
    uint64_t now = gyre_now_ns(), next = due_ns[0];
    if (!next || (due_ns[1] && due_ns[1] < next))
        next = due_ns[1];
    uint64_t ns = next > now ? next - now : 0;
    struct timespec timeout = {(time_t)(ns / GYRE_SECOND), (long)(ns % GYRE_SECOND)};
    return ppoll(poll, 3, next ? &timeout : NULL, NULL);
}

/* Returns the end whose interface is gone; NULL: a signal came. Frames that had come before the
 * signal and are due are passed on. */
static const struct end *run_wire(struct direction way[2], uint64_t delay_ns, int signals)
{
    struct pollfd poll[3] = {{.fd = way[0].from->fd, .events = POLLIN},
                             {.fd = way[1].from->fd, .events = POLLIN},
                             {.fd = signals, .events = POLLIN}};
    for (;;) {
        const uint64_t due_ns[2] = {pass_frames(&way[0]), pass_frames(&way[1])};
        if (poll[2].revents)
            return NULL;
        if (wait_for_frames(poll, due_ns) < 0)
            fail(1, "cannot wait for frames: %s", strerror(errno));
        for (int i = 0; i < 2; i++)
            if (poll[i].revents && !take_frames(&way[i], delay_ns))
                return way[i].from;
    }
}

/* The process shall not wait for a core behind others: that would add to the delay. */
static void take_precedence(void)
{
    if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}))
        fprintf(stderr, "wire: no real-time priority (%s): frames are late on a busy machine\n",
                strerror(errno));
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns */
}

/* Returns a descriptor that is readable when the wire is to end: by a signal, or because the parent
 * has ended. */
static int open_signals(void)
{
    pid_t parent = getppid();
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    int fd = signalfd(-1, &ends, SFD_CLOEXEC);
    if (fd < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM))
        fail(1, "cannot wait for signals: %s", strerror(errno));
    if (parent != getppid())
        fail(1, "the parent has ended");
    return fd;
}

/* Tells of one way, and returns how many of its frames were lost. */
static uint64_t tell(const struct direction *way)
{
    uint64_t without_place = frames_without_place(way->from);
    fprintf(stderr,
            "wire: %s to %s: %" PRIu64 " frames passed on, %.1f us late on average and %.1f at "
            "most; %" PRIu64 " under way at the end\n",
            way->from->words, way->to->words, way->passed,
            way->passed ? (double)way->late_ns / 1e3 / (double)way->passed : 0,
            (double)way->latest_ns / 1e3, way->taken - way->passed - way->refused);
    if (without_place + way->without_room)
        fprintf(stderr,
                "wire: lost: %" PRIu64 " frames dropped at %s, whose queue has %d places, %" PRIu64
                " for want of room in %zu MiB\n",
                without_place, way->from->words, QUEUE_FRAMES, way->without_room, RING_BYTES >> 20);
    if (way->refused)
        fprintf(stderr, "wire: lost: %" PRIu64 " frames that %s refused; the first: %s\n",
                way->refused, way->to->words, strerror(way->why));
    return without_place + way->without_room + way->refused;
}

int main(int argc, char **argv)
{
    struct end end[2];
    struct direction way[2];
    if (argc != 4)
        fail(2, "usage: wire DELAY NAMESPACE:INTERFACE NAMESPACE:INTERFACE");
    uint64_t delay_ns = read_delay(argv[1]), lost = 0;
    for (int i = 0; i < 2; i++)
        read_end(&end[i], argv[2 + i]);
    int signals = open_signals();
    for (int i = 0; i < 2; i++)
        make_interface(&end[i]);
    for (int i = 0; i < 2; i++)
        init_way(&way[i], &end[i], &end[!i]);
    take_precedence();
    puts("ready");
    fflush(stdout);
    const struct end *gone = run_wire(way, delay_ns, signals);
    if (gone)
        fail(1, "%s: the interface is gone", gone->words);
    for (int i = 0; i < 2; i++)
        lost += tell(&way[i]);
    return lost > 0;
}
