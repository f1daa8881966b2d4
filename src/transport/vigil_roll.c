/* Rank 0's roll call.
 *
 * A rank *waits* while it has started an operation that it has not finished (sequence > finished);
 * what it waits in is the oldest such operation, finished + 1. A rank has *joined* an operation
 * when it has started it. Five questions are asked of the table:
 *
 *     rank   sequence  finished
 *      0        7         6     waits     1. do two waiting ranks hold different fingerprints under
 *      1        7         6     waits        one number? Then they will never finish.
 *      2        6         6     missing   2. did a rank call something else under the number in
 *      3        9         8     waits        which another waits, and get away with it (a
 *                                            broadcast's root does)? Every state tells its rank's
 *                                            last calls.
 *                                         3. do all wait, under different numbers or in different
 *                                            communicators, one of them for another that has not
 *                                            joined or has left, and nothing moves? Then they have
 *                                            parted long ago.
 *                                         4. does a rank wait for one that is in gyre_finalize(); or
 *                                            wait, also in gyre_finalize(), for one that refused that
 *                                            call and has not made it since? That one has half of the
 *                                            dead time, so all are told within it.
 *                                         5. has a rank waited too long in an operation that others
 *                                            have not joined? Those are named: first in a warning,
 *                                            then in the failure.
 *
 * A rank tells of one communicator in full, the one that it waits in, and of others how far it is:
 * so 3 to 5 know who belongs to a communicator and who has joined.
 *
 * A call that was refused with the same words where a rank waits and where it is missing was wrong
 * on all ranks alike: the program knows of it, and whoever is late may be computing. So 4 leaves
 * that to the other questions.
 *
 * Nobody is judged by 3 while any rank computes, or moves as much as one byte: its state changes
 * then. Equal numbers are found by a small hash table of this call's waiting ranks, so a call is
 * O(n). */
#include "transport/vigil_roll.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/size.h"
#include "transport/signature.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY       UINT32_MAX
#define LOOK         (100 * GYRE_MS) /* between calls when nothing changed, or an eighth of dead_ns */
#define LIST_ROOM    300             /* bytes for a list of ranks in a message */
#define PLACE_ROOM   256             /* … for what a rank waits in */
#define REFUSED_ROOM (GYRE_WATCH_WHY_MAX + 40)
#define COMM_ROOM    40 /* … for a communicator's name */
#define SUSPECTS     16u /* refused calls that one roll call follows: each is a walk over all ranks */

struct entry {
    struct gyre_watch_state state;
    uint64_t since;  /* it waits in its oldest operation */
    uint64_t number; /* under which it stands in the hash table, if it does */
    uint64_t refused_at, parted_at;
};

struct gyre_roll {
    uint32_t n, slots, suspect; /* the rank at which the next search for refused calls begins */
    struct gyre_roll_limits limit;
    uint64_t look, next_look;
    uint64_t moved_at; /* when a state was last another than before */
    bool changed;
    uint32_t warned_comm; /* the operation last warned of */
    uint64_t warned_sequence;
    struct entry *entry; /* n */
    uint32_t *slot;      /* a waiting rank + 1, by hash of its operation; 0: empty */
};

int gyre_roll_create(uint32_t n, const struct gyre_roll_limits *limits, struct gyre_roll **roll)
{
    struct gyre_roll *fresh = calloc(1, sizeof *fresh);

    if (fresh == NULL)
        return -ENOMEM;
    fresh->n = n;
    fresh->limit = *limits;
    fresh->look = limits->dead_ns > 0 && limits->dead_ns / 8 < LOOK ? limits->dead_ns / 8 : LOOK;
    for (fresh->slots = 4; fresh->slots < 2 * n; fresh->slots *= 2)
        ;
    fresh->entry = calloc(n, sizeof *fresh->entry);
    fresh->slot = calloc(fresh->slots, sizeof *fresh->slot);
    if (fresh->entry == NULL || fresh->slot == NULL) {
        gyre_roll_destroy(fresh);
        return -ENOMEM;
    }
    *roll = fresh;
    return 0;
}

