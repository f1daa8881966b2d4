/* The inside of a domain, for its own files only. Each file uses those below it:
 *
 *     domain.c           prepare, meet, listen, close
 *     epoch.c            from one epoch of a job to the next
 *     newcomers.c        processes that join a job that runs, at both ends
 *     join_options.c     how a domain joins
 *     node.c             links to the peers of this node
 *     remote.c           links to the peers of other nodes
 *     on_demand.c        those that are made at their first use
 *     wire.c             opening a wire of a driver
 *     idle.c             how the owner waits
 *     mend.c             connections that are made anew
 *     memory.c           shared memory
 *     proof.c            the trial of copies between devices
 *     owner.c            the thread that drives
 *     bell.c             waking a thread that sleeps
 *     device.c           the CUDA device
 *     settings.c         options and environment
 *     state.c            facts about a domain, for other rooms
 *     futex.h */
#ifndef GYRE_TRANSPORT_DOMAIN_INSIDE_H
#define GYRE_TRANSPORT_DOMAIN_INSIDE_H

#include "transport/domain/domain.h"
#include "transport/join/options.h"
#include "transport/link/links.h"
#include "transport/link/on_demand.h"
#include "transport/members/members.h"
#include "transport/members/waiting_room.h"
#include "transport/memory/lookup.h"
#include "transport/memory/node_memory.h"
#include "transport/seal/seal.h"

#include <pthread.h>

/* The state that a process shows of its sleep; one page that its node's peers may write. */
enum gyre_bell_state { GYRE_AWAKE, GYRE_ON_FUTEX, GYRE_ON_DESCRIPTORS };

struct gyre_bell_page {
    _Atomic uint32_t word;  /* changed by every ring */
    _Atomic uint32_t state; /* enum gyre_bell_state; written by the owner */
};

struct gyre_peer_bell {
    struct gyre_bell_page *page;
    uint32_t peer;
};

/* The result of the trial of copies between this process's device and others of the node. */
struct gyre_domain_proof {
    pthread_mutex_t lock;
    bool tried, right;
    struct gyre_trouble wrong;
};

/* GYRE_TCP_SECURITY, in the order of its words. AUTO: AUTH to other machines, with a key. */
enum gyre_domain_security {
    GYRE_SECURITY_AUTO,
    GYRE_SECURITY_NONE,
    GYRE_SECURITY_AUTH,
    GYRE_SECURITY_ENCRYPT
};

/* GYRE_TCP_RENEW, in the order of its words. AUTO: connections to other addresses than this
 * rank's. */
enum gyre_domain_renewal { GYRE_RENEW_AUTO, GYRE_RENEW_NEVER, GYRE_RENEW_ALWAYS };

struct gyre_domain_settings {
    const char *transport;
    char interface[256];
    char root[256];
    int64_t join_timeout_ms, timeout_ms, dead_time_ms;
    int64_t connections, links_at_once;
    uint64_t trace_bytes; /* of the file in GYRE_TRACE */
    uint16_t port_low, port_high;
    const char *poller;
    bool bare_payload; /* TCP sums frames' headers only */
    enum gyre_domain_security security;
    enum gyre_domain_renewal renewal; /* which of TCP's connections are made anew */
    bool failover;                    /* a broken link over RDMA goes on over TCP */
    const char *devices; /* the list of CUDA devices, NULL: none; borrowed until open() returns */
};

struct gyre_domain {
    struct gyre_domain *next; /* of this process's domains */
    struct gyre_job job;
    struct gyre_domain_settings settings;
    uint32_t records;                /* that the recorder remembers; 0: the usual number */
    struct gyre_company *company;    /* for meet(); borrowed; NULL: ranks meet at the job's root */
    struct gyre_company own_company; /* of a newcomer */
    struct gyre_members *members;
    struct gyre_options *options;   /* of gyre_init(), until the members keep them; NULL: none */
    struct gyre_waiting_room *room; /* of newcomers; NULL: not opened here */
    struct gyre_newcomer *newcomer; /* those invited to the next epoch */
    uint32_t newcomers;
    uint32_t *seat;     /* of each rank, in members */
    uint64_t gather_at; /* when its members first gathered; 0: not yet */
    bool aside;         /* a thread of its own has them gather: the members are its */
    struct gyre_joined *joined;
    struct gyre_links *links;
    struct gyre_on_demand on_demand; /* of the links that are made at their first use */
    struct gyre_watch *watch;
    struct gyre_health health;
    struct gyre_activity activity;
    bool forked;
    bool names_log;           /* the process's log names this domain's rank */
    _Atomic uint64_t look_at; /* when the launcher's pipe is looked at next for a wish to leave */

