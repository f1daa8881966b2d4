/* Notes: what each rank tells all others in a step. Notes cost no message: the last bucket, which
 * is reduced when everything about the step is known, has room for them behind its gradients.
 *
 *     last bucket    ├────── gradients ──────┼─ note 0 ─┼─ note 1 ─┼─ note 2 ─┤
 *     rank 1 gives   its own                      0       its bytes      0
 *     all get        the sum                  rank 0's    rank 1's   rank 2's
 *
 * No field of a note is summed on the way. A sum would round a loss to the precision of gradients,
 * or count to 256 at most. A note's bytes become whole numbers that an element holds exactly: 6
 * bytes in an f64, 3 in an f32, one in a bf16 or f16, all of an integer. A number plus zeros is
 * that number in every type, whichever algorithm adds them, however often it rounds. Each rank then
 * sums all notes by itself, in the order of ranks. So all ranks get the same bits, in every run.
 *
 * A note is 96 bytes, 128 as f32 or f64 and 192 as halves. The notes of 64 ranks are as long as
 * 2,048 gradients. Tested by tests/program/ddp/notes.c. */
#include "base/small_floats.h"
#include "base/types.h"
#include "ddp/inside.h"

#include <string.h>

#define NOTE_BYTES sizeof(struct gyre_ddp_note)

_Static_assert(NOTE_BYTES == 96 && NOTE_BYTES % 6 == 0 && NOTE_BYTES % 8 == 0,
               "no gaps, and whole elements of any type");

/* The number of bytes that one element holds as a whole number; 0: not even one. */
static unsigned bytes_in(enum gyre_type type)
{
    const struct gyre_type_row *row = &gyre_type_rows[type];
    return (row->fraction ? row->fraction + 1u : row->bits) / 8;
}

#define OF_FLOAT(name, element)       (element) number
#define OF_SMALL_FLOAT(name, element) gyre_##name##_of_f32((float)number)
#define OF_SIGNED(name, element)      (element) number
#define OF_UNSIGNED(name, element)    (element) number
#define STORE(ID, name, kind, element, ...)                                                        \
    case GYRE_##ID:                                                                                \
        ((element *)to)[i] = OF_##kind(name, element);                                             \
        break;

static void store_number(void *to, uint64_t i, enum gyre_type type, uint64_t number)
{
    switch (type) {
        GYRE_TYPES(STORE)
    }
}

#define TO_FLOAT(name, number)       (uint64_t)(number)
#define TO_SMALL_FLOAT(name, number) (uint64_t) gyre_f32_of_##name(number)
#define TO_SIGNED(name, number)      (uint64_t)(number)
#define TO_UNSIGNED(name, number)    (uint64_t)(number)
#define LOAD(ID, name, kind, element, ...)                                                         \
    case GYRE_##ID:                                                                                \
        return TO_##kind(name, ((const element *)from)[i]);

static uint64_t load_number(const void *from, uint64_t i, enum gyre_type type)
{
    switch (type) {
        GYRE_TYPES(LOAD)
    }
    return 0;
}

uint64_t gyre_ddp_note_elements(const struct gyre_ddp *ddp, enum gyre_type type)
{
    unsigned width = bytes_in(type);
    return width ? NOTE_BYTES / width * (uint64_t)ddp->n : 0;
}

void gyre_ddp_write_note(const struct gyre_ddp *ddp, void *to, enum gyre_type type)
{
    const uint8_t *bytes = (const uint8_t *)gyre_ddp_own_note(ddp);
    uint64_t all = gyre_ddp_note_elements(ddp, type), each = all / (uint64_t)ddp->n;
    unsigned width = bytes_in(type);
    memset(to, 0, all * gyre_type_size(type));
    for (uint64_t i = 0; i < each; i++) {
        uint64_t number = 0;
        memcpy(&number, bytes + i * width, width);
        store_number(to, each * (uint64_t)ddp->rank + i, type, number);
    }
}

void gyre_ddp_read_notes(struct gyre_ddp *ddp, const void *from, enum gyre_type type)
{
    uint8_t *bytes = (uint8_t *)ddp->note;
    uint64_t all = gyre_ddp_note_elements(ddp, type);
    unsigned width = bytes_in(type);
    for (uint64_t i = 0; i < all; i++) {
        uint64_t number = load_number(from, i, type);
        memcpy(bytes + i * width, &number, width);
    }
}

int gyre_ddp_put_note(struct gyre_ddp *ddp, void *to, enum gyre_type type)
{
    void *host = ddp->place.on ? ddp->place.notes : to;
    gyre_ddp_write_note(ddp, host, type);
    return gyre_ddp_bring_there(ddp, to, host,
                                gyre_ddp_note_elements(ddp, type) * gyre_type_size(type));
}

int gyre_ddp_get_notes(struct gyre_ddp *ddp, const void *from, enum gyre_type type)
{
    const uint64_t bytes = gyre_ddp_note_elements(ddp, type) * gyre_type_size(type);
    int status = ddp->place.on ? gyre_ddp_bring_home(ddp, ddp->place.notes, from, bytes) : 0;
    if (!status)
        gyre_ddp_read_notes(ddp, ddp->place.on ? ddp->place.notes : from, type);
    return status;
}

int gyre_ddp_gather_notes(struct gyre_ddp *ddp)
{
    return gyre_all_gather(ddp->comm, gyre_ddp_own_note(ddp), ddp->note, NOTE_BYTES, GYRE_U8);
}
