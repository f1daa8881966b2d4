/* Words in the inboxes of a mesh, written and read by the host, and described for streams.
 *
 * Tested by tests/program/cuda/alone/push.c. */
#include "collectives/mapped/device/words.h"

#include "base/clock.h"
#include "base/log.h"

#include <sched.h>
#include <stddef.h>

#define PASS_NS UINT64_C(2000000000) /* that streams are waited for */

static _Atomic uint64_t *word_at(const struct gyre_mesh *mesh, uint32_t inbox,
                                 enum gyre_inbox_word word, uint32_t writer, uint64_t turn)
{
    return &mesh->inbox[inbox]->word[word][writer][turn % GYRE_BOARD_SLOTS];
}

/* -- locking ----------------------------------------------------------------------------------- */

static int lock_inbox(const struct gyre_mesh *mesh, uint32_t rank, struct gyre_trouble *trouble)
{
    const struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    return fold_queue->device->pin(fold_queue->index, mesh->inbox[rank],
                                   offsetof(struct gyre_inbox, stage), trouble);
}

static void unlock_inbox(const struct gyre_mesh *mesh, uint32_t rank)
{
    const struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    fold_queue->device->unpin(fold_queue->index, mesh->inbox[rank]);
}

/* Gives up a peer's inbox that was kept. */
static void drop_view(struct gyre_mesh *mesh, uint32_t rank)
{
    gyre_device_of(GYRE_MEMORY_HOST)->unimport(&mesh->view[rank]);
    mesh->view[rank] = (struct gyre_region){0};
    mesh->inbox[rank] = NULL;
}

/* Unlocks the inboxes of the ranks before `end`. */
static void unlock_before(struct gyre_mesh *mesh, uint32_t end)
{
    for (uint32_t rank = 0; rank < end; rank++)
        unlock_inbox(mesh, rank);
}

/* Takes peers' inboxes from the domain: a peer may withdraw its own while a stream writes there. */
static bool keep_views(struct gyre_mesh *mesh)
{
    bool kept = true;
    for (uint32_t rank = 0; rank < mesh->n && kept; rank++)
        if (rank != mesh->rank)
            kept = gyre_domain_take_view(mesh->domain, gyre_mesh_world(mesh, rank),
                                         mesh->inbox_of[rank], &mesh->view[rank]);
    return kept;
}

/* In a quiet moment: to lock memory may wait for a device. */
static void lock_all(struct gyre_mesh *mesh)
{
    struct gyre_trouble trouble = {0};
    bool locked = mesh->all_devices && keep_views(mesh);
    for (uint32_t rank = 0; rank < mesh->n && locked; rank++) {
        locked = lock_inbox(mesh, rank, &trouble) == 0;
        if (!locked)
            unlock_before(mesh, rank);
    }
    if (trouble.status)
        gyre_log(GYRE_LOG_INFO, "streams wait for the host in each operation: %s", trouble.text);
    mesh->words_locked = locked;
    mesh->words_refused = !locked;
}

bool gyre_words_lock(struct gyre_mesh *mesh)
{
    const struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    if (mesh->words_locked || mesh->words_refused || !fold_queue ||
        gyre_fold_queue_busy(fold_queue) || !gyre_quiet_begin())
        return mesh->words_locked;
    lock_all(mesh);
    gyre_quiet_end();
    return mesh->words_locked;
}

/* Whether no stream writes or awaits words any more. Every operation has ended, so a stream passes
 * as soon as what stood before its operation is done. */
static bool await_streams(const struct gyre_mesh *mesh)
{
    const uint64_t limit = gyre_now_ns() + PASS_NS;
    bool passed = true;
    for (uint32_t slot = 0; slot < GYRE_BOARD_SLOTS; slot++) {
        while (!gyre_words_are_free(mesh, slot) && !mesh->mirrors->fold_queue->status &&
               gyre_now_ns() < limit)
            sched_yield();
        passed &= gyre_words_are_free(mesh, slot);
    }
    return passed;
}

void gyre_words_drop(struct gyre_mesh *mesh)
{
    bool idle = await_streams(mesh) && !mesh->captured_count; /* a graph may still be launched */
    if (mesh->words_locked && !(idle && gyre_quiet_begin())) {
        gyre_domain_forsake(mesh->domain, mesh->inbox[mesh->rank]);
    } else {
        unlock_before(mesh, mesh->words_locked ? mesh->n : 0);
        for (uint32_t rank = 0; rank < mesh->n; rank++)
            if (mesh->view[rank].base)
                drop_view(mesh, rank);
        if (mesh->words_locked)
            gyre_quiet_end();
    }
    mesh->words_locked = false;
    mesh->words_refused = true;
}

/* -- by the host ------------------------------------------------------------------------------- */

