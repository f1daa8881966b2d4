/* Unpacks with zlib, piece after piece. Zlib's counters have 32 bits, so it gets at most 1 GiB to
 * read and 1 GiB to fill at a time. Tested by tests/unit/data/idx_test.c. */
#include "data/idx_gzip.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#define ZLIB_CONST
#include <zlib.h>

#define PIECE_MOST ((uint64_t)1 << 30)
#define GZIP_ONLY  (15 + 16) /* the largest window, and no other wrapping */

struct gyre_gzip {
    z_stream stream;
    const char *name;
    const uint8_t *at, *end; /* not given to zlib yet */
    bool ended;
};

int gyre_gzip_create(struct gyre_gzip **gzip, const char *name, const void *bytes, uint64_t length,
                     struct gyre_trouble *trouble)
{
    const uint8_t *begin = bytes;
    struct gyre_gzip *made = calloc(1, sizeof *made);
    *gzip = made;
    if (made) {
        made->name = name;
        made->at = begin;
        made->end = begin + length;
        if (inflateInit2(&made->stream, GZIP_ONLY) == Z_OK)
            return 0;
    }
    free(made);
    *gzip = NULL;
    return gyre_trouble_set(trouble, -ENOMEM, "%s: out of memory to unpack it", name);
}

void gyre_gzip_destroy(struct gyre_gzip *gzip)
{
    if (gzip)
        inflateEnd(&gzip->stream);
    free(gzip);
}

static int refuse_gzip(const struct gyre_gzip *gzip, struct gyre_trouble *trouble, const char *what)
{
    return gyre_trouble_set(trouble, GYRE_INVALID, "%s: gzip: %s", gzip->name, what);
}

static void give_input(struct gyre_gzip *gzip)
{
    uint64_t left = (uint64_t)(gzip->end - gzip->at);
    if (gzip->stream.avail_in)
        return;
    gzip->stream.next_in = gzip->at;
    gzip->stream.avail_in = (unsigned)(left < PIECE_MOST ? left : PIECE_MOST);
    gzip->at += gzip->stream.avail_in;
}

/* Unpacks until zlib's output is full, or the input ends. */
static int inflate_on(struct gyre_gzip *gzip, struct gyre_trouble *trouble)
{
    z_stream *stream = &gzip->stream;
    int status;
    do {
        give_input(gzip);
        status = inflate(stream, Z_NO_FLUSH);
    } while (status == Z_OK && stream->avail_out);
    gzip->ended = status == Z_STREAM_END;
    if (status == Z_OK || status == Z_STREAM_END)
        return 0;
    if (status == Z_MEM_ERROR)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: out of memory to unpack it", gzip->name);
    if (status == Z_BUF_ERROR)
        return refuse_gzip(gzip, trouble, "it ends too early");
    return refuse_gzip(gzip, trouble, stream->msg ? stream->msg : "damaged");
}

int gyre_gzip_read(struct gyre_gzip *gzip, void *to, uint64_t length, struct gyre_trouble *trouble)
{
    uint8_t *at = to;
    while (length) {
        uint64_t piece = length < PIECE_MOST ? length : PIECE_MOST;
        gzip->stream.next_out = at;
        gzip->stream.avail_out = (unsigned)piece;
        int status = gzip->ended ? 0 : inflate_on(gzip, trouble);
        if (status)
            return status;
        if (gzip->stream.avail_out)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s: what is packed is %" PRIu64 " bytes too short", gzip->name,
                                    length - piece + gzip->stream.avail_out);
        at += piece;
        length -= piece;
    }
    return 0;
}

int gyre_gzip_end(struct gyre_gzip *gzip, struct gyre_trouble *trouble)
{
    uint8_t more;
    gzip->stream.next_out = &more;
    gzip->stream.avail_out = 1;
    int status = gzip->ended ? 0 : inflate_on(gzip, trouble);
    if (status)
        return status;
    if (!gzip->ended || !gzip->stream.avail_out)
        return refuse_gzip(gzip, trouble, "what is packed is longer than its sizes say");
    if (gzip->stream.avail_in || gzip->at != gzip->end)
        return refuse_gzip(gzip, trouble, "something follows the end");
    return 0;
}
