/* A guest at rank 0: a process that has proven the key and asks to be a rank of this job.
 *
 * Two kinds of guests are refused. A guest that cannot belong to this job (a rank that is here
 * already, a former epoch) changes nothing for the others, and rank 0 logs the refusal. A guest
 * whose start contradicts rank 0's (size, version, settings) means that the job can never be
 * complete: the join fails at once, on every rank, with one sentence that names both sides' hosts
 * and the values that differ.
 *
 * Tested by tests/program/job/join_refused.c. */
#include "transport/join/inside.h"

#include "base/log.h"

#include <stdio.h>

static void why_refused(const struct gyre_joining *join, const struct gyre_guest *guest,
                        uint32_t code, char *out, size_t size)
{
    const struct gyre_claim *theirs = &guest->claim;
    const struct gyre_job *job = join->job;
    char who[GYRE_JOIN_WHO_MAX];
    if (code == GYRE_REFUSAL_VERSION)
        snprintf(out, size,
                 "it speaks versions %u to %u of the protocol, rank 0 speaks %u to %u: use one "
                 "build of Gyre",
                 theirs->version_low, theirs->version_high, GYRE_PROTOCOL_LOW, GYRE_PROTOCOL_HIGH);
    else if (code == GYRE_REFUSAL_EPOCH)
        snprintf(out, size, "it is of epoch (restart) %u, the job is in epoch %u", theirs->epoch,
                 job->epoch);
    else if (code == GYRE_REFUSAL_WORLD)
        snprintf(out, size, "it was started in a world of %u ranks, rank 0 in a world of %d",
                 theirs->world, job->world);
    else if (code == GYRE_REFUSAL_DUPLICATE)
        snprintf(out, size, "rank %u is here already: %s", theirs->rank,
                 gyre_join_who(join, theirs->rank, who));
    else
        snprintf(out, size, "a rank from 1 to %d was expected", job->world - 1);
}

static void tell_configurations(const struct gyre_joining *join, const struct gyre_guest *guest,
                                char *out, size_t size)
{
    const char *mine = join->options->configuration_text;
    const char *const text[2] = {mine ? mine : "", guest->configuration};
    char one[96], other[96], differ[GYRE_REFUSAL_TEXT - 32];
    snprintf(one, sizeof one, "rank 0 (host %.63s)", gyre_host_name());
    snprintf(other, sizeof other, "rank %u (host %.63s)", guest->claim.rank, guest->identity.host);
    gyre_configuration_difference(text, (const char *const[]){one, other}, differ, sizeof differ);
    snprintf(out, size, "%s; give all ranks the same", differ);
}

static bool fatal(uint32_t code)
{
    return code == GYRE_REFUSAL_VERSION || code == GYRE_REFUSAL_WORLD ||
           code == GYRE_REFUSAL_CONFIGURATION;
}

static void tell_refusal(const struct gyre_joining *join, const struct gyre_guest *guest,
                         struct gyre_refusal *refusal)
{
    char why[320], root[GYRE_JOIN_WHO_MAX];
    why_refused(join, guest, refusal->code, why, sizeof why);
    snprintf(refusal->text, sizeof refusal->text,
             "rank %u on %.63s (pid %d) does not fit in with %s: %s", guest->claim.rank,
             guest->identity.host, guest->identity.pid, gyre_join_who(join, 0, root), why);
}

int gyre_guest_refuse_rank(struct gyre_joining *join, const struct gyre_guest *guest,
                           struct gyre_refusal *refusal)
{
    if (refusal->code == GYRE_REFUSAL_CONFIGURATION)
        tell_configurations(join, guest, refusal->text, sizeof refusal->text);
    else
        tell_refusal(join, guest, refusal);
    if (fatal(refusal->code))
        return gyre_trouble_set(join->trouble, GYRE_REFUSED, "%s", refusal->text);
    gyre_log(GYRE_LOG_WARN, "refused: %s", refusal->text);
    return GYRE_AGAIN;
}

int gyre_guest_read(const struct gyre_talk *talk, const struct gyre_record *record,
                    struct gyre_guest *guest)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    guest->claim = talk->shake.theirs;
    gyre_identity_get(&in, &guest->identity);
    gyre_get_text(&in, guest->configuration, sizeof guest->configuration);
    return record->kind != GYRE_JOIN_INTRODUCTION || in.bad ? GYRE_CORRUPT : 0;
}