void gyre_roll_destroy(struct gyre_roll *roll)
{
    if (roll == NULL)
        return;
    free(roll->slot);
    free(roll->entry);
    free(roll);
}

static bool waiting(const struct entry *entry)
{
    return entry->state.sequence > entry->state.finished;
}

static uint64_t oldest(const struct gyre_watch_state *state)
{
    return state->finished + 1;
}

/* What the rank called under that number, if its state still tells. */
static bool recall(const struct gyre_watch_state *state, uint64_t number,
                   struct gyre_watch_call *call)
{
    uint64_t ago = state->sequence - number;

    if (number > state->sequence || ago > state->calls)
        return false;
    *call =
        ago > 0 ? state->call[ago - 1] : (struct gyre_watch_call){state->signature, state->count};
    return true;
}

/* It waits in messages from rank to rank: nobody else has that number, and who else is concerned
 * stands in the signature. */
static bool in_message(const struct gyre_watch_state *state)
{
    return state->comm == GYRE_WATCH_PAIRS;
}

bool gyre_roll_progress(const struct gyre_watch_state *state, uint32_t comm, uint64_t *sequence,
                        uint64_t *finished)
{
    *sequence = state->sequence;
    *finished = state->finished;
    if (state->comm == comm)
        return true;
    for (uint32_t i = 0; i < state->elsewheres; i++)
        if (state->elsewhere[i].comm == comm) {
            *sequence = state->elsewhere[i].sequence;
            *finished = state->elsewhere[i].finished;
            return true;
        }
    return false;
}

static bool joined(const struct gyre_watch_state *state, uint32_t comm, uint64_t number)
{
    uint64_t sequence, finished;
    return gyre_roll_progress(state, comm, &sequence, &finished) && sequence >= number;
}

/* Everybody belongs to the world. */
static bool belongs(const struct gyre_watch_state *state, uint32_t comm)
{
    uint64_t sequence, finished;
    return comm == 0 || gyre_roll_progress(state, comm, &sequence, &finished);
}

static bool same_refusal(const struct gyre_watch_refused *one, const struct gyre_watch_refused *two)
{
    return one->comm == two->comm && one->sequence == two->sequence;
}

static void hear_end(struct entry *entry, uint64_t clock, const struct gyre_watch_state *state)
{
    const struct gyre_watch_refused *before = &entry->state.refused;

    if (state->refused.stands && (!before->stands || !same_refusal(before, &state->refused)))
        entry->refused_at = clock;
    if (state->parting && !entry->state.parting)
        entry->parted_at = clock;
}

void gyre_roll_hear(struct gyre_roll *roll, uint64_t clock, const struct gyre_watch_state *state)
{
    if (state->rank >= roll->n)
        return;
    struct entry *entry = &roll->entry[state->rank];
    hear_end(entry, clock, state);
    bool moved = !waiting(entry) || entry->state.finished != state->finished ||
                 entry->state.comm != state->comm;
    if (moved)
        entry->since = clock;
    if (memcmp(&entry->state, state, sizeof *state) != 0) {
        roll->changed = true;
        roll->moved_at = clock;
    }
    entry->state = *state;
}

bool gyre_roll_waits(const struct gyre_roll *roll, uint32_t rank, uint32_t comm, uint64_t sequence)
{
    uint64_t entered, finished;

    return gyre_roll_progress(&roll->entry[rank].state, comm, &entered, &finished) &&
           finished < sequence && sequence <= entered;
}

/* -- lists of ranks ---------------------------------------------------------------------------- */

struct list { /* "3, 5-7": runs are written when they end */
    char text[LIST_ROOM];
    size_t used;
    uint32_t count, first, last; /* all ranks; the open run */
    bool full;
};

static void write_run(struct list *list)
{
    char run[32];
    int length = list->first == list->last
                     ? snprintf(run, sizeof run, "%u", list->first)
                     : snprintf(run, sizeof run, "%u-%u", list->first, list->last);

    if (list->full || list->used + (size_t)length + 8 > sizeof list->text) {
        list->full = true;
        return;
    }
    list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used, "%s%s",
                                   list->used > 0 ? ", " : "", run);
}

