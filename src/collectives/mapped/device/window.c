/* A list of windows: each is a shared region, with INPUT at its beginning and OUTPUT behind it.
 *
 *     first ─▶ [ INPUT │ OUTPUT │ free ] ─▶ [ idle ] ─▶ …      a sixteenth of the device at most
 *
 * A window is idle when its operation is over and the stream, if it had one, has passed. An
 * operation on the same stream need not wait for that: the stream itself is there in time, and the
 * copy of INPUT stands behind the word that says so. So operations that a program queues on a
 * stream, one behind the other, use one window. The next window is as long as the longest that any
 * operation has had use for. A window that is part of a graph stays so: nobody tells when the graph
 * is destroyed.
 *
 * Tested by tests/program/cuda/windows.c and graphs.c. */
#include "collectives/mapped/device/window.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"

#include <sched.h>
#include <stdlib.h>

#define LEAST_BYTES (UINT64_C(2) << 20)
#define PER_THREAD  ((void *)2) /* CU_STREAM_PER_THREAD: another stream in each thread */
#define GRAIN       4096u
#define SHARE       16u /* of the device's memory: a window may be one part of so many */
#define PASS_NS     UINT64_C(2000000000) /* that a stream is waited for */

struct gyre_push_window {
    struct gyre_push_window *next;
    struct gyre_fold_queue *fold_queue;
    uint8_t *memory;
    uint64_t bytes;
    uint32_t users;                   /* operations that have not ended */
    bool asked, giving;               /* copies of INPUT and OUTPUT are posted */
    bool on_stream, leaves, captured; /* leaves: the stream says when it has passed */
    void *stream;                     /* the last user's; NULL: none */
    struct gyre_stream_wait way;
    const void *input; /* the program's; NULL: this rank has none */
    void *output;
    uint8_t *there; /* the place of OUTPUT in the window */
    uint64_t in_bytes, out_bytes, ticket;
};

/* -- which operations -------------------------------------------------------------------------- */

static bool may_have_windows(const struct gyre_mesh *mesh)
{
    return mesh->mirrors->fold_queue && !mesh->no_windows;
}

bool gyre_window_suits(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                       const struct gyre_request *request)
{
    const struct gyre_shape *shape = &plan->shape;
    const uint64_t in_bytes = gyre_shape_input_bytes(shape, mesh->n, mesh->rank);
    const uint64_t out_bytes = gyre_shape_output_bytes(shape, mesh->n, mesh->rank);
    if (!may_have_windows(mesh) || plan->form != GYRE_FORM_PUSH || shape->fold ||
        plan->blocks.count)
        return false;
    return in_bytes + out_bytes && (!in_bytes || request->input.kind != GYRE_MEMORY_HOST) &&
           (!out_bytes || request->output.kind != GYRE_MEMORY_HOST);
}

/* -- storage ----------------------------------------------------------------------------------- */

static bool is_idle_window(const struct gyre_push_window *window)
{
    return !window->users && !window->captured && gyre_stream_wait_passed(&window->way);
}

/* Whether an operation on the stream comes behind all that use the window. */
static bool comes_behind(const struct gyre_push_window *window, const void *stream)
{
    return stream && stream != PER_THREAD && window->leaves && window->stream == stream;
}

/* The smallest window that is large enough and that an operation on the stream may use; NULL as the
 * stream: one on none. */
static struct gyre_push_window *find_window(const struct gyre_mesh *mesh, uint64_t bytes,
                                            const void *stream)
{
    struct gyre_push_window *found = NULL;
    for (struct gyre_push_window *it = mesh->windows; it; it = it->next)
        if ((is_idle_window(it) || comes_behind(it, stream)) && it->bytes >= bytes &&
            (!found || it->bytes < found->bytes))
            found = it;
    return found;
}

static uint64_t longest_window(const struct gyre_mesh *mesh)
{
    uint64_t longest = 0;
    for (const struct gyre_push_window *it = mesh->windows; it; it = it->next)
        longest = it->bytes > longest && !it->captured ? it->bytes : longest;
    return longest;
}

/* A window's bytes: a power of two, so that a few of them serve all. */
static uint64_t length_of_window(uint64_t bytes)
{
    uint64_t length = LEAST_BYTES;
    while (length < bytes && length < UINT64_C(1) << 62)
        length *= 2;
    return length;
}

static bool has_memory(const struct gyre_mesh *mesh, uint64_t length)
{
    struct gyre_device_identity identity;
    const struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    uint64_t made = length;
    for (const struct gyre_push_window *it = mesh->windows; it; it = it->next)
        made += it->bytes;
    return !fold_queue->device->identify(fold_queue->index, &identity, NULL) &&
           made <= identity.memory_bytes / SHARE;
}

/* Shares memory that all peers' devices map, so that their kernels reach it. Where that fails once
 * it is not tried again. */
