/* Completions: what the devices say of requests and receives, and which pipe hears it.
 *
 *     device ─ completion ─▶ queue pair, by its name ─┬─ a request is done      its messages end
 *                                                     ├─ a receive is used up   the pipe takes it
 *                                                     └─ a failure              the pipe breaks
 *
 * A completion names its queue pair by pipe index, pipe serial and number, because completions of
 * a detached pipe can come late. A completion of a request ends all requests before it.
 *
 *     failure                                      status of the pipe
 *     no answer, refused or flushed by the peer    GYRE_PEER_LOST; -ENETDOWN while the port is down
 *     a local error of the request                 -EIO: this side's device or a defect
 *
 * After goodbyes from both sides the peer may be gone at once, and no failure of a request counts.
 * Tested by tests/unit/transport/link/verbs/fault_test.c and on_device_test.c. */
#include "transport/link/verbs/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#define AT_ONCE    32
#define TURNS_MOST 8 /* batches, while more comes */

/* -- requests that are done -------------------------------------------------------------------- */

/* Whether a message's share on this queue pair has left. The share on the first queue pair waits
 * for the others, and the message has left with it. */
static bool has_left(struct gyre_verbs_queue *queue, struct gyre_send *send)
{
    struct gyre_verbs_pipe *pipe = queue->pipe;
    struct gyre_stream_write write;
    if (!gyre_verbs_is_first(queue)) {
        queue->shares_left++;
        return true;
    }
    gyre_stream_write_of(send, &write);
    if (!gyre_verbs_remote_write_is_whole(pipe, write.length, true))
        return false;
    gyre_stream_end_write(pipe->end.stream[0], send);
    return true;
}

static void end_requests(struct gyre_verbs_queue *queue)
{
    for (; queue->sends_done != queue->told; queue->sends_done++) {
        struct gyre_send *send = queue->ends[queue->sends_done % GYRE_VERBS_SENDS];
        if (send && !queue->pipe->end.status && !has_left(queue, send))
            return;
    }
}

static void sent(struct gyre_verbs_queue *queue)
{
    queue->told = queue->signalled[queue->signals_done++ % GYRE_VERBS_SENDS];
    end_requests(queue);
    if (!gyre_verbs_is_first(queue))
        end_requests(queue->pipe->queue);
    gyre_verbs_mark(queue->pipe);
}

/* -- failures ---------------------------------------------------------------------------------- */

static bool is_local(enum ibv_wc_status status)
{
    return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_QP_OP_ERR ||
           status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_ACCESS_ERR ||
           status == IBV_WC_FATAL_ERR || status == IBV_WC_GENERAL_ERR;
}

static const char *advice(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "no try was answered; is that rank alive, and does the network between the two lose "
               "everything?";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "it had no receive posted at any try; look at that rank's last lines";
    default:
        return "look at that rank's last lines";
    }
}

void gyre_verbs_fail_request(struct gyre_verbs_queue *queue, const struct ibv_wc *done)
{
    struct gyre_verbs_pipe *pipe = queue->pipe;
    const char *port;
    char text[320];
    if (!queue->proven)
        gyre_verbs_refuse(queue, ibv_wc_status_str(done->status));
    if (!queue->proven || pipe->end.status || pipe->broken)
        return;
    gyre_verbs_pipe_look(pipe);
    if (gyre_end_parted(&pipe->end)) {
        pipe->broken = true;
        return;
    }
    bool down = gyre_verbs_port_state(queue->card, &port) == -ENETDOWN;
    snprintf(text, sizeof text, "%s (%s)", ibv_wc_status_str(done->status), advice(done->status));
    gyre_verbs_break(queue,
                     is_local(done->status) ? -EIO
                     : down                 ? -ENETDOWN
                                            : GYRE_PEER_LOST,
                     text);
}

/* -- all --------------------------------------------------------------------------------------- */

static void came(struct gyre_verbs_queue *queue, const struct ibv_wc *done)
{
    const struct gyre_verbs_pipe *pipe = queue->pipe;
    bool breaking = pipe->fallback.state == GYRE_VERBS_BREAKING;
    if (pipe->end.status || (pipe->broken && !breaking))
        return;
    int status = breaking ? 0 : gyre_verbs_queue_renew(queue);
    if (status)
        gyre_verbs_break(queue, -status, "the device takes no more receives");
    if (pipe->end.status)
        return;
    if (done->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
        gyre_verbs_fail(queue, GYRE_CORRUPT, "the peer asks for what nobody asks for");
    else
        gyre_verbs_pipe_came(queue, ntohl(done->imm_data));
}

static void settle_completion(const struct gyre_verbs_wire *wire, const struct ibv_wc *done)
{
    struct gyre_verbs_queue *queue = gyre_verbs_queue_named(wire, done->wr_id);
    if (!queue || !queue->pair)
        return;
    queue->receives -= !(done->wr_id & GYRE_VERBS_SEND_BIT);
    if (done->status != IBV_WC_SUCCESS)
        gyre_verbs_fail_request(queue, done);
    else if (done->wr_id & GYRE_VERBS_SEND_BIT)
        sent(queue);
    else
        came(queue, done);
}

static bool drain_completions(const struct gyre_verbs_wire *wire, struct ibv_cq *completions)
{
    struct ibv_wc done[AT_ONCE];
    bool any = false;
    int count = AT_ONCE;
    for (int turns = 0; turns < TURNS_MOST && count == AT_ONCE; turns++) {
        count = ibv_poll_cq(completions, AT_ONCE, done);
        for (int i = 0; i < count; i++)
            settle_completion(wire, &done[i]);
        any |= count > 0;
    }
    return any;
}

bool gyre_verbs_drain(struct gyre_verbs_wire *wire)
{
    bool any = false;
    for (uint32_t i = 0; i < wire->cards; i++)
        if (wire->card[i].completions)
            any |= drain_completions(wire, wire->card[i].completions);
    return any;
}
