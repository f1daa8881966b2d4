/* Signatures as text. */
#include "transport/signature.h"

#include <stdbool.h>
#include <stdio.h>

static const char *pick(const char *const *names, uint32_t count, uint32_t index)
{
    return index < count ? names[index] : "?";
}

const char *gyre_verb_name(uint32_t verb)
{
    static const char *const names[] = {"all_reduce",     "broadcast",  "reduce", "all_gather",
                                        "reduce_scatter", "all_to_all", "gather", "scatter"};
    return verb == GYRE_SIGNATURE_BARRIER ? "barrier" : pick(names, 8, verb);
}

const char *gyre_type_name(uint32_t type)
{
    static const char *const names[] = {"f32", "f64", "f16", "bf16", "i32", "i64",    "u8",
                                        "i8",  "u32", "u64", "i16",  "u16", "f8e4m3", "f8e5m2"};
    return pick(names, 14, type);
}

const char *gyre_op_name(uint32_t op)
{
    static const char *const names[] = {"sum", "avg", "min", "max", "prod", "and", "or", "xor"};
    return pick(names, 8, op);
}

void gyre_signature_text(char *out, size_t size, uint64_t signature, uint64_t count)
{
    uint32_t verb = signature & 255, type = signature >> 8 & 255, op = signature >> 16 & 255;
    bool reduces = verb == GYRE_SIGNATURE_ALL_REDUCE || verb == GYRE_SIGNATURE_REDUCE ||
                   verb == GYRE_SIGNATURE_REDUCE_SCATTER;
    bool to_root = verb == GYRE_SIGNATURE_REDUCE || verb == GYRE_SIGNATURE_GATHER;
    bool from_root = verb == GYRE_SIGNATURE_BROADCAST || verb == GYRE_SIGNATURE_SCATTER;
    char root[32] = "";
    if (to_root || from_root)
        snprintf(root, sizeof root, " %s rank %u", to_root ? "to" : "from",
                 (unsigned)(signature >> 32));
    if (verb == GYRE_SIGNATURE_BARRIER)
        snprintf(out, size, "barrier");
    else
        snprintf(out, size, "%s %s%s%s%s, %llu elements", gyre_verb_name(verb),
                 gyre_type_name(type), reduces ? " " : "", reduces ? gyre_op_name(op) : "", root,
                 (unsigned long long)count);
}