static bool share_window(struct gyre_mesh *mesh, struct gyre_push_window *window)
{
    uint32_t id;
    uint64_t offset;
    void *base;
    struct gyre_trouble trouble = {0};
    int status = gyre_domain_share(mesh->domain, GYRE_MEMORY_CUDA, window->bytes, GYRE_SHARE_OPEN,
                                   &base, &id, &trouble);
    bool good =
        !status && gyre_domain_locate(mesh->domain, GYRE_MEMORY_CUDA, base, window->bytes, &offset);
    if (base && !good)
        gyre_domain_unshare(mesh->domain, base);
    if (!good)
        gyre_log(GYRE_LOG_INFO, "CUDA memory that peers do not map goes by way of the host: %s",
                 status ? trouble.text : "some peer's kernels do not reach this rank's");
    mesh->no_windows = !good;
    window->memory = base;
    return good;
}

/* Makes a window, in a quiet moment: to share memory may wait for a device. */
static struct gyre_push_window *make_window(struct gyre_mesh *mesh, uint64_t length)
{
    if (!gyre_domain_try_copies(mesh->domain) || !has_memory(mesh, length) || !gyre_quiet_begin())
        return NULL;
    struct gyre_push_window *window = calloc(1, sizeof(*window));
    if (window)
        *window = (struct gyre_push_window){
            .next = mesh->windows, .fold_queue = mesh->mirrors->fold_queue, .bytes = length};
    if (window && share_window(mesh, window)) {
        mesh->windows = window;
    } else {
        free(window);
        window = NULL;
    }
    gyre_quiet_end();
    return window;
}

/* Finds a window, or makes one. Also makes one where a longer one had been needed before, when no
 * moment was quiet. */
static struct gyre_push_window *obtain_window(struct gyre_mesh *mesh, uint64_t bytes,
                                              const void *stream)
{
    const uint64_t length = length_of_window(bytes);
    struct gyre_push_window *window = find_window(mesh, bytes, stream), *made = NULL;
    if (length > mesh->window_bytes && has_memory(mesh, length))
        mesh->window_bytes = length;
    if (!window || longest_window(mesh) < mesh->window_bytes)
        made = make_window(mesh, length < mesh->window_bytes ? mesh->window_bytes : length);
    return made ? made : window;
}

static uint64_t place_of_output(const struct gyre_mesh *mesh, const struct gyre_plan *plan)
{
    return gyre_round_up(gyre_shape_input_bytes(&plan->shape, mesh->n, mesh->rank), GRAIN);
}

/* Obtains a window for buffers that have use for one. NULL: there is none now. */
static struct gyre_push_window *window_for(struct gyre_mesh *mesh, struct gyre_plan *plan,
                                           const void *stream)
{
    return gyre_plan_bind_whole(plan, mesh->n, mesh->rank)
               ? obtain_window(mesh,
                               place_of_output(mesh, plan) +
                                   gyre_shape_output_bytes(&plan->shape, mesh->n, mesh->rank),
                               stream)
               : NULL;
}

static void begin_use(struct gyre_push_window *window, void *stream)
{
    if (is_idle_window(window)) {
        window->asked = window->giving = window->on_stream = false;
        window->way = (struct gyre_stream_wait){0};
    }
    window->users++;
    window->leaves = false;
    window->stream = stream;
}

struct gyre_push_window *gyre_window_take(struct gyre_mesh *mesh, struct gyre_plan *plan,
                                          const struct gyre_request *request, void *stream)
{
    struct gyre_push_window *window =
        gyre_window_suits(mesh, plan, request) ? window_for(mesh, plan, stream) : NULL;
    if (!window)
        return NULL;
    begin_use(window, stream);
    window->in_bytes = gyre_shape_input_bytes(&plan->shape, mesh->n, mesh->rank);
    window->out_bytes = gyre_shape_output_bytes(&plan->shape, mesh->n, mesh->rank);
    window->input = window->in_bytes ? request->input.address : NULL;
    window->output = window->out_bytes ? request->output.address : NULL;
    window->there = window->memory + place_of_output(mesh, plan);
    return window;
}

struct gyre_push_window *gyre_window_lend(struct gyre_mesh *mesh, uint64_t bytes)
{
    struct gyre_push_window *window =
        mesh && may_have_windows(mesh) ? obtain_window(mesh, bytes, NULL) : NULL;
    if (window)
        begin_use(window, NULL);
    return window;
}

void *gyre_window_memory(const struct gyre_push_window *window)
{
    return window->memory;
}

bool gyre_window_serves_graph(struct gyre_mesh *mesh, struct gyre_plan *plan)
{
    return window_for(mesh, plan, NULL) != NULL;
}

void gyre_window_use(struct gyre_operation *op, struct gyre_push_window *window)
{
    op->window = window;
    if (!window)
        return;
    op->input = window->memory;
    op->output = window->there;
}

void gyre_window_release(struct gyre_push_window *window)
{
    if (window)
        window->users--;
}

/* -- copies ------------------------------------------------------------------------------------ */

