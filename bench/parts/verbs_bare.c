/* Verbs without a library: writes of one size as fast as they go, and one write at a time, there
 * and back, waited for in memory or by its immediate. */
#include "parts/verbs_bare.h"

#include "base/clock.h"
#include "transport/link/verbs/peer.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define SENDS        128
#define RECEIVES     128
#define INLINE_MOST  220 /* as in perftest */
#define FIRST_PACKET 0x123456
#define SEND_ID      1

struct whereabouts {
    uint32_t queue, key;
    uint64_t address;
    uint8_t gid[16];
};

struct bare {
    struct ibv_context *context;
    struct ibv_pd *domain;
    struct ibv_cq *completions;
    struct ibv_qp *queue;
    struct ibv_mr *memory;
    uint8_t *here, *arrived; /* written from; written by the other */
    size_t bytes;
    struct gyre_verbs_port port;
    struct whereabouts other;
    uint32_t sends, done, came;
};

static void must(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(3);
}

/* -- connecting -------------------------------------------------------------------------------- */

static void make_queue(struct bare *bare)
{
    bare->domain = ibv_alloc_pd(bare->context);
    bare->completions = ibv_create_cq(bare->context, SENDS + RECEIVES, NULL, NULL, 0);
    must(bare->domain && bare->completions, "ibv_create_cq");
    bare->memory = ibv_reg_mr(bare->domain, bare->here, 2 * bare->bytes,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    must(bare->memory, "ibv_reg_mr");
    struct ibv_qp_init_attr wanted = {.send_cq = bare->completions,
                                      .recv_cq = bare->completions,
                                      .qp_type = IBV_QPT_RC,
                                      .cap = {.max_send_wr = SENDS,
                                              .max_recv_wr = RECEIVES,
                                              .max_send_sge = 1,
                                              .max_recv_sge = 1,
                                              .max_inline_data = INLINE_MOST}};
    bare->queue = ibv_create_qp(bare->domain, &wanted);
    must(bare->queue, "ibv_create_qp");
}

static void post_receive(struct bare *bare)
{
    struct ibv_recv_wr request = {.wr_id = 0}, *bad;
    must(!ibv_post_recv(bare->queue, &request, &bad), "ibv_post_recv");
}

static void connect_queue(struct bare *bare)
{
    struct ibv_qp_attr wanted = {
        .qp_state = IBV_QPS_INIT,
        .port_num = bare->port.number,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
        .path_mtu = (enum ibv_mtu)bare->port.mtu,
        .dest_qp_num = bare->other.queue,
        .rq_psn = FIRST_PACKET,
        .sq_psn = FIRST_PACKET,
        .min_rnr_timer = 12,
        .timeout = GYRE_VERBS_TIMEOUT_CODE,
        .retry_cnt = GYRE_VERBS_TRIES,
        .rnr_retry = GYRE_VERBS_TRIES,
        .ah_attr = {.is_global = 1,
                    .port_num = bare->port.number,
                    .grh = {.sgid_index = (uint8_t)bare->port.gid_index, .hop_limit = 64}}};
    memcpy(wanted.ah_attr.grh.dgid.raw, bare->other.gid, 16);
    int status = ibv_modify_qp(
        bare->queue, &wanted, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    wanted.qp_state = IBV_QPS_RTR;
    status |= ibv_modify_qp(bare->queue, &wanted,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    for (int i = 0; i < RECEIVES; i++)
        post_receive(bare);
    wanted.qp_state = IBV_QPS_RTS;
    status |= ibv_modify_qp(bare->queue, &wanted,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    must(!status, "ibv_modify_qp");
}

struct bare *bare_open(int socket, size_t bytes)
{
    struct gyre_trouble trouble = {0};
    struct gyre_wire_options anywhere = {0};
    struct bare *bare = calloc(1, sizeof *bare);
    must(bare, "calloc");
    if (gyre_verbs_port_choose(&anywhere, 0, &bare->context, &bare->port, &trouble)) {
        fprintf(stderr, "no RDMA device: %s\n", trouble.text);
        exit(5);
    }
    bare->bytes = bytes;
    bare->here = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(bare->here != MAP_FAILED, "mmap");
    memset(bare->here, 0, 2 * bytes);
    bare->arrived = bare->here + bytes;
    make_queue(bare);
    struct whereabouts mine = {.queue = bare->queue->qp_num,
                               .key = bare->memory->rkey,
                               .address = (uintptr_t)bare->arrived};
    memcpy(mine.gid, bare->port.gid, 16);
    must(send(socket, &mine, sizeof mine, 0) == sizeof mine, "send");
    must(recv(socket, &bare->other, sizeof mine, MSG_WAITALL) == sizeof mine, "recv");
    connect_queue(bare);
    return bare;
}

void bare_close(struct bare *bare)
{
    ibv_destroy_qp(bare->queue);
    ibv_dereg_mr(bare->memory);
    ibv_destroy_cq(bare->completions);
    ibv_dealloc_pd(bare->domain);
    ibv_close_device(bare->context);
    munmap(bare->here, 2 * bare->bytes);
    free(bare);
}

/* -- writing ----------------------------------------------------------------------------------- */

static void write_once(struct bare *bare, uint32_t bytes, bool immediate)
{
    bool tells = ++bare->sends % BARE_TELLS_EVERY == 0;
    struct ibv_sge piece = {
        .addr = (uintptr_t)bare->here, .length = bytes, .lkey = bare->memory->lkey};
    struct ibv_send_wr request = {
        .wr_id = SEND_ID,
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
        .send_flags =
            (tells ? IBV_SEND_SIGNALED : 0u) | (bytes <= INLINE_MOST ? IBV_SEND_INLINE : 0u),
        .wr.rdma = {.remote_addr = bare->other.address, .rkey = bare->other.key}};
    struct ibv_send_wr *bad;
    must(!ibv_post_send(bare->queue, &request, &bad), "ibv_post_send");
}

static void look(struct bare *bare)
{
    struct ibv_wc done[16];
    int count = ibv_poll_cq(bare->completions, 16, done);
    must(count >= 0, "ibv_poll_cq");
    bench_turn(count > 0);
    for (int i = 0; i < count; i++) {
        must(done[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(done[i].status));
        if (done[i].wr_id == SEND_ID) {
            bare->done += BARE_TELLS_EVERY;
        } else {
            post_receive(bare);
            bare->came++;
        }
    }
}

/* Counts are rounded up, so that the last write tells. */
void bare_stream(struct bare *bare, uint32_t bytes, uint32_t depth, uint32_t count)
{
    uint32_t end =
        (bare->sends + count + BARE_TELLS_EVERY - 1) / BARE_TELLS_EVERY * BARE_TELLS_EVERY;
    while (bare->done != end) {
        while (bare->sends != end && bare->sends - bare->done < depth)
            write_once(bare, bytes, false);
        look(bare);
    }
}

static void await(struct bare *bare, bool polled, uint32_t bytes, uint32_t came, uint8_t mark)
{
    const volatile uint8_t *last = bare->arrived + bytes - 1;
    while (polled ? *last != mark : bare->came == came)
        if (polled)
            bench_turn(false);
        else
            look(bare);
    if (polled && bare->sends - bare->done >= SENDS / 2)
        look(bare);
}

void bare_ping_pong(struct bare *bare, bool first, bool polled, uint32_t bytes, uint32_t count,
                    uint64_t *turns)
{
    for (uint32_t i = 0; i < count; i++) {
        uint8_t mark = (uint8_t)(i % 255 + 1);
        uint32_t came = bare->came;
        bare->here[bytes - 1] = mark;
        if (first)
            write_once(bare, bytes, !polled);
        await(bare, polled, bytes, came, mark);
        if (!first)
            write_once(bare, bytes, !polled);
        turns[i] = gyre_now_ns();
    }
    bare->here[bytes - 1] = bare->arrived[bytes - 1] = 0;
}
