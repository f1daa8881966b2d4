/* Finds why a job stands still: a rank that is gone, one that does not run, one that made another
 * call, one that made none.
 *
 * The ranks that wait say in which call. In each communicator the least call that is pending is
 * looked at: whoever has another record of it disagrees, and whoever has none is missing. A missing
 * rank that itself waits elsewhere is no cause.
 *
 * Tested by tests/program/cli/why.c. */
#include "cli/why/diagnose.h"

#include "cli/why/pace.h"

#include <string.h>

#define STUCK_NS     UINT64_C(2000000000) /* a call that waits so long is looked into */
#define SILENT_NS    UINT64_C(3000000000) /* a rank beats at least four times a second */
#define UNUSUAL      10                   /* times the usual time of a call */
#define REPEATS_MOST 512                  /* records searched for what comes next */

static const char *const words[GYRE_WHY_KINDS] = {
    "nothing",      "killed",    "stopped", "wrong count", "wrong order", "mismatch",
    "missing call", "slow core", "late",    "slow link",   "failed"};

const char *gyre_why_word(enum gyre_why_kind kind)
{
    return words[kind];
}

/* -- looking up -------------------------------------------------------------------------------- */

/* The last record in a communicator. */
static const struct gyre_call_record *last_in(const struct gyre_trail *trail, uint32_t comm)
{
    for (uint32_t i = trail->records; i-- > 0;)
        if (trail->record[i].comm == comm)
            return &trail->record[i];
    return NULL;
}

static bool is_member(const struct gyre_trail *trail, uint32_t comm)
{
    for (uint32_t i = 0; i < GYRE_RECORD_COMMS; i++)
        if (trail->head.comm[i].made && trail->head.comm[i].name == comm)
            return true;
    return false;
}

/* -- processes --------------------------------------------------------------------------------- */

/* Finds the rank that failed first, whose story is nearest to the cause; NULL: none failed. */
static const struct gyre_trail *find_story(const struct gyre_trails *trails)
{
    const struct gyre_trail *first = NULL;
    for (uint32_t i = 0; i < trails->count; i++)
        if (trails->of[i].head.state == GYRE_RECORD_FAILED &&
            (!first || trails->of[i].head.now.wall < first->head.now.wall))
            first = &trails->of[i];
    return first;
}

/* Whether a rank has ended a call, as its own records tell. */
static bool left_call(const struct gyre_trail *trail, const struct gyre_call_record *call)
{
    const struct gyre_call_record *own =
        trail ? gyre_trail_call(trail, call->comm, call->sequence) : NULL;
    return own && own->ended;
}

/* The first call in which ranks wait, and that the lost rank has not ended. */
static void tell_call(const struct gyre_trails *trails, struct gyre_finding *finding)
{
    const struct gyre_trail *lost = gyre_trail_of(trails, finding->rank);
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_call_record *pending = gyre_trail_pending(&trails->of[i]);
        if (!pending || trails->of[i].head.rank == finding->rank || left_call(lost, pending))
            continue;
        if (!finding->wanted || pending->sequence < finding->sequence) {
            finding->wanted = pending;
            finding->comm = pending->comm;
            finding->sequence = pending->sequence;
            finding->since = gyre_trail_time(&trails->of[i], pending->called);
        }
        finding->waiting++;
    }
}

static bool find_lost(const struct gyre_trails *trails, struct gyre_finding *finding)
{
    const struct gyre_trail *teller = find_story(trails);
    if (!teller || teller->head.status != GYRE_PEER_LOST)
        return false;
    bool silent = strstr(teller->head.story, "silent") != NULL;
    finding->kind = silent ? GYRE_WHY_STOPPED : GYRE_WHY_KILLED;
    finding->rank = teller->head.failed_rank;
    finding->story = teller->head.story;
    tell_call(trails, finding);
    return true;
}

static bool beats_no_more(const struct gyre_trails *trails, const struct gyre_trail *trail)
{
    return trail->head.state == GYRE_RECORD_RUNS &&
           trails->beaten > trail->head.now.wall + SILENT_NS;
}

static void tell_process(const struct gyre_trails *trails, const struct gyre_trail *trail,
                         enum gyre_why_kind kind, struct gyre_finding *finding)
{
    finding->kind = kind;
    finding->rank = trail->head.rank;
    tell_call(trails, finding);
    if (!finding->since)
        finding->since = trail->head.now.wall;
}

/* A living job: its kernel says who is stopped, and the beats who does not run. Who is silent and
 * ready to run has no core. */
static bool find_stopped(const struct gyre_trails *trails, struct gyre_finding *finding)
{
    const struct gyre_trail *silent = NULL;
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_trail *trail = &trails->of[i];
        if (trail->living && trail->stopped) {
            tell_process(trails, trail, GYRE_WHY_STOPPED, finding);
            return true;
        }
        if (trail->living && beats_no_more(trails, trail) && (!silent || silent->ready))
            silent = trail;
    }
    if (silent)
        tell_process(trails, silent, silent->ready ? GYRE_WHY_CORE : GYRE_WHY_STOPPED, finding);
    return silent != NULL;
}

