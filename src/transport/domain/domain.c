/* The domain: everything of the transport that a process has once, or once for each of its ranks.
 *
 *   settings ─▶ job ─▶ device ─▶ join (channels to all peers) ─▶ watch ─▶ doorbell and queues
 * shared in the node ─▶ links
 *
 * open() goes down this line and close() goes back up; both tolerate any half-built state, so there
 * is one way out.
 *
 * Tested by tests/program/collectives/comm.c. */
#include "transport/domain/inside.h"

#include "base/clock.h"
#include "base/machine/cpu.h"
#include "base/log.h"
#include "transport/join/join.h"
#include "transport/net/address.h"
#include "transport/memory/copy_queue.h"
#include "transport/net/socket.h"
#include "transport/recorder/dump.h"
#include "transport/watch/renew.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LISTEN_BACKLOG   4096
#define MEETING_EXTRA_MS 5000  /* beyond the dead time, for ranks that have come to meet */
#define FLUSH_PAUSE_NS   50000 /* the first; each doubles, where ranks lack cores */

/* -- those of this process --------------------------------------------------------------------- */

static pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gyre_domain *domains;

static void before_fork(void)
{
    pthread_mutex_lock(&domains_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&domains_lock);
}

static void forked_child(void)
{
    for (struct gyre_domain *domain = domains; domain; domain = domain->next)
        domain->forked = true;
    pthread_mutex_unlock(&domains_lock);
}

static void enlist(struct gyre_domain *domain)
{
    static bool installed;
    pthread_mutex_lock(&domains_lock);
    domain->next = domains;
    domains = domain;
    bool install = !installed;
    installed = true;
    pthread_mutex_unlock(&domains_lock);
    if (install)
        pthread_atfork(before_fork, after_fork, forked_child);
}

static void strike(struct gyre_domain *domain)
{
    pthread_mutex_lock(&domains_lock);
    struct gyre_domain **at = &domains;
    while (*at && *at != domain)
        at = &(*at)->next;
    if (*at)
        *at = domain->next;
    pthread_mutex_unlock(&domains_lock);
}

/* Whether this process has a domain; `groups`: those of groups of a store count, too. Those of a
 * forked child's parent do not. */
static bool has_domain(bool groups)
{
    pthread_mutex_lock(&domains_lock);
    bool any = false;
    for (const struct gyre_domain *domain = domains; domain; domain = domain->next)
        any |= !domain->forked && (groups || !domain->job.group);
    pthread_mutex_unlock(&domains_lock);
    return any;
}

/* -- join -------------------------------------------------------------------------------------- */

static int join(struct gyre_domain *domain, const char *above, struct gyre_trouble *trouble)
{
    char text[GYRE_DOMAIN_CONFIGURATION];
    struct gyre_join_options options;
    gyre_domain_join_options(domain, above, text, &options);
    options.company = domain->company;
    options.channels = gyre_domain_channels(domain);
    int status = gyre_join_ranks(&domain->job, &options, &domain->joined, trouble);
    domain->company = NULL;
    gyre_domain_end_asking(domain);
    if (status)
        return status;
    gyre_domain_device_tell(domain);
    return gyre_domain_know_members(domain, trouble);
}

static int start_watch(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    struct gyre_watch_options options = {
        .job = &domain->job,
        .joined = domain->joined,
        .members = domain->members,
        .dead_time_ms = (int)domain->settings.dead_time_ms,
        .timeout_ms = (int)domain->settings.timeout_ms,
        .activity = &domain->activity,
        .health = &domain->health,
        .bell = {&domain->bell->word, domain->eventfd},
        .security = {gyre_domain_seals(domain, false), gyre_domain_seals(domain, true)},
        .cuda_device = domain->cuda_device,
        .copy_queue = domain->lookup.copy_queue,
        .mender = {gyre_domain_mender_word(), -1}};
    int status = gyre_watch_start(&options, &domain->watch, trouble);
    if (!status)
        domain->lookup.views = gyre_watch_views(domain->watch);
    return status;
}

