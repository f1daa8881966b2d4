/* A CUDA device as a processor: memory, and what travels between it and the host. The kernels bring
 * the rest of the table.
 *
 * Memory is cut from large regions, one piece behind the other, and goes back when the processor is
 * closed. All work is on one queue. Bytes from and to the host pass through a few pieces of
 * page-locked memory, so that put() need not wait for the work before it:
 *
 *     put    caller's bytes ──copied now──▶ piece 0, 1, 2 … ──copied by the queue──▶ device
 *     get    device ──copied by the queue──▶ a piece ──when it has come──▶ caller's bytes
 *
 * Tested by tests/kernel/processor.c. */
#include "model/processor/inside.h"

#include "base/size.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNED         256u                /* bytes: what kernels read begins there */
#define REGION_BYTES    (UINT64_C(8) << 20) /* at least */
#define SMALL_BYTES     (UINT64_C(2) << 20) /* the same, beside another processor: what CUDA maps */
#define PIECES          4                   /* at most */
#define PIECE_BYTES     (UINT64_C(256) << 10)
#define PAGE            4096u
#define WORKSPACE_BYTES (UINT64_C(32) << 20) /* of fused products */
#define SPREAD_BYTES    (UINT64_C(64) << 20) /* of samples that a convolution lays out together */

struct region_list {
    struct gyre_region region;
    uint64_t used;
    struct region_list *next;
};

struct cuda {
    struct gyre_cuda_processor common;
    struct region_list *regions;
    uint64_t region_bytes;
    uint8_t *pieces; /* of the host, and a page of slots behind them */
    int piece_count;
    uint64_t piece_bytes;
    bool pinned;
    uint64_t busy[PIECES];          /* the token that a piece waits for */
    uint64_t sent[GYRE_SENT_SLOTS]; /* the same of slots, which lie behind the pieces */
    uint64_t taken, posted, reported;
};

static struct cuda *cuda_of(struct gyre_processor *on)
{
    return (struct cuda *)on;
}

static const char *cuda_products(const struct gyre_processor *on)
{
    const struct gyre_cuda_processor *cuda = (const struct gyre_cuda_processor *)on;
    return cuda->keeps_nan ? "cuBLAS, fused" : cuda->blas ? "cuBLAS" : "own cuda";
}

/* -- memory ------------------------------------------------------------------------------------ */

static struct region_list *add_region(struct cuda *cuda, uint64_t bytes)
{
    struct region_list *more = calloc(1, sizeof *more);
    uint64_t length = bytes > cuda->region_bytes ? bytes : cuda->region_bytes;
    struct gyre_trouble *refused = &cuda->common.base.refused;
    *refused = (struct gyre_trouble){0};
    if (more && cuda->common.device->alloc(cuda->common.index, length, GYRE_SHARE_OPEN,
                                           &more->region, refused)) {
        free(more);
        more = NULL;
    }
    if (more) {
        more->next = cuda->regions;
        cuda->regions = more;
    }
    return more;
}

static void *cuda_alloc(struct gyre_processor *on, size_t bytes)
{
    struct region_list *region = cuda_of(on)->regions;
    uint64_t whole = gyre_round_up(bytes ? bytes : 1, ALIGNED);
    if (!region || region->region.length - region->used < whole)
        region = add_region(cuda_of(on), whole);
    if (!region)
        return NULL;
    region->used += whole;
    return (uint8_t *)region->region.base + region->used - whole;
}

static void cuda_free(struct gyre_processor *on, void *memory)
{
}

static void *cuda_alloc_told(struct gyre_processor *on, size_t bytes)
{
    struct gyre_cuda_processor *common = &cuda_of(on)->common;
    if (!common->told.there && !gyre_cuda_begin_told(common, cuda_alloc(on, GYRE_CUDA_TOLD_BYTES)))
        return NULL;
    return gyre_cuda_cut_told(common, bytes);
}

/* -- to and fro -------------------------------------------------------------------------------- */

static int tell_failure(const struct cuda *cuda, int status, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, status,
                            "CUDA device %d has failed while it computed: the log says how",
                            cuda->common.index);
}

