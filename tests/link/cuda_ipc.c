/* The conformance suite over the shm driver where a rank has a CUDA device (links called cuda_ipc)
 * and long messages lie in CUDA memory, over the stand-in. The suite posts host memory as ever; a
 * driver in front of shm gives each long post memory of the device instead, and frees that memory
 * as soon as the post has completed: a copy that is still under way then loses the device, and the
 * run.
 *
 * In haste only the way between devices carries more than 4 GiB; tests/link/shm.c takes the ring
 * that far.
 *
 *      suite ─▶ send(host) ─▶ copy to the device ─▶ shm ─▶ completion ─▶ free
 *      suite ─▶ recv(host) ─▶ memory of the device ─▶ shm ─▶ completion ─▶ copy back, free */
#include "link/rings.h"
#include "link/suite.h"
#include "rig/haste.h"

#include "stand_in/fakecuda/fakecuda.h"
#include "transport/memory/copy_queue.h"
#include "transport/stream/frame.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING    (256 * 1024)
#define POSTS   4096
#define GRANULE UINT64_C(65536)
#define LARGE   (UINT64_C(32) << 20)

static const struct gyre_device *cuda;
static struct gyre_device_queue *queue;
static struct gyre_copy_queue *copy_queue;

static struct way { /* of the run that is under way */
    const char *name;
    bool send, recv; /* such posts lie on the device */
    bool seen;       /* host memory is read in place */
    bool brief;      /* the other ways count each of its copies beyond 4 GiB */
} way;

static void must(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "link_cuda_ipc: %s\n", what);
        abort();
    }
}

/* -- what both ends see ------------------------------------------------------------------------ */

static struct gyre_memory_lookup lookups[2]; /* of the device's memory; of the host's, too */

/* The views are kept to the end: the memory is not theirs to unmap. */
static void look(void)
{
    for (int i = 0; i < 2; i++) {
        struct gyre_views *views = NULL;
        must(!gyre_lookup_init(&lookups[i], 1) && !gyre_views_create(&views), "memory");
        rings_see(&lookups[i], views, GYRE_MEMORY_CUDA);
        if (i)
            rings_see(&lookups[i], views, GYRE_MEMORY_HOST);
        lookups[i].copy_queue = copy_queue;
    }
}

/* -- posts on the device ----------------------------------------------------------------------- */

static struct post {
    struct gyre_wire *wire; /* NULL: free */
    uint64_t token, length;
    void *host;
    CUdeviceptr memory;
    bool send;
} post[POSTS];

/* A pipe is of the wire that it was attached to. */
static struct pipe_of {
    struct gyre_pipe *pipe;
    struct gyre_wire *wire;
} owner[4 * GYRE_LINK_LEAVES];
static int owners;

static struct gyre_wire *wire_of(const struct gyre_pipe *pipe)
{
    for (int i = owners - 1; i >= 0; i--)
        if (owner[i].pipe == pipe)
            return owner[i].wire;
    return NULL;
}

static void carry(void *to, const void *from, uint64_t bytes)
{
    static uint64_t last;
    uint64_t done = 0, token = ++last;
    must(cuda->copy(queue, to, from, bytes, token) == 0, "a copy is posted");
    while (done != token) {
        must(cuda->query(queue, &done, 1) >= 0, "the device is alive");
        sched_yield();
    }
}

static void *address(CUdeviceptr memory)
{
    return (void *)(uintptr_t)memory;
}

/* Memory that costs a second each time is kept for the next. */
static CUdeviceptr kept[2];

static CUdeviceptr take_memory(uint64_t length)
{
    CUdeviceptr memory;
    for (int i = 0; length == LARGE && i < 2; i++)
        if (kept[i]) {
            memory = kept[i];
            kept[i] = 0;
            return memory;
        }
    must(cuMemAlloc(&memory, (length + GRANULE - 1) / GRANULE * GRANULE) == CUDA_SUCCESS,
         "cuMemAlloc");
    return memory;
}

static void give_memory(CUdeviceptr memory, uint64_t length)
{
    for (int i = 0; length == LARGE && i < 2; i++)
        if (!kept[i]) {
            kept[i] = memory;
            return;
        }
    must(cuMemFree(memory) == CUDA_SUCCESS, "cuMemFree: is the device alive?");
}

/* The place of a post that shall lie on the device; NULL: it stays where it is. */
static struct post *move_post(struct gyre_pipe *pipe, void *host, uint64_t length, bool send)
{
    int i = 0;
    if (!(send ? way.send : way.recv) || length <= GYRE_EAGER_MAX)
        return NULL;
    while (i < POSTS && post[i].wire)
        i++;
    must(i < POSTS, "places for posts");
    post[i] = (struct post){.length = length, .host = host, .send = send};
    post[i].memory = take_memory(length);
    if (send)
        carry(address(post[i].memory), host, length);
    must(gyre_driver_shm.state(pipe, NULL) ||
             gyre_driver_shm.carries(pipe, address(post[i].memory), length, send),
         "cuda_ipc carries device memory");
    must(!gyre_driver_shm.carries(pipe, address(post[i].memory), GYRE_EAGER_MAX, send),
         "and nothing short");
    return &post[i];
}

static void drop_post(struct post *it)
{
    give_memory(it->memory, it->length);
    it->wire = NULL;
}