static void add_rank(struct list *list, uint32_t rank)
{
    if (list->count++ > 0 && rank == list->last + 1) {
        list->last = rank;
        return;
    }
    if (list->count > 1)
        write_run(list);
    list->first = list->last = rank;
}

static void end_list(struct list *list)
{
    if (list->count > 0)
        write_run(list);
    if (list->full)
        snprintf(list->text + list->used, sizeof list->text - list->used, ", …");
}

/* -- 1: different operations under one number -------------------------------------------------- */

/* Where the first waiting rank under that number stands, or an empty place for it. */
static uint32_t *slot_of(struct gyre_roll *roll, uint32_t comm, uint64_t number)
{
    uint32_t mask = roll->slots - 1;
    uint32_t at = (uint32_t)gyre_mix64(number ^ (uint64_t)comm << 48) & mask;

    for (; roll->slot[at] != 0; at = (at + 1) & mask) {
        const struct entry *entry = &roll->entry[roll->slot[at] - 1];
        if (entry->state.comm == comm && entry->number == number)
            break;
    }
    return &roll->slot[at];
}

/* The first waiting rank under this number; this one if there is none yet. */
static uint32_t first_under(struct gyre_roll *roll, uint32_t rank, uint64_t number)
{
    uint32_t *slot = slot_of(roll, roll->entry[rank].state.comm, number);

    if (*slot == 0) {
        roll->entry[rank].number = number;
        *slot = rank + 1;
    }
    return *slot - 1;
}

static void tell_two(uint32_t a, const struct gyre_watch_call *one, uint32_t b,
                     const struct gyre_watch_call *two, struct gyre_roll_finding *finding)
{
    char first[128], second[128], differ[80] = "";

    gyre_signature_text(first, sizeof first, one->signature, one->count);
    gyre_signature_text(second, sizeof second, two->signature, two->count);
    if (strcmp(first, second) == 0)
        snprintf(differ, sizeof differ, ", and they differ in %s",
                 gyre_signature_untold(one->signature));
    snprintf(finding->text, sizeof finding->text,
             "rank %u called %s, but rank %u called %s, both as operation %" PRIu64
             " of communicator %u%s: every rank must call the same operations in the same order",
             a, first, b, second, finding->sequence, finding->comm & GYRE_WATCH_COMM_MASK, differ);
}

/* The number of the first of their last calls that differ; 0: none that both states remember. */
static uint64_t first_difference(const struct gyre_watch_state *one,
                                 const struct gyre_watch_state *two)
{
    struct gyre_watch_call here = {0}, there = {0};
    uint64_t found = 0;

    for (uint64_t number = one->sequence;
         number > 0 && recall(one, number, &here) && recall(two, number, &there); number--)
        if (here.signature != there.signature || here.count != there.count)
            found = number;
    return found;
}

static void tell_past(const struct gyre_watch_state *one, const struct gyre_watch_state *two,
                      struct gyre_roll_finding *finding)
{
    char call[128];

    gyre_signature_text(call, sizeof call, one->signature, one->count);
    snprintf(
        finding->text, sizeof finding->text,
        "rank %u and rank %u agree about operation %" PRIu64
        " of communicator %u (%s), but not about one before it, which none of them had to wait "
        "for: every rank must call the same operations in the same order, with one root",
        one->rank, two->rank, finding->sequence, finding->comm & GYRE_WATCH_COMM_MASK, call);
}

void gyre_roll_tell(const struct gyre_watch_state *one, const struct gyre_watch_state *two,
                    struct gyre_roll_finding *finding)
{
    uint64_t number = first_difference(one, two);
    struct gyre_watch_call here = {0}, there = {0};

    finding->verdict = GYRE_ROLL_MISMATCH;
    finding->comm = one->comm;
    finding->sequence = number > 0 ? number : one->sequence;
    if (number == 0 && (uint32_t)one->fingerprint == (uint32_t)two->fingerprint) {
        tell_past(one, two, finding);
        return;
    }
    recall(one, finding->sequence, &here);
    recall(two, finding->sequence, &there);
    tell_two(one->rank, &here, two->rank, &there, finding);
}