/* Waits until the queue has reported the token. */
static int wait_for(struct cuda *cuda, uint64_t token, struct gyre_trouble *trouble)
{
    uint64_t found[16];
    while (cuda->reported < token) {
        int count = cuda->common.device->query(cuda->common.queue, found, 16);
        if (count < 0)
            return tell_failure(cuda, count, trouble);
        if (count)
            cuda->reported = found[count - 1];
        else
            sched_yield();
    }
    return cuda->common.status ? tell_failure(cuda, cuda->common.status, trouble) : 0;
}

/* The next piece, once it is free. */
static int take_piece(struct cuda *cuda, int *piece, struct gyre_trouble *trouble)
{
    *piece = (int)(cuda->taken++ % (uint64_t)cuda->piece_count);
    return wait_for(cuda, cuda->busy[*piece], trouble);
}

/* Posts a copy. */
static int post_move(struct cuda *cuda, void *to, const void *from, uint64_t bytes,
                     struct gyre_trouble *trouble)
{
    uint64_t token = cuda->posted + 1;
    int status = cuda->common.device->copy(cuda->common.queue, to, from, bytes, token);
    if (status)
        return tell_failure(cuda, status < 0 ? status : -EIO, trouble);
    cuda->posted = token;
    return 0;
}

/* Posts one, which keeps the piece busy. */
static int post_piece(struct cuda *cuda, int piece, void *to, const void *from, uint64_t bytes,
                      struct gyre_trouble *trouble)
{
    int status = post_move(cuda, to, from, bytes, trouble);
    cuda->busy[piece] = status ? cuda->busy[piece] : cuda->posted;
    return status;
}

static uint8_t *piece_at(const struct cuda *cuda, int piece)
{
    return cuda->pieces + (uint64_t)piece * cuda->piece_bytes;
}

static int cuda_put(struct gyre_processor *on, void *to, const void *host, size_t bytes,
                    struct gyre_trouble *trouble)
{
    const uint64_t most = cuda_of(on)->piece_bytes;
    int status = 0, piece;
    if (gyre_cuda_tell(on, to, host, bytes))
        return 0;
    for (size_t at = 0; !status && at < bytes; at += most) {
        const size_t part = bytes - at < most ? bytes - at : most;
        status = take_piece(cuda_of(on), &piece, trouble);
        if (status)
            break;
        memcpy(piece_at(cuda_of(on), piece), (const uint8_t *)host + at, part);
        status = post_piece(cuda_of(on), piece, (uint8_t *)to + at, piece_at(cuda_of(on), piece),
                            part, trouble);
    }
    return status;
}

static int cuda_get(struct gyre_processor *on, void *host, const void *from, size_t bytes,
                    struct gyre_trouble *trouble)
{
    struct cuda *cuda = cuda_of(on);
    int status = 0, piece;
    for (size_t at = 0; !status && at < bytes; at += cuda->piece_bytes) {
        const size_t part = bytes - at < cuda->piece_bytes ? bytes - at : cuda->piece_bytes;
        status = take_piece(cuda, &piece, trouble);
        if (!status)
            status = post_piece(cuda, piece, piece_at(cuda, piece), (const uint8_t *)from + at,
                                part, trouble);
        if (!status)
            status = wait_for(cuda, cuda->posted, trouble);
        if (!status)
            memcpy((uint8_t *)host + at, piece_at(cuda, piece), part);
    }
    return status;
}

static int cuda_wait(struct gyre_processor *on, struct gyre_trouble *trouble)
{
    struct cuda *cuda = cuda_of(on);
    int status = cuda->common.device->mark(cuda->common.queue, cuda->posted + 1);
    if (status)
        return tell_failure(cuda, status, trouble);
    return wait_for(cuda, ++cuda->posted, trouble);
}

/* A slot in use again waits for what was sent there before. */
static int cuda_send(struct gyre_processor *on, int slot, const void *from, size_t bytes,
                     struct gyre_trouble *trouble)
{
    struct cuda *cuda = cuda_of(on);
    uint8_t *to = piece_at(cuda, cuda->piece_count) + slot * GYRE_SENT_BYTES;
    int status = wait_for(cuda, cuda->sent[slot], trouble);
    if (!status)
        status = post_move(cuda, to, from, bytes, trouble);
    if (!status)
        cuda->sent[slot] = cuda->posted;
    return status;
}