    /* doorbell */
    struct gyre_region bell_region;
    struct gyre_bell_page *bell;
    struct gyre_peer_bell *peer_bell; /* per local peer, without this rank; large: with a link */
    uint32_t peer_bells;
    uint32_t links_seen; /* large node: of the links, those whose bells are known */
    int eventfd;
    bool light_ring;     /* sleepers fence for this process too */
    bool sockets;        /* some peer is reached by descriptors: sleep on those */
    bool oversubscribed; /* the ranks of this machine outnumber its cores */
    uint32_t bell_seen;  /* the word, when this rank said that it sleeps */
    uint64_t sleep_ns;   /* how long this rank will sleep */

    /* ownership of progress */
    _Atomic uint32_t owner;  /* 1: a thread drives */
    _Atomic uint32_t wanted; /* threads that wait in enter() */
    /* Numbers drawn by threads that wait in enter(); and the number whose turn it is. */
    _Atomic uint32_t numbers, turn;
    _Atomic uint32_t standing;
    _Atomic uint32_t standing_word; /* changed to make them look */

    /* connections made anew */
    bool mends;                    /* the mender looks after this domain */
    struct gyre_domain *mend_next; /* the mender's list */
    uint64_t mend_at;              /* when the mender looks here, without news */
    bool in_mending;               /* it does */

    /* shared memory */
    struct gyre_memory_lookup lookup; /* also of the copy queue, for drivers */
    struct gyre_domain_proof proof;
    struct gyre_region queue_region; /* of the shm pipes, where the node is not large */
    struct gyre_node_memory node;    /* of a large node */
    int cuda_device;                 /* -1: none, and why */
    struct gyre_trouble no_cuda;
    struct gyre_device_identity cuda_identity;
};

int gyre_domain_settings_read(const struct gyre_options *user,
                              struct gyre_domain_settings *settings, struct gyre_trouble *trouble);
/* The word of a security; and what protects TCP's bytes to a rank of this or another machine. */
const char *gyre_domain_security_word(enum gyre_domain_security security);
enum gyre_seal_mode gyre_domain_seals(const struct gyre_domain *domain, bool one_machine);

/* Whether a data connection to that rank of another node is made anew where it breaks, alike at
 * both ends; and the word of a renewal. */
bool gyre_domain_renews(const struct gyre_domain *domain, uint32_t peer);
const char *gyre_domain_renewal_word(enum gyre_domain_renewal renewal);

/* GYRE_INVALID: a security is wished that needs a key, and the job has none. */
int gyre_domain_check_security(const struct gyre_domain *domain, struct gyre_trouble *trouble);

int gyre_domain_memory_init(struct gyre_domain *domain);
void gyre_domain_memory_deinit(struct gyre_domain *domain);

/* Unmaps the peers' CUDA memory, and has peers unmap this process's. Before the goodbye. */
void gyre_domain_memory_part(struct gyre_domain *domain);

/* Chooses this rank's CUDA device, or keeps the reason why it has none. `given`: the device, -1:
 * none; NULL: from the job and the settings. */
int gyre_domain_device_choose(struct gyre_domain *domain, const int *given,
                              struct gyre_trouble *trouble);

/* Logs one line after the join if other ranks use this rank's device; the lowest of them does. */
void gyre_domain_device_tell(const struct gyre_domain *domain);

/* Make the doorbell; give it to the node's peers and take theirs; free it. */
int gyre_domain_bell_init(struct gyre_domain *domain, struct gyre_trouble *trouble);
int gyre_domain_bell_meet(struct gyre_domain *domain, struct gyre_trouble *trouble);
void gyre_domain_bell_deinit(struct gyre_domain *domain);

/* Wakes the owner, if it sleeps. Any thread. */
void gyre_domain_wake_owner(struct gyre_domain *domain);

/* Tells peers that this rank sleeps. False: a ring may be missed. */
bool gyre_domain_say_asleep(struct gyre_domain *domain);
void gyre_domain_say_awake(struct gyre_domain *domain);