bool gyre_window_run(struct gyre_push_window *window)
{
    if (!window->input || window->asked || window->on_stream ||
        !gyre_fold_queue_room(window->fold_queue))
        return false;
    window->ticket =
        gyre_fold_queue_copy(window->fold_queue, window->memory, window->input, window->in_bytes);
    window->asked = true;
    return true;
}

bool gyre_window_ready(const struct gyre_push_window *window)
{
    return !window || !window->input || window->on_stream ||
           (window->asked && gyre_fold_queue_done(window->fold_queue, window->ticket));
}

bool gyre_window_given(struct gyre_push_window *window)
{
    if (!window->output || window->on_stream)
        return true;
    if (!window->giving && !gyre_fold_queue_room(window->fold_queue))
        return false;
    if (!window->giving)
        window->ticket = gyre_fold_queue_copy(window->fold_queue, window->output, window->there,
                                              window->out_bytes);
    window->giving = true;
    return gyre_fold_queue_done(window->fold_queue, window->ticket);
}

int gyre_window_post_in(struct gyre_push_window *window, void *stream,
                        const struct gyre_stream_wait *way, struct gyre_trouble *trouble)
{
    if (!window)
        return 0;
    const struct gyre_stream_word before = {window->way.passed, window->way.value, false};
    int status = gyre_stream_wait_passed(&window->way)
                     ? 0
                     : gyre_fold_queue_words_on(window->fold_queue, stream, &before, 1, trouble);
    window->on_stream = true;
    window->way = *way;
    return window->input && !status
               ? gyre_fold_queue_copy_on(window->fold_queue, stream, window->memory, window->input,
                                         window->in_bytes, trouble)
               : status;
}

int gyre_window_post_out(struct gyre_push_window *window, void *stream,
                         struct gyre_trouble *trouble)
{
    int status = window && window->output
                     ? gyre_fold_queue_copy_on(window->fold_queue, stream, window->output,
                                               window->there, window->out_bytes, trouble)
                     : 0;
    if (window)
        window->leaves = status == 0;
    return status;
}

/* -- in a graph -------------------------------------------------------------------------------- */

void gyre_window_keep(struct gyre_push_window *window)
{
    if (window)
        window->captured = window->on_stream = true;
}

static int fold_copy_on(const struct gyre_push_window *window, void *stream,
                        const struct gyre_fold_task *task, struct gyre_trouble *trouble)
{
    return gyre_fold_queue_fold_on(window->fold_queue, stream,
                                   gyre_fold_queue_copier(window->fold_queue), task, trouble);
}

int gyre_window_capture_in(const struct gyre_push_window *window, void *stream,
                           struct gyre_trouble *trouble)
{
    if (!window || !window->input)
        return 0;
    void *to = window->memory;
    const struct gyre_fold_task task = {.destination = &to,
                                        .destinations = 1,
                                        .source = &window->input,
                                        .sources = 1,
                                        .count = window->in_bytes};
    return fold_copy_on(window, stream, &task, trouble);
}

/* The copy of OUTPUT, as its table has it. Fills the table; `bytes` 0: nothing is copied. */
static struct gyre_fold_task fill_copy(const struct gyre_push_window *window, void *table,
                                       const void **from, uint64_t bytes)
{
    *from = window->there;
    struct gyre_fold_task task = {.destination = (void *const *)&window->output,
                                  .destinations = 1,
                                  .source = from,
                                  .sources = 1,
                                  .count = bytes,
                                  .table = table,
                                  .fills = true};
    gyre_fold_queue_copier(window->fold_queue)(&task, NULL);
    task.fills = false;
    task.count = window->out_bytes;
    return task;
}

int gyre_window_capture_out(const struct gyre_push_window *window, void *table, void *stream,
                            struct gyre_trouble *trouble)
{
    const void *from;
    if (!window || !window->output)
        return 0;
    const struct gyre_fold_task task = fill_copy(window, table, &from, 0);
    return fold_copy_on(window, stream, &task, trouble);
}

void gyre_window_fill(const struct gyre_push_window *window, void *table)
{
    const void *from;
    if (window && window->output)
        fill_copy(window, table, &from, window->out_bytes);
}

/* -- their end --------------------------------------------------------------------------------- */

/* Every operation has ended, so the stream passes as soon as what stood before it is done. */
static bool await_pass(const struct gyre_push_window *window)
{
    uint64_t limit = gyre_now_ns() + PASS_NS;
    while (!gyre_stream_wait_passed(&window->way) && gyre_now_ns() < limit)
        sched_yield();
    return gyre_stream_wait_passed(&window->way);
}

void gyre_windows_drop(struct gyre_mesh *mesh, bool share_no_more)
{
    while (mesh->windows) {
        struct gyre_push_window *window = mesh->windows;
        mesh->windows = window->next;
        if (window->captured || !await_pass(window))
            gyre_domain_forsake(mesh->domain, window->memory);
        else if (share_no_more)
            gyre_domain_unshare(mesh->domain, window->memory);
        free(window);
    }
}