/* -- calls ------------------------------------------------------------------------------------- */

static bool same_call(const struct gyre_call_record *a, const struct gyre_call_record *b)
{
    return a->signature == b->signature && a->count == b->count;
}

/* What a rank's own past says that its call `sequence` should be: after the call before, the same
 * came as the last time. NULL: it has no such past. */
static const struct gyre_call_record *usual_call(const struct gyre_trail *trail, uint32_t comm,
                                                 uint64_t sequence)
{
    const struct gyre_call_record *before = gyre_trail_call(trail, comm, sequence - 1);
    for (uint64_t back = 2; before && back < REPEATS_MOST && back < sequence; back++) {
        const struct gyre_call_record *then = gyre_trail_call(trail, comm, sequence - back);
        const struct gyre_call_record *next = gyre_trail_call(trail, comm, sequence - back + 1);
        if (then && next && same_call(then, before))
            return next;
    }
    return NULL;
}

/* How many ranks made the same call as this one. */
static uint32_t companions(const struct gyre_trails *trails, const struct gyre_call_record *call)
{
    uint32_t same = 0;
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_call_record *other =
            gyre_trail_call(&trails->of[i], call->comm, call->sequence);
        same += other && same_call(other, call);
    }
    return same;
}

/* The rank whose call is the odd one. Between equal camps the past decides. */
static bool find_odd(const struct gyre_trails *trails, uint32_t comm, uint64_t sequence,
                     struct gyre_finding *finding)
{
    uint32_t fewest = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_trail *trail = &trails->of[i];
        const struct gyre_call_record *call = gyre_trail_call(trail, comm, sequence);
        if (!call)
            continue;
        const struct gyre_call_record *usual = usual_call(trail, comm, sequence);
        /* Twice the companions, so that the past only decides between equals. */
        uint32_t weight = 2 * companions(trails, call) + (usual && same_call(usual, call));
        if (weight < fewest) {
            fewest = weight;
            finding->rank = trail->head.rank;
            finding->made = call;
        }
        if (weight > most) {
            most = weight;
            finding->wanted = call;
        }
    }
    return most && !same_call(finding->wanted, finding->made);
}

static enum gyre_why_kind kind_of_odd(const struct gyre_finding *finding)
{
    return finding->wanted->signature == finding->made->signature ? GYRE_WHY_COUNT : GYRE_WHY_ORDER;
}

/* A member that has not come, and does not wait for others either. NULL: there is none. */
static const struct gyre_trail *find_absent(const struct gyre_trails *trails, uint32_t comm,
                                            uint64_t sequence)
{
    const struct gyre_trail *absent = NULL;
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_trail *trail = &trails->of[i];
        const struct gyre_call_record *last = last_in(trail, comm);
        bool missing = is_member(trail, comm) && (!last || last->sequence < sequence);
        if (missing && (!absent || !gyre_trail_pending(trail)))
            absent = trail;
    }
    return absent;
}

/* The call that has waited longest, messages aside; NULL: nobody waits. */
static const struct gyre_call_record *oldest_call(const struct gyre_trails *trails,
                                                  const struct gyre_trail **of)
{
    const struct gyre_call_record *oldest = NULL;
    uint64_t since = UINT64_MAX;
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_call_record *pending = gyre_trail_pending(&trails->of[i]);
        uint64_t called = pending ? gyre_trail_time(&trails->of[i], pending->called) : UINT64_MAX;
        bool first = pending && pending->comm != GYRE_RECORD_MESSAGES &&
                     (!oldest || pending->sequence < oldest->sequence ||
                      (pending->comm != oldest->comm && called < since));
        if (!first)
            continue;
        *of = &trails->of[i];
        oldest = pending;
        since = called;
    }
    return oldest;
}

/* Since when the call of a finding is waited for, and by how many. */
static void tell_waiting(const struct gyre_trails *trails, const struct gyre_trail *trail,
                         const struct gyre_call_record *pending, struct gyre_finding *finding)
{
    finding->since = gyre_trail_time(trail, pending->called);
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_call_record *there =
            gyre_trail_call(&trails->of[i], finding->comm, finding->sequence);
        finding->waiting += there && !there->ended && trails->of[i].head.rank != finding->rank;
    }
}

/* A pending call as the one of a finding. */
static void tell_pending(const struct gyre_trails *trails, const struct gyre_trail *trail,
                         const struct gyre_call_record *pending, struct gyre_finding *finding)
{
    finding->comm = pending->comm;
    finding->sequence = pending->sequence;
    finding->wanted = pending;
    tell_waiting(trails, trail, pending, finding);
}

/* A call in which some wait and that others made otherwise: the first of its communicator. Whoever
 * waits in an earlier one has only not seen its end before the job failed. */