static bool find_mismatch(struct gyre_roll *roll, struct gyre_roll_finding *finding)
{
    memset(roll->slot, 0, roll->slots * sizeof *roll->slot);
    for (uint32_t rank = 0; rank < roll->n; rank++) {
        if (!waiting(&roll->entry[rank]) || in_message(&roll->entry[rank].state))
            continue;
        uint32_t first = first_under(roll, rank, roll->entry[rank].state.sequence);
        if (roll->entry[first].state.fingerprint == roll->entry[rank].state.fingerprint)
            continue;
        gyre_roll_tell(&roll->entry[first].state, &roll->entry[rank].state, finding);
        return true;
    }
    return false;
}

/* -- 2: others called something else there, and went past -------------------------------------- */

/* Compares what the rank called under that number with the call in which another waits. */
static bool differs_there(struct gyre_roll *roll, uint32_t rank, uint64_t number,
                          struct gyre_roll_finding *finding)
{
    uint32_t comm = roll->entry[rank].state.comm, waits = *slot_of(roll, comm, number);
    struct gyre_watch_call mine, theirs;

    if (waits-- == 0 || !recall(&roll->entry[rank].state, number, &mine) ||
        !recall(&roll->entry[waits].state, number, &theirs))
        return false;
    if (mine.signature == theirs.signature && mine.count == theirs.count)
        return false;
    finding->verdict = GYRE_ROLL_MISMATCH;
    finding->comm = comm;
    finding->sequence = number;
    tell_two(waits, &theirs, rank, &mine, finding);
    return true;
}

static bool find_departed(struct gyre_roll *roll, struct gyre_roll_finding *finding)
{
    memset(roll->slot, 0, roll->slots * sizeof *roll->slot);
    for (uint32_t rank = 0; rank < roll->n; rank++)
        if (waiting(&roll->entry[rank]) && !in_message(&roll->entry[rank].state))
            first_under(roll, rank, oldest(&roll->entry[rank].state));
    for (uint32_t rank = 0; rank < roll->n; rank++) {
        const struct gyre_watch_state *state = &roll->entry[rank].state;
        for (uint64_t ago = 0; ago <= state->calls && ago < state->sequence; ago++)
            if (!in_message(state) && differs_there(roll, rank, state->sequence - ago, finding))
                return true;
    }
    return false;
}

/* -- 3: all wait, and not for each other ------------------------------------------------------- */

/* " of communicator 3"; nothing for the world. */
static const char *name_comm(uint32_t comm, char out[COMM_ROOM])
{
    out[0] = '\0';
    if (comm != 0)
        snprintf(out, COMM_ROOM, " of communicator %" PRIu32, comm & GYRE_WATCH_COMM_MASK);
    return out;
}

/* "rank 1 waits in operation 7 (barrier)"; without what it is if the state has forgotten. */
static void tell_place(const struct gyre_roll *roll, uint32_t rank, char *out, size_t size)
{
    const struct gyre_watch_state *state = &roll->entry[rank].state;
    struct gyre_watch_call call;
    char signature[128];

    char of[COMM_ROOM];
    if (in_message(state)) {
        gyre_signature_text(signature, sizeof signature, state->signature, state->count);
        snprintf(out, size, "rank %u waits in %s", rank, signature);
        return;
    }
    int used = snprintf(out, size, "rank %u waits in operation %" PRIu64 "%s", rank, oldest(state),
                        name_comm(state->comm, of));
    if (!recall(state, oldest(state), &call))
        return;
    gyre_signature_text(signature, sizeof signature, call.signature, call.count);
    snprintf(out + used, size - (size_t)used, " (%s)", signature);
}

