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
    return verb == 255 ? "barrier" : pick(names, 2, verb);
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

char *gyre_signature_text(uint64_t signature, uint64_t count, uint64_t sequence, char *text, size_t size)
{
    uint32_t verb = signature & 255, type = signature >> 8 & 255, op = signature >> 16 & 255;
    unsigned long long many = count, which = sequence;
    if (verb == 0)
        snprintf(text, size, "all_reduce %s of %llu %s, operation %llu", gyre_op_name(op), many, gyre_type_name(type),
                 which);
    else if (verb == 1)
        snprintf(text, size, "broadcast of %llu %s from rank %u, operation %llu", many, gyre_type_name(type),
                 (uint32_t)(signature >> 24), which);
    else
        snprintf(text, size, "%s, operation %llu", gyre_verb_name(verb), which);
    return text;
}
