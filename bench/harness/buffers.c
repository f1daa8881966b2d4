/* The buffers of a bench: the host's memory, or with --device cuda a device's.
 *
 * The host may not touch a device's memory, so it writes and reads mirrors, and a queue of the
 * device copies between mirror and buffer. Of the host's memory the mirror is the buffer itself:
 *
 *     fill     pattern ─▶ mirror ─ push ─▶ buffer
 *     check    buffer  ─ pull ─▶ mirror ─▶ wrong elements
 *
 * Local rank i has the i-th device of GYRE_DEVICES; without that the devices that are there, in
 * turn. The device's own allocation (--memory malloc) is memory that the library was not asked for
 * and has not shown to other ranks. */
#include "harness/buffers.h"
#include "harness/together.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILLING     0x38 /* no subnormal number in any type */
#define LISTED      64   /* ranks of a machine, where no list is given */
#define PEER_TURNS  8
#define PEER_ROUNDS 3

/* -- the device -------------------------------------------------------------------------------- */

static void list_devices(int count)
{
    char list[4 * LISTED] = "";
    for (int i = 0, length = 0; i < LISTED && length < (int)sizeof list; i++) {
        length += snprintf(list + length, sizeof list - (size_t)length, "%s%d", i ? "," : "",
                           i % count % 100);
    }
    setenv("GYRE_DEVICES", list, 0);
}

int bench_device_choose(struct bench *bench)
{
    struct gyre_trouble trouble = {0};
    if (!bench->options.cuda) {
        return 0;
    }
    const struct gyre_device *is = gyre_device_of(GYRE_MEMORY_CUDA);
    int count = is ? is->probe(&trouble) : 0;
    if (count < 1) {
        fprintf(stderr, "--device cuda: %s\n",
                is ? trouble.text
                   : "this build has none: no nvcc was found when it was configured");
        return BENCH_EXIT_UNSUPPORTED;
    }
    list_devices(count);
    bench->device.is = is;
    return 0;
}

/* The entry of this rank; gyre_init has refused a list that is wrong. */
static int own_device(struct bench *bench)
{
    const char *at = getenv("GYRE_DEVICES");
    for (int i = 0; i < gyre_local_rank(bench->comm); i++) {
        at = strchr(at, ',') + 1;
    }
    return atoi(at);
}

static void must(struct bench *bench, int status, const char *what,
                 const struct gyre_trouble *trouble)
{
    if (status < 0) {
        fprintf(stderr, "rank %d: %s: %s\n", bench->rank, what,
                trouble ? trouble->text : gyre_status_name(status));
        exit(status == -ENOMEM ? BENCH_EXIT_WRONG : BENCH_EXIT_LIBRARY);
    }
}

static void open_device(struct bench *bench)
{
    struct bench_device *device = &bench->device;
    struct gyre_trouble trouble = {0};
    struct gyre_device_identity identity;
    device->index = own_device(bench);
    must(bench, device->is->identify(device->index, &identity, &trouble), "device", &trouble);
    must(bench, device->is->queue_create(device->index, &device->queue, &trouble), "queue",
         &trouble);
    memcpy(device->name, identity.name, sizeof device->name);
}

/* -- buffers ----------------------------------------------------------------------------------- */

static void *on_device(struct bench *bench, int which, size_t bytes)
{
    void *memory;
    struct gyre_trouble trouble = {0};
    struct bench_device *device = &bench->device;
    if (!bench->options.plain_memory) {
        bench_must(bench, gyre_alloc_device(bench->comm, bytes, &memory), "gyre_alloc_device");
        return memory;
    }
    must(bench,
         device->is->alloc(device->index, bytes, GYRE_SHARE_OPEN, &device->own[which], &trouble),
         "memory of the device", &trouble);
    return device->own[which].base;
}

static void *on_host(struct bench *bench, size_t bytes)
{
    void *memory;
    if (bench->options.plain_memory) {
        return bench_memory(bench, bytes);
    }
    bench_must(bench, gyre_alloc(bench->comm, bytes, &memory), "gyre_alloc");
    return memory;
}