static void tell_standstill(const struct gyre_roll *roll, uint32_t behind, uint32_t other,
                            struct gyre_roll_finding *finding)
{
    const struct gyre_watch_state *state = &roll->entry[behind].state;
    bool left = joined(&roll->entry[other].state, state->comm, oldest(state));
    char here[PLACE_ROOM], there[PLACE_ROOM];

    finding->verdict = GYRE_ROLL_MISMATCH;
    finding->comm = state->comm;
    finding->sequence = oldest(state);
    tell_place(roll, behind, here, sizeof here);
    tell_place(roll, other, there, sizeof there);
    if (in_message(state))
        snprintf(finding->text, sizeof finding->text,
                 "%s; %s: all ranks wait, and nothing moves any more", here, there);
    else
        snprintf(finding->text, sizeof finding->text,
                 "%s, which rank %u has %s; %s: every rank must call the same operations in the "
                 "same order",
                 here, other, left ? "left" : "not called", there);
}

/* A rank for which `rank` waits although it is not there, neither before nor in that operation. */
static uint32_t absent_from(const struct gyre_roll *roll, uint32_t rank)
{
    const struct gyre_watch_state *state = &roll->entry[rank].state;

    if (in_message(state))
        return state->signature >> 32 < roll->n ? (uint32_t)(state->signature >> 32) : NOBODY;
    for (uint32_t other = 0; other < roll->n; other++) {
        const struct gyre_watch_state *theirs = &roll->entry[other].state;
        uint64_t sequence, finished;
        if (theirs->comm == state->comm
                ? oldest(theirs) > oldest(state)
                : gyre_roll_progress(theirs, state->comm, &sequence, &finished) &&
                      (sequence < oldest(state) || finished >= oldest(state)))
            return other;
    }
    return NOBODY;
}

static bool find_standstill(const struct gyre_roll *roll, uint64_t clock,
                            struct gyre_roll_finding *finding)
{
    if (roll->limit.dead_ns == 0 || clock - roll->moved_at < roll->limit.dead_ns)
        return false;
    bool together = true;
    for (uint32_t rank = 0; rank < roll->n; rank++) {
        const struct entry *entry = &roll->entry[rank], *first = &roll->entry[0];
        if (!waiting(entry))
            return false;
        together &= entry->state.comm == first->state.comm && !in_message(&entry->state) &&
                    oldest(&entry->state) == oldest(&first->state);
    }
    for (uint32_t rank = 0; rank < roll->n && !together; rank++) {
        uint32_t other = absent_from(roll, rank);
        if (other == NOBODY)
            continue;
        tell_standstill(roll, rank, other, finding);
        return true;
    }
    return false;
}

/* -- 4: who has left, and who refused what others wait in -------------------------------------- */

/* The name of a refused call stands before what was wrong; "no memory for …" has none. */
static const char *verb_of(const struct gyre_watch_refused *refused)
{
    return strncmp(refused->why, "gyre_", 5) == 0 ? "refused" : "could not call:";
}

/* Why it did not call what comes next there; nothing if it did not refuse that. */
static const char *name_refused(const struct gyre_watch_state *state, uint32_t comm,
                                char out[REFUSED_ROOM])
{
    const struct gyre_watch_refused *refused = &state->refused;

    out[0] = '\0';
    if (refused->stands && refused->comm == comm)
        snprintf(out, REFUSED_ROOM, ", where it %s %s", verb_of(refused), refused->why);
    return out;
}

void gyre_roll_tell_left(const struct gyre_roll_parted *parted, struct gyre_roll_finding *finding)
{
    const struct gyre_watch_state *behind = parted->behind, *ahead = parted->ahead;
    uint64_t sequence = 0, finished = 0;
    char of[COMM_ROOM], why[REFUSED_ROOM], signature[128] = "";
    struct gyre_watch_call call;

    gyre_roll_progress(behind, parted->comm, &sequence, &finished);
    if (parted->comm == ahead->comm && recall(ahead, parted->number, &call))
        gyre_signature_text(signature, sizeof signature, call.signature, call.count);
    finding->verdict = GYRE_ROLL_LEFT;
    finding->comm = parted->comm;
    finding->sequence = parted->number;
    finding->rank = behind->rank;
    snprintf(finding->text, sizeof finding->text,
             "has left by gyre_finalize() after operation %" PRIu64
             "%s%s, but rank %u %s operation %" PRIu64
             "%s%s%s: every rank must call the same operations in the same order",
             sequence, name_comm(parted->comm, of), name_refused(behind, parted->comm, why),
             ahead->rank, parted->how, parted->number, signature[0] ? " (" : "", signature,
             signature[0] ? ")" : "");
}

