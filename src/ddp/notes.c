/* Notes: what a rank tells all others in a step. They cost no message: the last bucket, which is
 * reduced when everything about the step is known, has room for them behind its gradients.
 *
 *     last bucket    ├────── gradients ──────┼─ note 0 ─┼─ note 1 ─┼─ note 2 ─┤
 *     rank 1 gives   its own                      0       its bytes      0
 *     all get        the sum                  rank 0's    rank 1's   rank 2's
 *
 * Nothing of a note is added up on the way: that would round a loss to what gradients are made of,
 * or count to 256 at most. Its bytes become whole numbers that an element holds exactly, 6 of them
 * in an f64, 3 in an f32, one in a bf16 or f16; and a number plus zeros is that number in every
 * type, whichever algorithm adds them, however often it rounds. Each rank then adds up all notes by
 * itself, in the order of ranks, so all come to the same bits, in one process and the next.
 *
 * A note is 96 bytes, 128 as f32 or f64 and 192 as halves: those of 64 ranks are as much as 2,048
 * gradients. Tested by tests/program/ddp/notes.c. */
#include "base/half.h"
#include "ddp/inside.h"

#include <string.h>

#define NOTE_BYTES sizeof(struct gyre_ddp_note)

_Static_assert(NOTE_BYTES == 96 && NOTE_BYTES % 6 == 0, "no gaps, and whole elements of any type");

/* Bytes that one element holds as a whole number; 0: less than one. */
static unsigned bytes_in(enum gyre_type type)
{
    switch (type) {
    case GYRE_F64:
    case GYRE_I64:
    case GYRE_U64:
        return 6;
    case GYRE_F32:
    case GYRE_I32:
    case GYRE_U32:
        return 3;
    case GYRE_I8:
    case GYRE_F8E4M3:
    case GYRE_F8E5M2:
        return 0;
    default:
        return 1;
    }
}

static void store_number(void *to, uint64_t i, enum gyre_type type, uint64_t number)
{
    size_t size = gyre_type_size(type);
    if (type == GYRE_F32)
        ((float *)to)[i] = (float)number;
    else if (type == GYRE_F64)
        ((double *)to)[i] = (double)number;
    else if (type == GYRE_BF16)
        ((uint16_t *)to)[i] = gyre_bf16_of_f32((float)number);
    else if (type == GYRE_F16)
        ((uint16_t *)to)[i] = gyre_f16_of_f32((float)number);
    else
        memcpy((uint8_t *)to + i * size, &number, size);
}

static uint64_t load_number(const void *from, uint64_t i, enum gyre_type type)
{
    uint64_t number = 0;
    size_t size = gyre_type_size(type);
    if (type == GYRE_F32)
        return (uint64_t)((const float *)from)[i];
    if (type == GYRE_F64)
        return (uint64_t)((const double *)from)[i];
    if (type == GYRE_BF16)
        return (uint64_t)gyre_f32_of_bf16(((const uint16_t *)from)[i]);
    if (type == GYRE_F16)
        return (uint64_t)gyre_f32_of_f16(((const uint16_t *)from)[i]);
    memcpy(&number, (const uint8_t *)from + i * size, size);
    return number;
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

int gyre_ddp_gather_notes(struct gyre_ddp *ddp)
{
    return gyre_all_gather(ddp->comm, gyre_ddp_own_note(ddp), ddp->note, NOTE_BYTES, GYRE_U8);
}
