/* An operation's signature in 64 bits, so that whoever notices that two ranks disagree can print what each of them asked
 * for. Packed by the communicator, carried by lines and heartbeats, formatted by the watch. */
#ifndef GYRE_TRANSPORT_SIGNATURE_H
#define GYRE_TRANSPORT_SIGNATURE_H

#include <stddef.h>
#include <stdint.h>

/* verb 8 bits, type 8, reduction 8, root 32. `verb` counts as enum gyre_verb of collectives/schedule.h does; 255 is a
 * barrier. */
static inline uint64_t gyre_signature_pack(uint32_t verb, uint32_t type, uint32_t op, uint32_t root)
{
    return (uint64_t)root << 24 | (op & 255) << 16 | (type & 255) << 8 | (verb & 255);
}

const char *gyre_verb_name(uint32_t verb); /* "all_reduce", "broadcast", "barrier", "?" */
const char *gyre_type_name(uint32_t type); /* "f32" */
const char *gyre_op_name(uint32_t op);     /* "sum" */

/* "all_reduce sum of 1000 f32, operation 7" / "broadcast of 10 f64 from rank 2, operation 3". Returns text. */
char *gyre_signature_text(uint64_t signature, uint64_t count, uint64_t sequence, char *text, size_t size);

#endif
