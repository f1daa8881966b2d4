/* A ring of bytes by their positions in the stream: byte p lies at (p - origin) modulo the size.
 *
 *      ring   │ kept │ free │ kept │        an empty ring begins anew at its first page
 *                    to     from
 *
 *      grown  │ free │ free │ kept │ kept │ free │ free │
 *
 * Small traffic is acknowledged soon, so its ring is often empty and stays in its first pages. Bulk
 * goes round and round, so the ring begins small, within the cache, and doubles where more is under
 * way.
 *
 * Tested by tests/unit/transport/link/tcp/kept_test.c. */
#include "transport/link/tcp/kept.h"

#include "base/copy.h"

#include <errno.h>
#include <sys/mman.h>

int gyre_kept_init(struct gyre_kept *kept, size_t first, int doublings)
{
    const size_t most = first << doublings;
    void *ring = mmap(NULL, most, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ring == MAP_FAILED)
        return -ENOMEM;
    *kept = (struct gyre_kept){.ring = ring, .size = first, .most = most};
    return 0;
}

void gyre_kept_deinit(struct gyre_kept *kept)
{
    if (kept->ring)
        munmap(kept->ring, kept->most);
    kept->ring = NULL;
}

/* The place of a byte, and how many bytes from there to the ring's end. */
static uint8_t *place_of(const struct gyre_kept *kept, uint64_t at, size_t *room)
{
    size_t offset = (size_t)((at - kept->origin) % kept->size);
    *room = kept->size - offset;
    return kept->ring + offset;
}

static void append(struct gyre_kept *kept, const uint8_t *bytes, size_t length)
{
    while (length) {
        size_t room;
        uint8_t *place = place_of(kept, kept->to, &room);
        size_t part = length < room ? length : room;
        gyre_copy(place, bytes, part);
        kept->to += part;
        bytes += part;
        length -= part;
    }
}

void gyre_kept_forget(struct gyre_kept *kept, uint64_t acknowledged)
{
    if (acknowledged > kept->to)
        acknowledged = kept->to;
    if (acknowledged > kept->from)
        kept->from = acknowledged;
    if (kept->from == kept->to)
        kept->origin = kept->to;
}

/* Leaves out bytes that need not be kept, or cannot. */
static void skip_to(struct gyre_kept *kept, uint64_t position)
{
    if (position > kept->to)
        kept->from = kept->to = kept->origin = position;
}

/* Makes the ring large enough for `bytes`. What had gone around its end is moved behind it. */
static void enlarge(struct gyre_kept *kept, size_t bytes)
{
    while (kept->size < bytes && kept->size < kept->most) {
        size_t room, held = (size_t)(kept->to - kept->from);
        const uint8_t *oldest = place_of(kept, kept->from, &room);
        if (held > room)
            gyre_copy(kept->ring + kept->size, kept->ring, held - room);
        kept->origin = kept->from - (uint64_t)(oldest - kept->ring);
        kept->size *= 2;
    }
}

void gyre_kept_add(struct gyre_kept *kept, const struct iovec *iov, int count, size_t bytes,
                   uint64_t acknowledged)
{
    const uint64_t begin = kept->to, end = begin + bytes;
    const uint64_t oldest = end > kept->most ? end - kept->most : 0;
    const uint64_t first = acknowledged > oldest ? acknowledged : oldest;
    gyre_kept_forget(kept, first);
    skip_to(kept, first < end ? first : end);
    enlarge(kept, (size_t)(end - kept->from));
    uint64_t at = begin;
    for (int i = 0; i < count && at < end; i++) {
        size_t length = iov[i].iov_len < end - at ? iov[i].iov_len : (size_t)(end - at);
        size_t skipped = kept->to > at ? (size_t)(kept->to - at) : 0;
        if (skipped < length)
            append(kept, (const uint8_t *)iov[i].iov_base + skipped, length - skipped);
        at += length;
    }
}

bool gyre_kept_reaches(const struct gyre_kept *kept, uint64_t at)
{
    return at >= kept->from && at <= kept->to;
}

int gyre_kept_gather(const struct gyre_kept *kept, uint64_t at, struct iovec *iov, int max)
{
    int count = 0;
    while (at < kept->to && count < max) {
        size_t room;
        uint8_t *place = place_of(kept, at, &room);
        size_t part = kept->to - at < room ? (size_t)(kept->to - at) : room;
        iov[count++] = (struct iovec){place, part};
        at += part;
    }
    return count;
}