static int cuda_receive(struct gyre_processor *on, int slot, void *host, size_t bytes,
                        struct gyre_trouble *trouble)
{
    struct cuda *cuda = cuda_of(on);
    int status = wait_for(cuda, cuda->sent[slot], trouble);
    if (!status)
        memcpy(host, piece_at(cuda, cuda->piece_count) + slot * GYRE_SENT_BYTES, bytes);
    return status;
}

/* What was told meanwhile, then the graph. */
static int cuda_repeat(struct gyre_processor *on, struct gyre_trouble *trouble)
{
    struct gyre_cuda_processor *common = &cuda_of(on)->common;
    const struct gyre_cuda_told *told = &common->told;
    const struct gyre_processor_graph *graph;
    int status = gyre_cuda_end_replaced(common, &graph, trouble);
    if (!status && told->high)
        status = cuda_put(on, told->there + told->low, told->here + told->low,
                          told->high - told->low, trouble);
    return status ? status : gyre_cuda_post_step(common, graph, trouble);
}

static uint64_t cuda_memory_bytes(const struct gyre_processor *on)
{
    return ((const struct gyre_cuda_processor *)on)->memory_bytes;
}

static void *cuda_stream(struct gyre_processor *on)
{
    const struct gyre_cuda_processor *common = &cuda_of(on)->common;
    return common->device->native(common->queue);
}

static int cuda_after(struct gyre_processor *on, void *stream, struct gyre_trouble *trouble)
{
    const struct gyre_cuda_processor *common = &cuda_of(on)->common;
    return common->device->after(common->queue, stream, trouble);
}

/* -- opening and closing ----------------------------------------------------------------------- */

static void cuda_close(struct gyre_processor *on)
{
    struct cuda *cuda = cuda_of(on);
    gyre_cuda_close_products(&cuda->common);
    if (cuda->common.queue)
        cuda->common.device->queue_destroy(cuda->common.queue);
    if (cuda->pinned)
        cuda->common.device->unpin(cuda->common.index, cuda->pieces);
    for (struct region_list *next; cuda->regions; cuda->regions = next) {
        next = cuda->regions->next;
        cuda->common.device->free(&cuda->regions->region);
        free(cuda->regions);
    }
    gyre_cuda_end_told(&cuda->common);
    free(cuda->pieces);
    free(cuda);
}

static const struct gyre_processor_table memory_entries = {
    .memory = GYRE_MEMORY_CUDA,
    .spread_bytes = SPREAD_BYTES,
    .close = cuda_close,
    .products = cuda_products,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .put = cuda_put,
    .get = cuda_get,
    .wait = cuda_wait,
    .send = cuda_send,
    .receive = cuda_receive,
    .memory_bytes = cuda_memory_bytes,
    .stream = cuda_stream,
    .after = cuda_after,
    .alloc_told = cuda_alloc_told,
    .record = gyre_cuda_record_step,
    .keep = gyre_cuda_keep_step,
    .graph_launches = gyre_cuda_graph_launches,
    .prepare_graph = gyre_cuda_prepare_step,
    .replace = gyre_cuda_replace_step,
    .repeat = cuda_repeat,
    .graph_free = gyre_cuda_free_step,
};

static void load_kernels(void)
{
    gyre_cuda_load_elements();
    gyre_cuda_load_images();
    gyre_cuda_load_dense();
    gyre_cuda_load_gradients();
    gyre_cuda_load_steps();
}

/* A product whose first row is NaN, through cuBLASLt's ReLU: Gyre's lets it through, so that it is
 * found. */
static bool relu_keeps_nan(struct gyre_processor *on)
{
    enum { SIDE = 16, EACH = SIDE * SIDE };
    const float not_a_number = NAN;
    float *at = cuda_alloc(on, 4 * EACH * sizeof *at), back = 0;
    if (!at || cuda_put(on, at, &not_a_number, sizeof not_a_number, NULL))
        return false;
    const struct gyre_product product = {.form = GYRE_DENSE_NT,
                                         .m = SIDE,
                                         .n = SIDE,
                                         .k = SIDE,
                                         .alpha = 1,
                                         .a = at,
                                         .b = at + EACH,
                                         .c = at + 2 * EACH,
                                         .lda = SIDE,
                                         .ldb = SIDE,
                                         .ldc = SIDE};
    const struct gyre_epilogue then = {.kind = GYRE_THEN_BIAS_RELU,
                                       .bias = product.b,
                                       .mask = (uint32_t *)(void *)(at + 3 * EACH)};
    return on->table->multiply_then(on, &product, GYRE_PRECISION_F32, &then) &&
           !cuda_get(on, &back, product.c, sizeof back, NULL) && isnan(back);
}