/* -- open and close ---------------------------------------------------------------------------- */

/* The number of processes on this machine, whatever node they simulate. */
static uint32_t ranks_here(const struct gyre_domain *domain)
{
    const struct gyre_joined *joined = domain->joined;
    uint32_t here = 0;
    for (uint32_t i = 0; i < joined->n; i++)
        here += strcmp(joined->member[i].host, joined->member[joined->rank].host) == 0;
    return here;
}

static int make_links(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    const uint32_t n = domain->joined->n;
    const int status = gyre_links_create(n, &domain->links);
    return status ? gyre_trouble_set(trouble, status, "no memory for links to %u ranks", n) : 0;
}

static int open_peers(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    int status;
    domain->oversubscribed |= gyre_cpu_oversubscribed((int)ranks_here(domain));
    if (domain->cuda_device >= 0) {
        domain->lookup.device = gyre_device_of(GYRE_MEMORY_CUDA);
        domain->lookup.device_index = domain->cuda_device;
        domain->lookup.copy_queue =
            gyre_copy_queue_create(domain->lookup.device, domain->cuda_device);
        if (!domain->lookup.copy_queue)
            return gyre_trouble_set(trouble, -ENOMEM, "no memory for copies of a device's memory");
    }
    if ((status = gyre_domain_open_node(domain, trouble)) ||
        (status = gyre_domain_bell_init(domain, trouble)) ||
        (status = start_watch(domain, trouble)) || (status = make_links(domain, trouble)))
        return status;
    if (domain->joined->local_size > 1 && (status = gyre_domain_bell_meet(domain, trouble)))
        return status;
    if ((status = gyre_domain_attach_node(domain, trouble)) ||
        (status = gyre_domain_attach_remote(domain, trouble)))
        return status;
    gyre_domain_close_offer(&domain->bell_region);
    gyre_domain_close_offer(&domain->queue_region);
    return gyre_domain_come_to_mender(domain, trouble);
}

/* Makes this rank's records, before anybody can wait for it. */
static void open_recorder(struct gyre_domain *domain)
{
    const struct gyre_joined *joined = domain->joined;
    const struct gyre_member *member = &joined->member[joined->rank];
    struct gyre_recorder_identity identity = {.rank = joined->rank,
                                              .n = joined->n,
                                              .node = member->node,
                                              .nodes = joined->nodes,
                                              .epoch = domain->job.epoch,
                                              .job = domain->job.id,
                                              .host = member->host,
                                              .trace_bytes = domain->settings.trace_bytes,
                                              .records = domain->records};
    if (domain->job.ranks_here > 1)
        identity.records = GYRE_RECORDS;
    domain->activity.recorder = gyre_recorder_create(&identity);
    gyre_recorder_note_comm(domain->activity.recorder, 0, joined->n, joined->rank);
    gyre_recorder_dump_on_signal(domain->activity.recorder);
}

/* The rank whose end failed the job, as far as the watch has told; else UINT32_MAX. */
static uint32_t lost_neighbour(const struct gyre_domain *domain)
{
    if (!atomic_load(&domain->health.status) || domain->joined->large)
        return UINT32_MAX;
    const uint32_t lost = domain->health.failed_rank; /* written before the status */
    return lost < domain->joined->n && lost != domain->joined->rank ? lost : UINT32_MAX;
}

/* The records of a peer of this node; NULL: there are none, or they are fewer. */
static const struct gyre_record_head *records_of(const struct gyre_domain *domain, uint32_t peer,
                                                 uint32_t records)
{
    return gyre_watch_view(domain->watch, peer, GYRE_REGION_RECORD, GYRE_MEMORY_HOST,
                           gyre_record_bytes(records));
}