/* Opens a wire of that driver for so many peers. */

int gyre_domain_open_wire(struct gyre_domain *domain, const struct gyre_driver *driver,
                          uint32_t peers, struct gyre_wire **wire, struct gyre_trouble *trouble);

/* open: maps the memory of a large node, before everything that lies in it. attach: makes links to
 * every peer of this node, or has them made at their first use. */
int gyre_domain_open_node(struct gyre_domain *domain, struct gyre_trouble *trouble);
int gyre_domain_attach_node(struct gyre_domain *domain, struct gyre_trouble *trouble);

/* Makes links to every peer of another node, each over the best driver that both ends have, or
 * prepares that they are made at their first use. */
int gyre_domain_attach_remote(struct gyre_domain *domain, struct gyre_trouble *trouble);

/* Which links of this rank cannot be made at their first use, because it may have a driver that
 * makes none so. */
enum gyre_join_channels gyre_domain_channels(struct gyre_domain *domain);

/* plan: says of each peer how links are made at their first use. -ENOMEM. */
int gyre_domain_plan_links(struct gyre_domain *domain);
void gyre_domain_forget_links(struct gyre_domain *domain);

/* mend.c. ask_anew: has the watch make connections anew that broke. mend: goes on over those that
 * the watch has made; true: bytes of such a connection wait for room in the kernel. Owner. */
void gyre_domain_ask_anew(struct gyre_domain *domain);
bool gyre_domain_mend(struct gyre_domain *domain);

/* Enters the domain from a thread that is not the program's. A rank whose program calls from
 * several threads is never said to wait in vain. */
void gyre_domain_enter_aside(struct gyre_domain *domain);

/* mender.c: the process's thread that mends while nobody drives. Whoever changes the word and wakes
 * those that sleep on it has the mender look at all domains. */
int gyre_domain_come_to_mender(struct gyre_domain *domain, struct gyre_trouble *trouble);
void gyre_domain_leave_mender(struct gyre_domain *domain);
_Atomic uint32_t *gyre_domain_mender_word(void);

/* Has all ranks of the node try once, before CUDA memory is shared, whether their devices copy each
 * other's bytes rightly. GYRE_UNSUPPORTED: this rank's and some other do not, or no trial could be
 * made, and memory stays with this rank. Any thread; blocks until peers have tried. */
int gyre_domain_prove(struct gyre_domain *domain, struct gyre_trouble *trouble);

/* Waits until a node peer's region of host memory `id` is mapped here. */
int gyre_domain_await_view(struct gyre_domain *domain, uint32_t peer, uint32_t id, uint64_t length,
                           void **view, struct gyre_trouble *trouble);

/* Closes the descriptor of host memory that every peer has mapped, and that nobody else will be
 * given. */
void gyre_domain_close_offer(struct gyre_region *region);

/* Adds a region that another domain had, in the program's hands, and shares it. */
int gyre_domain_adopt(struct gyre_domain *domain, const struct gyre_region *region,
                      struct gyre_trouble *trouble);

/* -- epoch.c ----------------------------------------------------------------------------------- */

/* know: learns the members of a job that has joined, or that a view is completed. -ENOMEM. */
int gyre_domain_know_members(struct gyre_domain *domain, struct gyre_trouble *trouble);
void gyre_domain_forget_members(struct gyre_domain *domain);

/* -- newcomers.c ------------------------------------------------------------------------------- */

/* Closes the room; `over`: the job has ended. Does nothing where there is none. */
void gyre_domain_end_room(struct gyre_domain *domain, bool over);

/* Lets go of what ask() has left and the join has not taken. */
void gyre_domain_end_asking(struct gyre_domain *domain);

/* -- join_options.c ---------------------------------------------------------------------------- */

/* Writes the options of a join, but the company; they borrow the domain and the text. */
#define GYRE_DOMAIN_CONFIGURATION 736
void gyre_domain_join_options(const struct gyre_domain *domain, const char *above,
                              char text[GYRE_DOMAIN_CONFIGURATION],
                              struct gyre_join_options *options);

/* The job of this rank in the epoch that the company joins, of domain->members' next view. */
void gyre_domain_describe_job(const struct gyre_domain *domain, const struct gyre_company *company,
                              struct gyre_job *job);

#endif