static bool find_odd_call(const struct gyre_trails *trails, struct gyre_finding *finding)
{
    const char *story = finding->story;
    bool found = false;
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_call_record *pending = gyre_trail_pending(&trails->of[i]);
        if (!pending || pending->comm == GYRE_RECORD_MESSAGES ||
            (found && pending->sequence >= finding->sequence))
            continue;
        struct gyre_finding odd = {
            .comm = pending->comm, .sequence = pending->sequence, .story = story};
        if (!find_odd(trails, pending->comm, pending->sequence, &odd))
            continue;
        odd.kind = kind_of_odd(&odd);
        tell_waiting(trails, &trails->of[i], pending, &odd);
        *finding = odd;
        found = true;
    }
    return found;
}

/* Ranks that disagree about a call, where the records of one of them are missing: the story names
 * both. Who had not come yet is no cause. */
static bool find_mismatch(const struct gyre_trails *trails, const struct gyre_trail *teller,
                          struct gyre_finding *finding)
{
    const struct gyre_trail *of = NULL;
    if (!teller || teller->head.status != GYRE_MISMATCH || trails->count == trails->n)
        return false;
    const struct gyre_call_record *oldest = oldest_call(trails, &of);
    finding->kind = GYRE_WHY_MISMATCH;
    if (oldest)
        tell_pending(trails, of, oldest, finding);
    return true;
}

/* The rank that the call which has waited longest lacks. */
static bool find_missing_call(const struct gyre_trails *trails, struct gyre_finding *finding)
{
    const struct gyre_trail *of = NULL, *absent = NULL;
    const struct gyre_call_record *oldest = oldest_call(trails, &of);
    if (oldest)
        absent = find_absent(trails, oldest->comm, oldest->sequence);
    if (!absent)
        return false;
    finding->kind = GYRE_WHY_MISSING;
    finding->rank = absent->head.rank;
    tell_pending(trails, of, oldest, finding);
    return true;
}

/* Whether a call waits so long that it is looked into. */
static bool is_stuck(const struct gyre_trails *trails)
{
    const struct gyre_trail *of = NULL;
    const struct gyre_call_record *oldest = oldest_call(trails, &of);
    return oldest && trails->at >= gyre_trail_time(of, oldest->called) + STUCK_NS;
}

/* A message that waits, of a rank whose other end does not wait. */
static bool find_message(const struct gyre_trails *trails, struct gyre_finding *finding)
{
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_call_record *pending = gyre_trail_pending(&trails->of[i]);
        if (!pending || pending->comm != GYRE_RECORD_MESSAGES)
            continue;
        const struct gyre_trail *other = gyre_trail_of(trails, pending->waits_on);
        uint64_t since = gyre_trail_time(&trails->of[i], pending->called);
        if (!other || gyre_trail_pending(other) || trails->at < since + STUCK_NS)
            continue;
        *finding = (struct gyre_finding){.kind = GYRE_WHY_MISSING,
                                         .rank = other->head.rank,
                                         .comm = pending->comm,
                                         .sequence = pending->sequence,
                                         .wanted = pending,
                                         .since = since,
                                         .waiting = 1};
        return true;
    }
    return false;
}

/* Where calls take long after all have come, the connections may show why. Those of a rank without
 * a core are full, too. Where all ranks are here, they show it, or no link is slow. */
static void look_at_links(const struct gyre_trails *trails, struct gyre_finding *finding)
{
    const bool all_here = trails->living && trails->count == trails->n;
    const bool long_calls = finding->running_ns > GYRE_PACE_SHARE * finding->period_ns;
    if (trails->living && finding->kind != GYRE_WHY_CORE && long_calls &&
        gyre_find_slow_link(trails, &finding->link)) {
        finding->kind = GYRE_WHY_LINK;
        finding->rank = finding->link.rank;
    } else if (finding->kind == GYRE_WHY_LINK && all_here) {
        finding->kind = GYRE_WHY_NOTHING;
        finding->rank = GYRE_TRAIL_NONE;
    }
}

/* A call that waits, not yet long enough to be called stuck, but many times as long as usual. */
static bool is_unsettled(const struct gyre_trails *trails, const struct gyre_finding *finding)
{
    const struct gyre_trail *of = NULL;
    const struct gyre_call_record *oldest = oldest_call(trails, &of);
    if (!oldest || !trails->living)
        return false;
    const double waited = (double)(int64_t)(trails->at - gyre_trail_time(of, oldest->called));
    return waited > UNUSUAL * finding->period_ns && waited < STUCK_NS;
}

void gyre_diagnose(const struct gyre_trails *trails, struct gyre_finding *finding)
{
    const struct gyre_trail *teller = find_story(trails);
    *finding = (struct gyre_finding){.rank = GYRE_TRAIL_NONE};
    if (find_lost(trails, finding) || find_stopped(trails, finding))
        return;
    if (teller)
        finding->story = teller->head.story;
    const bool stands = teller || is_stuck(trails);
    if ((stands && (find_odd_call(trails, finding) || find_mismatch(trails, teller, finding) ||
                    find_missing_call(trails, finding))) ||
        find_message(trails, finding))
        return;
    if (teller) {
        finding->kind = GYRE_WHY_FAILED;
        finding->rank = teller->head.failed_rank;
        return;
    }
    gyre_diagnose_pace(trails, finding);
    finding->unsettled = is_unsettled(trails, finding);
    if (!finding->unsettled)
        look_at_links(trails, finding);
}