/* Of the waiting ranks of each communicator, the one that has called most, under number 0. */
static void enter_latest(struct gyre_roll *roll)
{
    memset(roll->slot, 0, roll->slots * sizeof *roll->slot);
    for (uint32_t rank = 0; rank < roll->n; rank++) {
        const struct gyre_watch_state *state = &roll->entry[rank].state;
        if (!waiting(&roll->entry[rank]) || in_message(state))
            continue;
        uint32_t first = first_under(roll, rank, 0);
        if (state->sequence > roll->entry[first].state.sequence) {
            roll->entry[rank].number = 0;
            *slot_of(roll, state->comm, 0) = rank + 1;
        }
    }
}

static bool left_behind(struct gyre_roll *roll, const struct gyre_watch_state *state, uint32_t comm,
                        uint64_t sequence, struct gyre_roll_finding *finding)
{
    uint32_t waits = *slot_of(roll, comm, 0);

    if (waits-- == 0 || roll->entry[waits].state.sequence <= sequence)
        return false;
    const struct gyre_watch_state *ahead = &roll->entry[waits].state;
    uint64_t number = sequence < oldest(ahead) ? oldest(ahead) : sequence + 1;
    gyre_roll_tell_left(&(struct gyre_roll_parted){state, ahead, comm, number, "waits in"},
                        finding);
    return true;
}

/* A rank in its gyre_finalize() calls nothing more. */
static bool find_left(struct gyre_roll *roll, struct gyre_roll_finding *finding)
{
    bool found = false;

    enter_latest(roll);
    for (uint32_t rank = 0; rank < roll->n && !found; rank++) {
        const struct gyre_watch_state *state = &roll->entry[rank].state;
        if (!state->parting)
            continue;
        found = left_behind(roll, state, state->comm, state->sequence, finding);
        for (uint32_t i = 0; i < state->elsewheres && !found; i++)
            found = left_behind(roll, state, (uint32_t)state->elsewhere[i].comm,
                                state->elsewhere[i].sequence, finding);
    }
    return found;
}

/* It waits in an operation, for that rank too, since `since`. */
static bool waits_in_call(const struct entry *entry, uint32_t rank,
                          const struct gyre_watch_refused *refused, uint64_t *since)
{
    const struct gyre_watch_state *state = &entry->state;

    *since = entry->since;
    if (!waiting(entry) || state->comm != refused->comm)
        return false;
    return in_message(state) ? state->signature >> 32 == rank : oldest(state) >= refused->sequence;
}

/* It has made that call, and waits at its end since `since`. */
static bool waits_at_end(const struct entry *entry, const struct gyre_watch_refused *refused,
                         uint64_t *since)
{
    *since = entry->parted_at;
    return entry->state.parting && refused->comm != GYRE_WATCH_PAIRS &&
           joined(&entry->state, (uint32_t)refused->comm, refused->sequence);
}

static bool refused_alike(const struct gyre_watch_refused *one,
                          const struct gyre_watch_refused *two)
{
    return one->comm != GYRE_WATCH_PAIRS && same_refusal(one, two) &&
           strcmp(one->why, two->why) == 0;
}

/* One that has waited for `rank` since before `limit`. */
static uint32_t kept_waiting(const struct gyre_roll *roll, uint32_t rank, uint64_t limit,
                             uint64_t *since)
{
    const struct gyre_watch_refused *refused = &roll->entry[rank].state.refused;

    for (uint32_t other = 0; other < roll->n; other++) {
        const struct entry *entry = &roll->entry[other];
        if (other != rank &&
            (waits_in_call(entry, rank, refused, since) || waits_at_end(entry, refused, since)) &&
            *since <= limit && !refused_alike(refused, &entry->state.refused))
            return other;
    }
    return NOBODY;
}