void gyre_domain_dump(struct gyre_domain *domain)
{
    const struct gyre_recorder *recorder = domain->activity.recorder;
    if (!recorder || !domain->watch)
        return;
    gyre_recorder_dump(recorder->head, false);
    const uint32_t lost = lost_neighbour(domain);
    if (lost == UINT32_MAX)
        return;
    const struct gyre_record_head *head = records_of(domain, lost, 0);
    if (head && gyre_record_number_fits(head->records) && records_of(domain, lost, head->records))
        gyre_recorder_dump(head, true);
}

/* Takes the settings of the domain whose ranks meet here. They have all come: whoever does not
 * appear within the dead time has ended, or is stopped. */
static void take_settings(struct gyre_domain *domain, const struct gyre_domain *beside)
{
    struct gyre_domain_settings *settings = &domain->settings;
    *settings = beside->settings;
    const int64_t most_ms = settings->dead_time_ms + MEETING_EXTRA_MS;
    if (settings->dead_time_ms && settings->join_timeout_ms > most_ms)
        settings->join_timeout_ms = most_ms;
    domain->oversubscribed = beside->oversubscribed;
}

static int find_settings(struct gyre_domain *domain, const struct gyre_domain_options *options,
                         struct gyre_trouble *trouble)
{
    if (options->beside) {
        take_settings(domain, options->beside);
        return 0;
    }
    if (!options->after) {
        domain->options = options->user ? gyre_job_keep_options(options->user) : NULL;
        return options->user && !domain->options
                   ? gyre_trouble_set(trouble, -ENOMEM, "no memory for a domain")
                   : gyre_domain_settings_read(options->user, &domain->settings, trouble);
    }
    const struct gyre_recorder *before = options->after->activity.recorder;
    domain->settings = options->after->settings;
    domain->records = before ? before->head->records : 0;
    domain->members = gyre_members_hold(options->after->members);
    domain->company = options->company;
    return 0;
}

static int find_job(struct gyre_domain *domain, const struct gyre_domain_options *options,
                    struct gyre_trouble *trouble)
{
    struct gyre_job *job = &domain->job;
    const bool first = !has_domain(true);
    int status = 0;
    if (options->job)
        *job = *options->job;
    else if (options->newcomer)
        status = gyre_job_discover_running(options->user, job, trouble);
    else
        status = gyre_job_discover(options->user, job, trouble);
    if (!status && !options->job && !job->group && has_domain(false))
        return gyre_trouble_set(
            trouble, GYRE_INVALID,
            "this process has a communicator already; gyre_finalize() it before gyre_init()");
    domain->names_log =
        !options->after && !options->newcomer && (first || (options->job && !job->group));
    if (!status && domain->names_log)
        gyre_log_identity(options->job ? job->first_here : job->rank,
                          options->job ? job->first_here + job->ranks_here - 1 : job->rank);
    return status;
}

int gyre_domain_prepare(const struct gyre_domain_options *options, struct gyre_domain **out,
                        struct gyre_trouble *trouble)
{
    struct gyre_domain *domain = calloc(1, sizeof(*domain));
    if (!domain)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a domain");
    domain->eventfd = domain->cuda_device = domain->own_company.listener = -1;
    int status = gyre_domain_memory_init(domain);
    if (status)
        gyre_trouble_set(trouble, status, "no memory for the list of a domain's memories");
    if (!status)
        status = find_settings(domain, options, trouble);
    if (!status)
        status = find_job(domain, options, trouble);
    if (!status)
        status = gyre_domain_check_security(domain, trouble);
    if (!status)
        status = gyre_domain_device_choose(domain, options->device, trouble);
    domain->settings.devices = NULL;
    if (status) {
        gyre_trouble_set(trouble, status, "%s", gyre_status_name(status));
        gyre_domain_close(domain, NULL);
        return status;
    }
    enlist(domain);
    *out = domain;
    return 0;
}

int gyre_domain_meet(struct gyre_domain *domain, const char *configuration,
                     struct gyre_trouble *trouble)
{
    int status = join(domain, configuration, trouble);
    if (!status && domain->joined->n > 1) {
        open_recorder(domain);
        status = open_peers(domain, trouble);
    }
    return status ? gyre_trouble_set(trouble, status, "%s", gyre_status_name(status)) : 0;
}

