/* Signatures as text.
 *
 * Tested by tests/unit/transport/watch/detect/audit_test.c. */
#include "transport/stream/signature.h"

#include "base/types.h"
#include "transport/stream/match.h"

#include <stdbool.h>
#include <stdio.h>

const char *gyre_verb_name(uint32_t verb)
{
#define WORD(ID, word, ...) #word,
    static const char *const names[] = {GYRE_VERB_ROWS(WORD)};
    switch (verb) {
    case GYRE_SIGNATURE_ALL_GATHER_V:
        return "all_gather_v";
    case GYRE_SIGNATURE_ALL_TO_ALL_V:
        return "all_to_all_v";
    case GYRE_SIGNATURE_RECV:
        return "recv";
    case GYRE_SIGNATURE_SEND:
        return "send";
    case GYRE_SIGNATURE_BARRIER:
        return "barrier";
    default:
        return verb < GYRE_SIGNATURE_VERBS ? names[verb] : "?";
    }
}

/* Writes a reduction, behind a type. */
static void tell_reduction(char *out, size_t size, uint32_t op)
{
    if (op >= GYRE_SIGNATURE_SCALED)
        snprintf(out, size, " own scaled sum %u", op - GYRE_SIGNATURE_SCALED);
    else if (op >= GYRE_SIGNATURE_FUNCTION)
        snprintf(out, size, " own function %u", op - GYRE_SIGNATURE_FUNCTION);
    else
        snprintf(out, size, " %s", gyre_op_name(op));
}

static bool is_message(uint64_t signature)
{
    uint32_t verb = signature & 255;
    return verb == GYRE_SIGNATURE_SEND || verb == GYRE_SIGNATURE_RECV;
}

/* Writes a message: "recv f32 from any rank with tag 5, 10 elements". */
static void tell_message(char *out, size_t size, uint64_t signature, uint64_t count)
{
    bool sends = (signature & 255) == GYRE_SIGNATURE_SEND;
    uint32_t tag = signature >> 16 & GYRE_SIGNATURE_TAG_MOST, peer = (uint32_t)(signature >> 32);
    char other[32] = "any rank", with[40] = "";
    if (peer != GYRE_SIGNATURE_ANYONE)
        snprintf(other, sizeof other, "rank %u", peer);
    if (tag)
        snprintf(with, sizeof with, " with tag %u%s", tag,
                 tag == GYRE_SIGNATURE_TAG_MOST ? " or more" : "");
    snprintf(out, size, "%s %s %s %s%s, %s%llu elements", sends ? "send" : "recv",
             gyre_type_name(signature >> 8 & 255), sends ? "to" : "from", other, with,
             peer == GYRE_SIGNATURE_ANYONE ? "at most " : "", (unsigned long long)count);
}

static uint32_t calls_in(uint64_t signature)
{
    return is_message(signature) ? 0 : signature >> 24 & 255;
}

/* Writes an operation. In a group, operations that only move data travel as bytes, whatever the
 * types of their calls. */
void gyre_signature_text(char *out, size_t size, uint64_t signature, uint64_t count)
{
    uint32_t verb = signature & 255, type = signature >> 8 & 255, op = signature >> 16 & 255;
    uint32_t calls = calls_in(signature);
    bool reduces = verb == GYRE_SIGNATURE_ALL_REDUCE || verb == GYRE_SIGNATURE_REDUCE ||
                   verb == GYRE_SIGNATURE_REDUCE_SCATTER;
    bool to_root = verb == GYRE_SIGNATURE_REDUCE || verb == GYRE_SIGNATURE_GATHER;
    bool from_root = verb == GYRE_SIGNATURE_BROADCAST || verb == GYRE_SIGNATURE_SCATTER;
    char root[32] = "", reduction[32] = "", group[32] = "";
    if (reduces)
        tell_reduction(reduction, sizeof reduction, op);
    if (to_root || from_root)
        snprintf(root, sizeof root, " %s rank %u", to_root ? "to" : "from",
                 (unsigned)(signature >> 32));
    if (calls)
        snprintf(group, sizeof group, "group of %s%u ", calls == 255 ? "at least " : "", calls);
    if (is_message(signature))
        tell_message(out, size, signature, count);
    else if (verb == GYRE_SIGNATURE_BARRIER)
        snprintf(out, size, "%sbarrier", group);
    else if (verb == GYRE_SIGNATURE_ALL_TO_ALL_V)
        snprintf(out, size, "%s %s", gyre_verb_name(verb), gyre_type_name(type));
    else if (calls && !reduces)
        snprintf(out, size, "%s%s%s, %llu bytes", group, gyre_verb_name(verb), root,
                 (unsigned long long)count);
    else
        snprintf(out, size, "%s%s %s%s%s, %s%llu elements", group, gyre_verb_name(verb),
                 gyre_type_name(type), reduction, root,
                 verb == GYRE_SIGNATURE_ALL_GATHER_V ? "at most " : "", (unsigned long long)count);
}

const char *gyre_signature_untold(uint64_t signature)
{
    if (calls_in(signature))
        return "the calls of the group";
    return (signature & 255) == GYRE_SIGNATURE_ALL_GATHER_V
               ? "the lengths or places of the blocks"
               : "how it is cut and what algorithm runs it";
}

static void tell_terms(char *out, size_t size, uint32_t rank, bool sends, uint64_t terms)
{
    snprintf(out, size, "rank %u %s %llu elements of %s", rank, sends ? "sends" : "expects",
             (unsigned long long)gyre_match_terms_count(terms),
             gyre_type_name(gyre_match_terms_type(terms)));
}

void gyre_signature_disagreement(char *out, size_t size, uint32_t rank, uint32_t peer,
                                 const struct gyre_match *mine, uint64_t theirs)
{
    bool sends = (rank > peer) == ((mine->comm & GYRE_MATCH_DOWN) != 0);
    char here[96], there[96], with[32] = "";
    if (!(mine->comm & GYRE_MATCH_PAIR) && theirs == mine->fingerprint) {
        snprintf(out, size,
                 "rank %u and rank %u called the same operation %llu of communicator %u, but a "
                 "message of round %u between them has not the length that its receiver expects: "
                 "a defect of the algorithm; GYRE_ALGO names another",
                 rank, peer, (unsigned long long)mine->sequence, mine->comm, mine->order);
        return;
    }
    if (!(mine->comm & GYRE_MATCH_PAIR)) {
        snprintf(out, size,
                 "rank %u and rank %u disagree about operation %llu of communicator %u: "
                 "fingerprint %016llx here, %016llx there",
                 rank, peer, (unsigned long long)mine->sequence, mine->comm,
                 (unsigned long long)mine->fingerprint, (unsigned long long)theirs);
        return;
    }
    tell_terms(here, sizeof here, rank, sends, mine->fingerprint);
    tell_terms(there, sizeof there, peer, !sends, theirs);
    if (mine->comm & GYRE_MATCH_BLOCK) {
        snprintf(out, size, "all_to_all_v as operation %llu of communicator %u: %s, but %s",
                 (unsigned long long)mine->sequence, mine->comm & GYRE_MATCH_ID, here, there);
        return;
    }
    if (gyre_match_tag(mine->sequence))
        snprintf(with, sizeof with, " with tag %u", gyre_match_tag(mine->sequence));
    snprintf(out, size, "message %u%s of communicator %u: %s, but %s",
             gyre_match_number(mine->sequence), with, mine->comm & GYRE_MATCH_ID, here, there);
}