/* Touched here, so that no page fault is timed. */
static void *get_buffer(struct bench *bench, int which, size_t bytes)
{
    struct bench_device *device = &bench->device;
    void *buffer = device->is ? on_device(bench, which, bytes) : on_host(bench, bytes);
    device->mirror[which] = device->is ? bench_memory(bench, bytes) : buffer;
    memset(device->mirror[which], FILLING, bytes);
    if (bench->options.registered) {
        bench_must(bench, gyre_register(bench->comm, buffer, bytes), "gyre_register");
    }
    return buffer;
}

void bench_buffers_get(struct bench *bench)
{
    size_t bytes = bench->options.max_bytes + BENCH_SPARE_BYTES;
    if (bench->device.is) {
        open_device(bench);
    }
    bench->input = get_buffer(bench, 0, bytes);
    bench->output = get_buffer(bench, 1, bytes);
    bench_push(bench, bench->input, bytes);
    bench_push(bench, bench->output, bytes);
}

void bench_buffers_free(struct bench *bench)
{
    struct bench_device *device = &bench->device;
    if (bench->options.registered) {
        gyre_unregister(bench->comm, bench->input);
        gyre_unregister(bench->comm, bench->output);
    }
    for (int i = 0; i < 2; i++) {
        if (device->is || bench->options.plain_memory) {
            free(device->mirror[i]);
        }
        if (device->is && device->own[i].base) {
            device->is->free(&device->own[i]);
        }
    }
    if (device->queue) {
        device->is->queue_destroy(device->queue);
    }
}

/* -- copies ------------------------------------------------------------------------------------ */

static int collect(struct bench *bench)
{
    uint64_t token;
    int found = bench->device.is->query(bench->device.queue, &token, 1);
    must(bench, found, "work on the device", NULL);
    return found;
}

/* Posts while there is room, and waits. */
static void copy_many(struct bench *bench, void *to, const void *from, size_t bytes, int turns)
{
    struct bench_device *device = &bench->device;
    for (int posted = 0, done = 0; done < turns;) {
        int status = posted == turns
                         ? -EAGAIN
                         : device->is->copy(device->queue, to, from, bytes, ++device->token);
        if (status == -EAGAIN) {
            done += collect(bench);
            continue;
        }
        must(bench, status, "copy on the device", NULL);
        posted++;
        done += status;
    }
}

void *bench_seen(const struct bench *bench, const void *at)
{
    size_t bytes = bench->options.max_bytes + BENCH_SPARE_BYTES;
    uintptr_t place = (uintptr_t)at, input = (uintptr_t)bench->input;
    bool first = place >= input && place - input < bytes;
    uintptr_t base = first ? input : (uintptr_t)bench->output;
    return bench->device.mirror[!first] + (place - base);
}

void bench_push(struct bench *bench, const void *at, size_t bytes)
{
    if (bench->device.is) {
        copy_many(bench, (void *)(uintptr_t)at, bench_seen(bench, at), bytes, 1);
    }
}

void bench_pull(struct bench *bench, const void *at, size_t bytes)
{
    if (bench->device.is) {
        copy_many(bench, bench_seen(bench, at), at, bytes, 1);
    }
}

void bench_device_copies(struct bench *bench, void *to, const void *from, size_t bytes, int turns)
{
    copy_many(bench, to, from, bytes, turns);
}

/* The other device's memory is mapped on this rank's, whose queue then writes it. */
double bench_device_peer_rate(struct bench *bench, int other, size_t bytes)
{
    struct bench_device *device = &bench->device;
    struct gyre_region far, view = {.fd = -1};
    double rate = 0;
    if (!device->is->reaches(device->index, other) ||
        device->is->alloc(other, bytes, GYRE_SHARE_OPEN, &far, NULL)) {
        return 0;
    }
    if (far.fd >= 0 &&
        !device->is->import(device->index, far.fd, bytes, GYRE_SHARE_OPEN, &view, NULL)) {
        copy_many(bench, view.base, bench->output, bytes, 1);
        for (int i = 0; i < PEER_ROUNDS; i++) {
            double start = bench_now_us();
            copy_many(bench, view.base, bench->output, bytes, PEER_TURNS);
            double now = PEER_TURNS * (double)bytes / (bench_now_us() - start);
            rate = now > rate ? now : rate;
        }
        device->is->unimport(&view);
    }
    device->is->free(&far);
    return rate;
}