void gyre_domain_set_root(struct gyre_domain *domain, const char *host, uint16_t port, int fd)
{
    snprintf(domain->job.root_host, sizeof domain->job.root_host, "%s", host);
    domain->job.root_port = port;
    domain->job.root_fd = fd;
}

/* Listens for the peers. Peers of other machines know an address of this rank's; all others are on
 * this machine. */
int gyre_domain_listen(const struct gyre_domain *domain, char host[64], uint16_t *port,
                       struct gyre_trouble *trouble)
{
    char text[GYRE_ADDRESS_TEXT];
    const struct gyre_joined *joined = domain->joined;
    struct sockaddr_storage address = joined->member[joined->rank].address;
    if (joined->nodes == 1 || !address.ss_family)
        gyre_address_resolve("127.0.0.1", 0, &address, 1, NULL);
    gyre_address_set_port(&address, 0);
    int fd = gyre_socket_listen(&address, domain->settings.port_low, domain->settings.port_high,
                                LISTEN_BACKLOG);
    if (fd < 0)
        return gyre_trouble_set(
            trouble, fd, "rank 0 cannot listen at a port of %d-%d (GYRE_PORT_RANGE): %s",
            domain->settings.port_low, domain->settings.port_high, gyre_status_name(fd));
    socklen_t length = sizeof address;
    getsockname(fd, (struct sockaddr *)&address, &length);
    *port = gyre_address_port(&address);
    gyre_address_format(&address, text);
    *strrchr(text, ':') = '\0';
    snprintf(host, 64, "%s", text);
    return fd;
}

/* Waits until everything sent has left and everything coming has come, or the job has failed. */
static void flush_links(struct gyre_domain *domain, uint64_t limit)
{
    const long longest = domain->oversubscribed ? 32 * FLUSH_PAUSE_NS : FLUSH_PAUSE_NS;
    struct timespec pause = {0, FLUSH_PAUSE_NS};
    struct gyre_completion ignored[16];
    while (!atomic_load(&domain->health.status) && gyre_links_bye(domain->links) == GYRE_AGAIN &&
           gyre_now_ns() < limit) {
        if (!gyre_links_poll(domain->links, gyre_now_ns(), ignored, 16)) {
            nanosleep(&pause, NULL);
            pause.tv_nsec = pause.tv_nsec < longest ? 2 * pause.tv_nsec : longest;
        }
        gyre_domain_mend(domain);
        gyre_domain_ring(domain);
    }
}

int gyre_domain_close(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    if (!domain)
        return 0;
    gyre_domain_leave_mender(domain);
    if (domain->links && !domain->forked) {
        flush_links(domain, gyre_watch_part(domain->watch));
        gyre_watch_end_renewals(domain->watch);
    }
    if (domain->watch && !domain->forked)
        gyre_domain_memory_part(domain);
    if (domain->watch)
        gyre_watch_stop(domain->watch);
    int status = atomic_load(&domain->health.status);
    if (status && trouble)
        *trouble = domain->health.failure;
    gyre_recorder_destroy(domain->activity.recorder);
    gyre_links_destroy(domain->links);
    gyre_domain_forget_links(domain);
    gyre_copy_queue_destroy(domain->lookup.copy_queue);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&domain->queue_region);
    gyre_domain_memory_deinit(domain);
    gyre_domain_bell_deinit(domain);
    gyre_node_memory_unmap(&domain->node);
    gyre_joined_destroy(domain->joined);
    gyre_domain_end_room(domain, true);
    gyre_domain_end_asking(domain);
    gyre_domain_forget_members(domain);
    gyre_job_forget_options(domain->options);
    explicit_bzero(&domain->job, sizeof(domain->job));
    strike(domain);
    free(domain);
    return status;
}
