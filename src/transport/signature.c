/* Signatures as text. */
#include "transport/signature.h"

#include <stdio.h>

static const char *pick(const char *const *names, uint32_t count, uint32_t index)
{
    return index < count ? names[index] : "?";
}

const char *gyre_verb_name(uint32_t verb)
{
    static const char *const names[] = {"all_reduce", "broadcast"};
    return verb == GYRE_SIGNATURE_BARRIER ? "barrier" : pick(names, 2, verb);
}

const char *gyre_type_name(uint32_t type)
{
    static const char *const names[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8"};
    return pick(names, 7, type);
}

const char *gyre_op_name(uint32_t op)
{
    static const char *const names[] = {"sum", "avg", "min", "max", "prod"};
    return pick(names, 5, op);
}

void gyre_signature_text(char *out, size_t size, uint64_t signature, uint64_t count)
{
    uint32_t verb = signature & 255, type = signature >> 8 & 255, op = signature >> 16 & 255;
    unsigned long long many = count;
    if (verb == GYRE_SIGNATURE_BARRIER)
        snprintf(out, size, "barrier");
    else if (verb == GYRE_SIGNATURE_BROADCAST)
        snprintf(out, size, "broadcast %s from rank %u, %llu elements", gyre_type_name(type),
                 (unsigned)(signature >> 32), many);
    else
        snprintf(out, size, "%s %s %s, %llu elements", gyre_verb_name(verb), gyre_type_name(type),
                 gyre_op_name(op), many);
}