void gyre_words_tell(struct gyre_mesh *mesh, enum gyre_inbox_word word, uint64_t turn)
{
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        if (rank != mesh->rank)
            atomic_store_explicit(word_at(mesh, rank, word, mesh->rank, turn), turn,
                                  memory_order_release);
}

static bool has_come(uint64_t value, uint64_t turn)
{
    return (int64_t)(value - turn) >= 0;
}

bool gyre_words_came(const struct gyre_mesh *mesh, enum gyre_inbox_word word, uint32_t rank,
                     uint64_t turn)
{
    return has_come(atomic_load(word_at(mesh, mesh->rank, word, rank, turn)), turn);
}

uint32_t gyre_words_wait_on(const struct gyre_mesh *mesh, enum gyre_inbox_word word, uint64_t turn)
{
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        if (rank != mesh->rank && !gyre_words_came(mesh, word, rank, turn))
            return gyre_mesh_world(mesh, rank);
    return GYRE_RECORD_NOBODY;
}

/* Writes a word that has not come. Its writer may write meanwhile, this turn or a later one. */
static void fill_word(_Atomic uint64_t *word, uint64_t turn)
{
    uint64_t seen = atomic_load(word);
    while (!has_come(seen, turn) && !atomic_compare_exchange_weak(word, &seen, turn))
        continue;
}

void gyre_words_stand_in(const struct gyre_mesh *mesh, enum gyre_inbox_word word, uint32_t rank,
                         uint64_t turn)
{
    fill_word(word_at(mesh, mesh->rank, word, rank, turn), turn);
}

void gyre_words_fill(struct gyre_mesh *mesh, uint64_t turn)
{
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        for (int word = 0; word < GYRE_INBOX_WORDS && rank != mesh->rank; word++)
            gyre_words_stand_in(mesh, (enum gyre_inbox_word)word, rank, turn);
}

/* -- by streams -------------------------------------------------------------------------------- */

/* The words of a turn, or of an operation in a graph. */
struct words_of {
    bool graph;
    uint64_t number;
};

static _Atomic uint64_t *find_word(const struct gyre_mesh *mesh, uint32_t inbox,
                                   enum gyre_inbox_word word, uint32_t writer, struct words_of of)
{
    return of.graph ? &mesh->inbox[inbox]->captured[of.number].word[word][writer]
                    : word_at(mesh, inbox, word, writer, of.number);
}

/* Lists what a stream writes into the inbox of each peer, or awaits of each in its own rank's; of
 * those `ranks`, as bits. */
static uint32_t list_words(const struct gyre_mesh *mesh, enum gyre_inbox_word word,
                           struct words_of of, bool tells, uint64_t ranks,
                           struct gyre_stream_word *list)
{
    const uint32_t own = mesh->rank;
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        if (rank != own && ranks >> rank & 1)
            list[count++] = (struct gyre_stream_word){
                find_word(mesh, tells ? rank : own, word, tells ? own : rank, of),
                of.graph ? 1 : of.number, tells};
    return count;
}

uint32_t gyre_words_to_tell(const struct gyre_mesh *mesh, enum gyre_inbox_word word, uint64_t turn,
                            struct gyre_stream_word *list)
{
    return list_words(mesh, word, (struct words_of){false, turn}, true, GYRE_WORDS_OF_ALL, list);
}

uint32_t gyre_words_to_await(const struct gyre_mesh *mesh, enum gyre_inbox_word word, uint64_t turn,
                             uint64_t ranks, struct gyre_stream_word *list)
{
    return list_words(mesh, word, (struct words_of){false, turn}, false, ranks, list);
}

/* -- of a graph -------------------------------------------------------------------------------- */

uint32_t gyre_words_to_tell_captured(const struct gyre_mesh *mesh, enum gyre_inbox_word word,
                                     uint32_t number, struct gyre_stream_word *list)
{
    return list_words(mesh, word, (struct words_of){true, number}, true, GYRE_WORDS_OF_ALL, list);
}

uint32_t gyre_words_to_await_captured(const struct gyre_mesh *mesh, enum gyre_inbox_word word,
                                      uint32_t number, struct gyre_stream_word *list)
{
    return list_words(mesh, word, (struct words_of){true, number}, false, GYRE_WORDS_OF_ALL, list);
}

bool gyre_words_come_captured(const struct gyre_mesh *mesh, enum gyre_inbox_word word,
                              uint32_t number)
{
    bool come = true;
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        come &= rank == mesh->rank ||
                atomic_load(&mesh->inbox[mesh->rank]->captured[number].word[word][rank]);
    return come;
}

void gyre_words_fill_captured(struct gyre_mesh *mesh, uint32_t number)
{
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        for (int word = 0; word < GYRE_INBOX_WORDS && rank != mesh->rank; word++)
            atomic_store(&mesh->inbox[mesh->rank]->captured[number].word[word][rank], 1);
}
