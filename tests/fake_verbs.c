/* The stand-in's inside: these take the library's place in the program that they are linked to. */
#include "fake_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr

struct fake_verbs fake_verbs;

static struct ibv_device device[FAKE_DEVICES];

void fake_verbs_reset(void)
{
    fake_verbs = (struct fake_verbs){
        .devices = 1,
        .port[0] = {"fake0", IBV_PORT_ACTIVE, 0, {{"::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2}}},
        .limits = {.phys_port_cnt = 1, .max_cqe = 1 << 20, .max_qp = 1024, .max_qp_wr = 4096},
        .memory = UINT64_MAX};
}

static const struct fake_port *port_of(const struct ibv_context *context)
{
    return &fake_verbs.port[context->device - device];
}

static void *make(size_t bytes)
{
    fake_verbs.open++;
    return calloc(1, bytes);
}

static int unmake(void *thing)
{
    fake_verbs.open--;
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

static int poll_nothing(struct ibv_cq *queue, int most, struct ibv_wc *done)
{
    (void)queue;
    (void)most;
    (void)done;
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int length, void *own,
                             struct ibv_comp_channel *channel, int vector)
{
    struct ibv_cq *queue = make(sizeof *queue);
    (void)own;
    (void)vector;
    *queue = (struct ibv_cq){.context = context, .channel = channel, .cqe = length};
    context->ops.poll_cq = poll_nothing;
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

struct ibv_mr *ibv_reg_mr(struct ibv_pd *domain, void *base, size_t length, int access)
{
    (void)access;
    fake_verbs.unprepared |= !fake_verbs.fork_ready;
    if (length > fake_verbs.memory) {
        errno = ENOMEM;
        return NULL;
    }
    fake_verbs.memory -= length;
    struct ibv_mr *registration = make(sizeof *registration);
    *registration = (struct ibv_mr){.pd = domain, .addr = base, .length = length};
    return registration;
}

int ibv_dereg_mr(struct ibv_mr *registration)
{
    fake_verbs.memory += registration->length;
    return unmake(registration);
}

int ibv_modify_qp(struct ibv_qp *queue, struct ibv_qp_attr *wanted, int mask)
{
    (void)queue;
    if (mask & IBV_QP_STATE && wanted->qp_state == IBV_QPS_ERR) {
        fake_verbs.modified++;
        return 0;
    }
    return fake_verbs.modify_status;
}

int ibv_destroy_qp(struct ibv_qp *queue)
{
    (void)queue;
    return 0;
}