static int keep_post(struct post *it, struct gyre_pipe *pipe, uint64_t token, int status)
{
    it->token = token;
    it->wire = wire_of(pipe);
    if (status)
        drop_post(it);
    return status;
}

static int send_some(struct gyre_pipe *pipe, const struct gyre_match *match, const void *data,
                     uint64_t length, uint64_t token)
{
    struct post *it = move_post(pipe, (void *)(uintptr_t)data, length, true);
    struct gyre_match name = *match;
    name.on_device = it != NULL;
    int status = gyre_driver_shm.send(pipe, &name, it ? address(it->memory) : data, length, token);
    return it ? keep_post(it, pipe, token, status) : status;
}

static int recv_some(struct gyre_pipe *pipe, const struct gyre_match *match, void *data,
                     uint64_t length, uint64_t token)
{
    struct post *it = move_post(pipe, data, length, false);
    struct gyre_match name = *match;
    name.on_device = it != NULL;
    int status = gyre_driver_shm.recv(pipe, &name, it ? address(it->memory) : data, length, token);
    return it ? keep_post(it, pipe, token, status) : status;
}

static void end_post(const struct gyre_completion *done)
{
    int i = 0;
    while (i < POSTS && !(post[i].wire && post[i].token == done->token))
        i++;
    if (i == POSTS)
        return;
    if (!post[i].send && done->status == 0)
        carry(post[i].host, address(post[i].memory), post[i].length);
    drop_post(&post[i]);
}

static int poll_some(struct gyre_wire *wire, uint64_t now, struct gyre_completion *out, int max)
{
    int count = gyre_driver_shm.poll(wire, now, out, max);
    for (int i = 0; i < count; i++)
        end_post(&out[i]);
    return count;
}

static int attach_some(struct gyre_wire *wire, const struct gyre_channel *channel,
                       struct gyre_pipe **pipe, struct gyre_trouble *trouble)
{
    int status = gyre_driver_shm.attach(wire, channel, pipe, trouble);
    must(owners < 4 * GYRE_LINK_LEAVES, "places for pipes");
    if (!status)
        owner[owners++] = (struct pipe_of){*pipe, wire};
    return status;
}

/* Posts that nobody took back are forgotten. */
static void close_some(struct gyre_wire *wire)
{
    gyre_driver_shm.close(wire);
    for (int i = 0; wire && i < POSTS; i++)
        if (post[i].wire == wire)
            drop_post(&post[i]);
}

/* -- nets -------------------------------------------------------------------------------------- */

static struct gyre_driver driver;

static int connect_net(const struct gyre_link_wish *wish, struct gyre_link_net *net,
                       struct gyre_trouble *trouble)
{
    owners = 0;
    return rings_connect(&driver, &lookups[way.seen], RING, wish, net, trouble);
}

static struct gyre_link_bench bench = {.driver = &driver,
                                       .splits = true,
                                       .deaf = true,
                                       .connect = connect_net,
                                       .disconnect = rings_disconnect};

static void expect_name(struct gyre_memory_lookup *seen, const char *name)
{
    struct gyre_wire_options options = {.n = 2, .peers = 1, .lookup = seen};
    struct gyre_wire *wire;
    char text[32];
    must(!gyre_driver_shm.open(&options, &wire, NULL), "a wire");
    gyre_driver_shm.describe(wire, text, sizeof text);
    must(!strcmp(text, name), name);
    gyre_driver_shm.close(wire);
}

/* Without a device it is shm; with one its name says which handles it goes by. */
static void tell_what_it_is(void)
{
    expect_name(NULL, "shm/ring");
    expect_name(&(struct gyre_memory_lookup){0}, "shm/ring");
    fakecuda_export(0);
    expect_name(&lookups[0], "cuda_ipc/classic");
    fakecuda_export(1);
    expect_name(&lookups[0], "cuda_ipc/exported");
}

int main(void)
{
    static const struct way ways[] = {
        {"cuda_ipc between devices", true, true, true, false},
        {"cuda_ipc out of a device", true, false, true, true},
        {"cuda_ipc into a device by pieces", false, true, false, false}};
    int bad = 0;
    CUcontext context;
    setenv("FAKECUDA_DELAY", "30", 0);
    driver = gyre_driver_shm;
    driver.send = send_some;
    driver.recv = recv_some;
    driver.poll = poll_some;
    driver.attach = attach_some;
    driver.close = close_some;
    cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    must(cuda->probe(NULL) > 0 && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
             cuCtxPushCurrent(context) == CUDA_SUCCESS,
         "a device");
    must(cuda->queue_create(0, &queue, NULL) == 0, "a queue");
    copy_queue = gyre_copy_queue_create(cuda, 0);
    look();
    tell_what_it_is();
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        way = ways[i];
        bench.brief = way.brief || (in_haste() && i > 0);
        bad += gyre_link_suite(way.name, &bench);
    }
    for (int i = 0; i < 2; i++)
        must(!kept[i] || cuMemFree(kept[i]) == CUDA_SUCCESS, "cuMemFree");
    gyre_copy_queue_destroy(copy_queue);
    cuda->queue_destroy(queue);
    must(fakecuda_alive().ranges == 0 && fakecuda_alive().streams == fakecuda_alive().contexts,
         "nothing is left behind but a stream of each context");
    return bad != 0;
}