static void tell_refused(const struct gyre_roll *roll, uint32_t rank, uint32_t other,
                         uint64_t waited, struct gyre_roll_finding *finding)
{
    const struct gyre_watch_refused *refused = &roll->entry[rank].state.refused;
    char there[PLACE_ROOM], of[COMM_ROOM];
    uint64_t since;

    finding->verdict = GYRE_ROLL_MISMATCH;
    finding->comm = (uint32_t)refused->comm;
    finding->sequence = refused->sequence;
    finding->rank = rank;
    if (waits_in_call(&roll->entry[other], rank, refused, &since))
        tell_place(roll, other, there, sizeof there);
    else
        snprintf(there, sizeof there,
                 "rank %u has called operation %" PRIu64 "%s and waits in gyre_finalize()", other,
                 refused->sequence, name_comm(finding->comm, of));
    snprintf(finding->text, sizeof finding->text,
             "rank %u %s %s, and has not called it again for %" PRIu64 ".%" PRIu64
             " s, while %s: every rank must call the same operations in the same order",
             rank, verb_of(refused), refused->why, waited / GYRE_SECOND,
             waited % GYRE_SECOND / (100 * GYRE_MS), there);
}

static bool find_refused(struct gyre_roll *roll, uint64_t clock, struct gyre_roll_finding *finding)
{
    uint64_t patience = roll->limit.dead_ns / 2, since;
    uint32_t first = roll->suspect, suspects = 0;

    for (uint32_t i = 0; i < roll->n && patience > 0 && suspects < SUSPECTS; i++) {
        uint32_t rank = (first + i) % roll->n;
        const struct entry *entry = &roll->entry[rank];
        if (!entry->state.refused.stands || clock - entry->refused_at < patience)
            continue;
        roll->suspect = rank + 1;
        suspects++;
        uint32_t other = kept_waiting(roll, rank, clock - patience, &since);
        if (other == NOBODY)
            continue;
        tell_refused(roll, rank, other,
                     clock - (since > entry->refused_at ? since : entry->refused_at), finding);
        return true;
    }
    return false;
}

/* -- 5: who has not joined --------------------------------------------------------------------- */

/* The rank that has waited longest. */
static uint32_t longest_waiting(const struct gyre_roll *roll)
{
    uint32_t longest = NOBODY;

    for (uint32_t rank = 0; rank < roll->n; rank++) {
        const struct entry *entry = &roll->entry[rank];
        if (waiting(entry) && (longest == NOBODY || entry->since < roll->entry[longest].since))
            longest = rank;
    }
    return longest;
}

static void list_missing(const struct gyre_roll *roll, const struct gyre_roll_finding *finding,
                         struct list *list)
{
    memset(list, 0, sizeof *list);
    for (uint32_t rank = 0; rank < roll->n; rank++) {
        const struct gyre_watch_state *state = &roll->entry[rank].state;
        if (belongs(state, finding->comm) && !joined(state, finding->comm, finding->sequence))
            add_rank(list, rank);
    }
    end_list(list);
}

/* "operation 7 (all_reduce f32 sum, 1000 elements)", as far as a rank says what it is. */
static void name_operation(const struct gyre_roll *roll, const struct gyre_roll_finding *finding,
                           char *out, size_t size)
{
    char signature[128], of[COMM_ROOM];

    name_comm(finding->comm, of);
    for (uint32_t rank = 0; rank < roll->n; rank++) {
        const struct gyre_watch_state *state = &roll->entry[rank].state;
        if (state->comm != finding->comm || state->sequence != finding->sequence)
            continue;
        gyre_signature_text(signature, sizeof signature, state->signature, state->count);
        snprintf(out, size, "operation %" PRIu64 "%s (%s)", finding->sequence, of, signature);
        return;
    }
    snprintf(out, size, "operation %" PRIu64 "%s", finding->sequence, of);
}

