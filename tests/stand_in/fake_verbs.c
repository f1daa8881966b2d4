/* The stand-in's inside: these take the library's place in the program that they are linked to. Two
 * ends meet in two threads, hence the lock. */
#include "stand_in/fake_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr

struct fake_verbs fake_verbs;

static struct ibv_device device[FAKE_DEVICES];

struct end { /* of a queue pair */
    struct ibv_qp pair;
    uint32_t peer;                    /* number */
    uint64_t receive[FAKE_UNDER_WAY]; /* posted: their names */
    uint32_t receives, receives_used;
    bool broken;
};

struct tidings { /* a completion that is to be fetched */
    struct ibv_cq *queue;
    struct ibv_wc done;
};

struct parcel { /* a request on its way */
    uint32_t from;
    uint64_t name, to;
    uint32_t length, immediate, from_key, to_key;
    bool signalled, tells, copied;
    const void *bytes;
    uint8_t copy[FAKE_INLINE]; /* of what travels in the request itself */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_mr *regions[FAKE_REGIONS]; /* by key; NULL: free */
static struct end *ends[FAKE_QUEUES];
static struct tidings tidings[FAKE_UNDER_WAY];
static struct parcel parcels[FAKE_UNDER_WAY];
static int told, under_way;

void fake_verbs_reset(void)
{
    fake_verbs = (struct fake_verbs){
        .devices = 1,
        .port[0] = {"fake0", IBV_PORT_ACTIVE, 0, {{"::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2}}},
        .limits = {.phys_port_cnt = 1, .max_cqe = 1 << 20, .max_qp = 1024, .max_qp_wr = 4096},
        .memory = UINT64_MAX};
    told = under_way = 0;
}

static const struct fake_port *port_of(const struct ibv_context *context)
{
    return &fake_verbs.port[context->device - device];
}

static void *make(size_t bytes)
{
    __atomic_add_fetch(&fake_verbs.open, 1, __ATOMIC_RELAXED);
    return calloc(1, bytes);
}

static int unmake(void *thing)
{
    __atomic_sub_fetch(&fake_verbs.open, 1, __ATOMIC_RELAXED);
    free(thing);
    return 0;
}

/* -- devices ----------------------------------------------------------------------------------- */

struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list = make((FAKE_DEVICES + 1) * sizeof *list);
    for (int i = 0; i < fake_verbs.devices; i++)
        list[i] = &device[i];
    *count = fake_verbs.devices;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    unmake(list);
}

const char *ibv_get_device_name(struct ibv_device *it)
{
    return fake_verbs.port[it - device].name;
}

struct ibv_context *ibv_open_device(struct ibv_device *it)
{
    struct ibv_context *context = make(sizeof *context);
    context->device = it;
    context->async_fd = eventfd(0, EFD_NONBLOCK);
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    close(context->async_fd);
    return unmake(context);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *limits)
{
    (void)context;
    *limits = fake_verbs.limits;
    return 0;
}

static int gids_of(const struct fake_port *port)
{
    int count = 0;
    while (count < FAKE_GIDS && port->gid[count].text)
        count++;
    return count;
}

int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *out)
{
    const struct fake_port *port = port_of(context);
    struct ibv_port_attr *attr = (struct ibv_port_attr *)out;
    (void)number;
    attr->state = port->state;
    attr->active_mtu = attr->max_mtu = IBV_MTU_4096;
    attr->gid_tbl_len = gids_of(port);
    attr->active_speed = port->speed ? port->speed : 32;
    attr->active_width = 2;
    return fake_verbs.port_status;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t number, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    const struct fake_port *port = port_of(context);
    (void)flags;
    (void)size;
    if ((int)index >= gids_of(port))
        return EINVAL;
    *entry = (struct ibv_gid_entry){
        .gid_index = index, .port_num = number, .gid_type = port->gid[index].type};
    return inet_pton(AF_INET6, port->gid[index].text, entry->gid.raw) == 1 ? 0 : EINVAL;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    (void)context;
    if (!fake_verbs.has_event)
        return -1;
    fake_verbs.has_event = false;
    *event = (struct ibv_async_event){.event_type = fake_verbs.event, .element.port_num = 1};
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

/* -- what is made on them ---------------------------------------------------------------------- */

int ibv_fork_init(void)
{
    fake_verbs.fork_ready = true;
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *domain = make(sizeof *domain);
    domain->context = context;
    return domain;
}

int ibv_dealloc_pd(struct ibv_pd *domain)
{
    return unmake(domain);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = make(sizeof *channel);
    channel->context = context;
    channel->fd = eventfd(0, EFD_NONBLOCK);
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    return unmake(channel);
}

static int poll_tidings(struct ibv_cq *queue, int most, struct ibv_wc *done)
{
    int count = 0, kept = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < told; i++)
        if (tidings[i].queue == queue && count < most)
            done[count++] = tidings[i].done;
        else
            tidings[kept++] = tidings[i];
    told = kept;
    pthread_mutex_unlock(&lock);
    return count;
}

static int notify_nobody(struct ibv_cq *queue, int solicited)
{
    (void)queue;
    (void)solicited;
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int length, void *own,
                             struct ibv_comp_channel *channel, int vector)
{
    struct ibv_cq *queue = make(sizeof *queue);
    (void)own;
    (void)vector;
    *queue = (struct ibv_cq){.context = context, .channel = channel, .cqe = length};
    context->ops.poll_cq = poll_tidings;
    context->ops.req_notify_cq = notify_nobody;
    return queue;
}

int ibv_destroy_cq(struct ibv_cq *queue)
{
    return unmake(queue);
}

void ibv_ack_cq_events(struct ibv_cq *queue, unsigned int events)
{
    (void)queue;
    (void)events;
}

static bool is_away(const void *base)
{
    return fake_verbs.away && fake_verbs.away((uintptr_t)base);
}

static struct ibv_mr *put_region(struct ibv_pd *domain, void *base, size_t length)
{
    if (length > fake_verbs.memory) {
        fake_verbs.refused++;
        errno = ENOMEM;
        return NULL;
    }
    fake_verbs.memory -= length;
    struct ibv_mr *registration = make(sizeof *registration);
    uint32_t key = 1;
    pthread_mutex_lock(&lock);
    while (key < FAKE_REGIONS - 1 && regions[key])
        key++;
    *registration =
        (struct ibv_mr){.pd = domain, .addr = base, .length = length, .lkey = key, .rkey = key};
    regions[key] = registration;
    pthread_mutex_unlock(&lock);
    return registration;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *domain, void *base, size_t length, int access)
{
    (void)access;
    fake_verbs.unprepared |= !fake_verbs.fork_ready;
    if (is_away(base) && !fake_verbs.peer_memory) {
        errno = EFAULT;
        return NULL;
    }
    fake_verbs.by_peer_memory += is_away(base);
    return put_region(domain, base, length);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *domain, uint64_t offset, size_t length,
                                 uint64_t address, int fd, int access)
{
    if (fake_verbs.no_dmabuf || offset || fcntl(fd, F_GETFD) < 0) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    fake_verbs.by_dmabuf++;
    fake_verbs.relaxed += (access & IBV_ACCESS_RELAXED_ORDERING) != 0;
    return put_region(domain, (void *)(uintptr_t)address, length);
}

/* What the library's header makes of optional access, such as relaxed ordering. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *domain, void *base, size_t length, uint64_t address,
                                unsigned int access)
{
    (void)address;
    fake_verbs.relaxed += (access & IBV_ACCESS_RELAXED_ORDERING) != 0;
    return ibv_reg_mr(domain, base, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *registration)
{
    fake_verbs.memory += registration->length;
    pthread_mutex_lock(&lock);
    regions[registration->lkey] = NULL;
    pthread_mutex_unlock(&lock);
    return unmake(registration);
}

/* -- queue pairs ------------------------------------------------------------------------------- */

static int index_of(const struct end *end)
{
    return (int)(end->pair.context->device - device);
}

static void tell(struct ibv_cq *queue, const struct ibv_wc *done)
{
    if (told == FAKE_UNDER_WAY)
        abort();
    tidings[told++] = (struct tidings){queue, *done};
}

static struct end *end_of(uint32_t number)
{
    return number < FAKE_QUEUES ? ends[number] : NULL;
}

/* What was posted ends. */
static void flush(struct end *end)
{
    for (; end->receives_used != end->receives; end->receives_used++)
        tell(end->pair.recv_cq,
             &(struct ibv_wc){.wr_id = end->receive[end->receives_used % FAKE_UNDER_WAY],
                              .status = IBV_WC_WR_FLUSH_ERR,
                              .qp_num = end->pair.qp_num});
    end->broken = true;
}

static void receive(struct end *end, const struct parcel *parcel)
{
    if (end->receives == end->receives_used)
        abort(); /* a window that is none */
    tell(end->pair.recv_cq,
         &(struct ibv_wc){.wr_id = end->receive[end->receives_used++ % FAKE_UNDER_WAY],
                          .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                          .imm_data = parcel->immediate,
                          .qp_num = end->pair.qp_num});
}

/* Whether the key is one of that end's device, for all of the span. */
static bool may(const struct end *end, uint32_t key, uint64_t at, uint32_t length)
{
    const struct ibv_mr *region = key < FAKE_REGIONS ? regions[key] : NULL;
    uint64_t begin = region ? (uintptr_t)region->addr : 0;
    return !length || (region && region->pd == end->pair.pd && at >= begin &&
                       at + length <= begin + region->length);
}

static bool may_cross(const struct end *from, const struct end *to, const struct parcel *parcel)
{
    uint64_t at = (uintptr_t)parcel->bytes;
    return (parcel->copied || may(from, parcel->from_key, at, parcel->length)) &&
           may(to, parcel->to_key, parcel->to, parcel->length);
}

static void *touchable(uint64_t address)
{
    void *away = fake_verbs.away ? fake_verbs.away(address) : NULL;
    return away ? away : (void *)(uintptr_t)address;
}

static void arrive(const struct parcel *parcel)
{
    struct end *from = end_of(parcel->from), *to = from ? end_of(from->peer) : NULL;
    if (!from)
        return;
    bool lost = from->broken || !to || to->broken || fake_verbs.dead[index_of(from)] ||
                !may_cross(from, to, parcel);
    if (!lost) {
        memcpy(touchable(parcel->to),
               parcel->copied ? parcel->copy : touchable((uintptr_t)parcel->bytes), parcel->length);
        fake_verbs.written[index_of(from)] += parcel->length;
        if (parcel->length && fake_verbs.spoils[index_of(from)])
            *(uint8_t *)touchable(parcel->to) ^= 1;
    }
    if (!lost && parcel->tells)
        receive(to, parcel);
    fake_verbs.answers[index_of(from)] += parcel->signalled;
    if (lost || parcel->signalled)
        tell(from->pair.send_cq, &(struct ibv_wc){.wr_id = parcel->name,
                                                  .status = from->broken ? IBV_WC_WR_FLUSH_ERR
                                                            : lost       ? IBV_WC_RETRY_EXC_ERR
                                                                         : IBV_WC_SUCCESS,
                                                  .qp_num = parcel->from});
    if (lost)
        flush(from);
}

static void pack(const struct end *end, const struct ibv_send_wr *wanted, struct parcel *parcel)
{
    const struct ibv_sge *piece = wanted->num_sge ? wanted->sg_list : NULL;
    *parcel = (struct parcel){.from = end->pair.qp_num,
                              .name = wanted->wr_id,
                              .to = wanted->wr.rdma.remote_addr,
                              .length = piece ? piece->length : 0,
                              .immediate = wanted->imm_data,
                              .from_key = piece ? piece->lkey : 0,
                              .to_key = wanted->wr.rdma.rkey,
                              .copied = wanted->send_flags & IBV_SEND_INLINE,
                              .signalled = wanted->send_flags & IBV_SEND_SIGNALED,
                              .tells = wanted->opcode == IBV_WR_RDMA_WRITE_WITH_IMM,
                              .bytes = piece ? (const void *)(uintptr_t)piece->addr : ""};
    if (parcel->copied)
        memcpy(parcel->copy, parcel->bytes, parcel->length);
}

static bool is_slow(const struct end *end)
{
    bool slow = fake_verbs.slow[index_of(end)];
    for (int i = 0; i < under_way && !slow; i++)
        slow = parcels[i].from == end->pair.qp_num;
    return slow;
}

static int post_send(struct ibv_qp *pair, struct ibv_send_wr *wanted, struct ibv_send_wr **bad)
{
    struct end *end = (struct end *)pair;
    (void)bad;
    pthread_mutex_lock(&lock);
    for (; wanted; wanted = wanted->next) {
        struct parcel *parcel = &parcels[under_way];
        if (under_way == FAKE_UNDER_WAY)
            abort();
        pack(end, wanted, parcel);
        if (is_slow(end))
            under_way++;
        else
            arrive(parcel);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static int post_receive(struct ibv_qp *pair, struct ibv_recv_wr *wanted, struct ibv_recv_wr **bad)
{
    struct end *end = (struct end *)pair;
    (void)bad;
    pthread_mutex_lock(&lock);
    for (; wanted; wanted = wanted->next)
        end->receive[end->receives++ % FAKE_UNDER_WAY] = wanted->wr_id;
    pthread_mutex_unlock(&lock);
    return 0;
}

int fake_verbs_hurry(int most)
{
    pthread_mutex_lock(&lock);
    int count = under_way < most ? under_way : most;
    for (int i = 0; i < count; i++)
        arrive(&parcels[i]);
    under_way -= count;
    memmove(parcels, parcels + count, (size_t)under_way * sizeof *parcels);
    pthread_mutex_unlock(&lock);
    return count;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *domain, struct ibv_qp_init_attr *wanted)
{
    uint32_t number = 1;
    struct end *end = fake_verbs.no_queues ? NULL : make(sizeof *end);
    if (!end) {
        errno = ENOMEM;
        return NULL;
    }
    domain->context->ops.post_send = post_send;
    domain->context->ops.post_recv = post_receive;
    pthread_mutex_lock(&lock);
    while (number < FAKE_QUEUES - 1 && ends[number])
        number++;
    end->pair = (struct ibv_qp){.context = domain->context,
                                .pd = domain,
                                .send_cq = wanted->send_cq,
                                .recv_cq = wanted->recv_cq,
                                .qp_num = number};
    ends[number] = end;
    pthread_mutex_unlock(&lock);
    return &end->pair;
}

int ibv_modify_qp(struct ibv_qp *pair, struct ibv_qp_attr *wanted, int mask)
{
    struct end *end = pair->context ? (struct end *)pair : NULL; /* NULL: the test's own */
    if (wanted->qp_state == IBV_QPS_INIT)
        return 0;
    if (wanted->qp_state != IBV_QPS_ERR) {
        if (end && mask & IBV_QP_DEST_QPN)
            end->peer = wanted->dest_qp_num;
        return fake_verbs.modify_status;
    }
    pthread_mutex_lock(&lock);
    fake_verbs.modified++;
    if (end)
        flush(end);
    pthread_mutex_unlock(&lock);
    return 0;
}

int ibv_destroy_qp(struct ibv_qp *pair)
{
    if (!pair->context) /* the test's own */
        return 0;
    pthread_mutex_lock(&lock);
    ends[pair->qp_num] = NULL;
    pthread_mutex_unlock(&lock);
    return unmake(pair);
}