/* Without the memory products go the way without it. */
static void open_fused(struct gyre_cuda_processor *common)
{
    void *workspace = common->blas && gyre_cuda_blas_symbol("cublasLtMatmul")
                          ? cuda_alloc(&common->base, WORKSPACE_BYTES)
                          : NULL;
    if (!workspace)
        return;
    common->workspace = workspace;
    common->workspace_bytes = WORKSPACE_BYTES;
    common->blas_stream = NULL;
    common->fused = gyre_cuda_fused_open(common->blas, workspace, WORKSPACE_BYTES);
    common->keeps_nan = common->fused != NULL; /* until it is tried */
    common->keeps_nan = common->fused && relu_keeps_nan(&common->base);
}

/* Copies to and from memory that could not be locked are slower, and right. */
static int prepare_device(struct cuda *cuda, bool hires, struct gyre_trouble *trouble)
{
    const struct gyre_device *device = cuda->common.device;
    struct gyre_device_identity identity;
    int status = device->identify(cuda->common.index, &identity, trouble);
    if (!status)
        status = device->prepare(cuda->common.index, load_kernels, trouble);
    if (!status)
        status = device->queue_create(cuda->common.index, &cuda->common.queue, trouble);
    if (status)
        return status;
    cuda->common.multiprocessors = identity.multiprocessors;
    cuda->common.memory_bytes = identity.memory_bytes;
    const uint64_t locked = (uint64_t)cuda->piece_count * cuda->piece_bytes + PAGE;
    cuda->pieces = aligned_alloc(PAGE, locked);
    if (!cuda->pieces)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to copy to CUDA device %d by",
                                cuda->common.index);
    cuda->pinned = !device->pin(cuda->common.index, cuda->pieces, locked, NULL);
    status = hires ? gyre_cuda_open_products(&cuda->common, trouble) : 0;
    if (!status)
        open_fused(&cuda->common);
    return status;
}

static int check_device(const struct gyre_device *device, int index, bool kernels,
                        struct gyre_trouble *trouble)
{
    if (!device || !kernels)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "nothing computes on CUDA device %d: this build has no CUDA: "
                                "build it where nvcc is",
                                index);
    int count = device->probe(trouble);
    if (count && (index < 0 || index >= count))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "there is no CUDA device %d to compute on: there are %d", index,
                                count);
    return count ? 0 : trouble && trouble->status ? trouble->status : GYRE_UNSUPPORTED;
}

int gyre_cuda_open(struct gyre_processor **processor, const struct gyre_cuda_wishes *wishes,
                   struct gyre_trouble *trouble)
{
    struct cuda *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a CUDA device's arithmetic");
    struct gyre_cuda_processor *common = &cuda->common;
    cuda->region_bytes = wishes->hires ? REGION_BYTES : SMALL_BYTES;
    cuda->piece_count = wishes->piece_bytes ? 2 : PIECES;
    cuda->piece_bytes =
        gyre_round_up(wishes->piece_bytes ? wishes->piece_bytes : PIECE_BYTES, PAGE);
    common->table = memory_entries;
    common->base.table = &common->table;
    common->index = wishes->index;
    common->device = gyre_device_of(GYRE_MEMORY_CUDA);
    bool kernels = gyre_cuda_fill_elements(&common->table) &&
                   gyre_cuda_fill_images(&common->table) && gyre_cuda_fill_dense(&common->table) &&
                   gyre_cuda_fill_gradients(&common->table) && gyre_cuda_fill_steps(&common->table);
    int status = check_device(common->device, common->index, kernels, trouble);
    if (!status)
        status = prepare_device(cuda, wishes->hires, trouble);
    if (status)
        cuda_close(&common->base);
    else
        *processor = &common->base;
    return status;
}