static void tell_message_wait(const struct gyre_roll *roll, uint32_t rank, uint64_t waited,
                              struct gyre_roll_finding *finding)
{
    const struct gyre_watch_state *state = &roll->entry[rank].state;
    bool over = finding->verdict == GYRE_ROLL_TIMED_OUT;
    char signature[128];

    gyre_signature_text(signature, sizeof signature, state->signature, state->count);
    finding->rank = (uint32_t)(state->signature >> 32);
    snprintf(finding->text, sizeof finding->text,
             "rank %u has waited %" PRIu64 ".%" PRIu64 " s in %s%s; rank %u has not joined", rank,
             waited / GYRE_SECOND, waited % GYRE_SECOND / (100 * GYRE_MS), signature,
             over ? ", longer than its limit (GYRE_TIMEOUT)" : "", finding->rank);
}

/* Returns how many are missing. */
static uint32_t tell_wait(const struct gyre_roll *roll, uint32_t rank, uint64_t waited,
                          struct gyre_roll_finding *finding)
{
    bool over = finding->verdict == GYRE_ROLL_TIMED_OUT;
    char operation[192];
    struct list missing;

    if (finding->comm == GYRE_WATCH_PAIRS) {
        tell_message_wait(roll, rank, waited, finding);
        return 1;
    }
    name_operation(roll, finding, operation, sizeof operation);
    list_missing(roll, finding, &missing);
    finding->rank = missing.count == 1 ? missing.first : NOBODY;
    int used = snprintf(finding->text, sizeof finding->text,
                        "%s: rank %u has waited %" PRIu64 ".%" PRIu64 " s%s", operation, rank,
                        waited / GYRE_SECOND, waited % GYRE_SECOND / (100 * GYRE_MS),
                        over ? ", longer than its limit (GYRE_TIMEOUT)" : "");
    char *rest = finding->text + used;
    size_t room = sizeof finding->text - (size_t)used;
    if (missing.count == 0)
        snprintf(rest, room, "; all ranks have joined and still exchange data");
    else
        snprintf(rest, room, "; rank%s %s ha%s not joined", missing.count > 1 ? "s" : "",
                 missing.text, missing.count > 1 ? "ve" : "s");
    return missing.count;
}

static bool warned_already(const struct gyre_roll *roll, const struct gyre_roll_finding *finding)
{
    return roll->warned_comm == finding->comm && roll->warned_sequence == finding->sequence;
}

static void find_wait(struct gyre_roll *roll, uint64_t clock, struct gyre_roll_finding *finding)
{
    uint32_t rank = longest_waiting(roll);

    if (rank == NOBODY)
        return;
    const struct entry *entry = &roll->entry[rank];
    uint64_t waited = clock - entry->since;
    finding->comm = entry->state.comm;
    finding->sequence = entry->state.finished + 1;
    if (roll->limit.timeout_ns > 0 && waited >= roll->limit.timeout_ns) {
        finding->verdict = GYRE_ROLL_TIMED_OUT;
        tell_wait(roll, rank, waited, finding);
    } else if (waited >= roll->limit.patience_ns && !warned_already(roll, finding)) {
        if (tell_wait(roll, rank, waited, finding) == 0)
            return;
        finding->verdict = GYRE_ROLL_SLOW;
        roll->warned_comm = finding->comm;
        roll->warned_sequence = finding->sequence;
    }
}

void gyre_roll_call(struct gyre_roll *roll, uint64_t clock, struct gyre_roll_finding *finding)
{
    *finding = (struct gyre_roll_finding){.verdict = GYRE_ROLL_FINE, .rank = NOBODY};
    if (!roll->changed && clock < roll->next_look)
        return;
    roll->changed = false;
    roll->next_look = clock + roll->look;
    bool differ = find_mismatch(roll, finding) || find_departed(roll, finding) ||
                  find_left(roll, finding) || find_refused(roll, clock, finding) ||
                  find_standstill(roll, clock, finding);
    if (!differ)
        find_wait(roll, clock, finding);
}
