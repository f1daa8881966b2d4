/* The records by which ranks join: identities, failures, the division into nodes.
 *
 * Every function but gyre_identity_gather() works on bytes and structs alone, so tests and fuzzers
 * reach them. "One machine" means one running kernel (transport/job/boot.h).
 *
 * Tested by tests/unit/transport/join/identity_test.c and tests/program/job/join.c. */
#include "transport/join/identity.h"
#include "transport/job/boot.h"

#include "base/log.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const space_name[GYRE_JOIN_SPACES] = {"net", "user", "mnt", "pid"};
static const char *const space_word[GYRE_JOIN_SPACES] = {"network", "user", "mount", "process id"};

static uint64_t space_inode(const char *name)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    return stat(path, &info) ? 0 : info.st_ino;
}

/* Hashes the machine's boot id. A machine without one equals no other: its ranks use tcp among
 * themselves, which always works. */
static int hash_boot_id(uint8_t boot[16])
{
    char text[GYRE_BOOT_ID_TEXT];
    uint8_t digest[GYRE_DIGEST_BYTES];
    struct gyre_piece piece = {text, gyre_boot_id(text)};
    if (!piece.length)
        return gyre_random_bytes(boot, 16);
    int status = gyre_sha256(&piece, 1, digest);
    memcpy(boot, digest, 16);
    return status;
}

int gyre_identity_gather(const struct gyre_job *job, struct gyre_rank_identity *identity)
{
    memset(identity, 0, sizeof *identity);
    snprintf(identity->host, sizeof identity->host, "%s", gyre_host_name());
    identity->pid = getpid();
    identity->uid = geteuid();
    identity->simulated = job->simulated_node;
    for (int i = 0; i < GYRE_JOIN_SPACES; i++)
        identity->space[i] = space_inode(space_name[i]);
    int status = hash_boot_id(identity->boot);
    return status ? status : gyre_random_bytes(identity->door, sizeof identity->door);
}

size_t gyre_identity_bytes(void)
{
    return 64 + 4 + 4 + 16 + 8 * GYRE_JOIN_SPACES + 4 + 16 + 16 + 1 + GYRE_ADDRESS_BYTES;
}

void gyre_identity_put(struct gyre_cursor *cursor, const struct gyre_rank_identity *identity)
{
    gyre_put_bytes(cursor, identity->host, sizeof identity->host);
    gyre_put_u64(cursor, (uint32_t)identity->pid, 4);
    gyre_put_u64(cursor, identity->uid, 4);
    gyre_put_bytes(cursor, identity->boot, sizeof identity->boot);
    for (int i = 0; i < GYRE_JOIN_SPACES; i++)
        gyre_put_u64(cursor, identity->space[i], 8);
    gyre_put_u64(cursor, (uint32_t)identity->simulated, 4);
    gyre_put_bytes(cursor, identity->door, sizeof identity->door);
    gyre_put_bytes(cursor, identity->device, sizeof identity->device);
    gyre_put_u64(cursor, identity->channels, 1);
    gyre_address_put(cursor, &identity->outward);
}

void gyre_identity_get(struct gyre_cursor *cursor, struct gyre_rank_identity *identity)
{
    gyre_get_bytes(cursor, identity->host, sizeof identity->host);
    identity->host[sizeof identity->host - 1] = '\0';
    gyre_printable_line(identity->host);
    for (char *blank = identity->host; (blank = strchr(blank, ' '));)
        *blank = '?';
    identity->pid = (int32_t)gyre_get_u64(cursor, 4);
    identity->uid = (uint32_t)gyre_get_u64(cursor, 4);
    gyre_get_bytes(cursor, identity->boot, sizeof identity->boot);
    for (int i = 0; i < GYRE_JOIN_SPACES; i++)
        identity->space[i] = gyre_get_u64(cursor, 8);
    identity->simulated = (int32_t)gyre_get_u64(cursor, 4);
    gyre_get_bytes(cursor, identity->door, sizeof identity->door);
    gyre_get_bytes(cursor, identity->device, sizeof identity->device);
    identity->channels = (uint8_t)gyre_get_u64(cursor, 1);
    gyre_address_get(cursor, &identity->outward);
}

bool gyre_identity_one_machine(const struct gyre_rank_identity *a,
                               const struct gyre_rank_identity *b)
{
    return !memcmp(a->boot, b->boot, sizeof a->boot) && a->simulated == b->simulated;
}

void gyre_identity_difference(const struct gyre_rank_identity *a,
                              const struct gyre_rank_identity *b, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < GYRE_JOIN_SPACES && used < size; i++)
        if (a->space[i] != b->space[i])
            used += (size_t)snprintf(
                out + used, size - used, "%sanother %s namespace (%llu, %llu)", used ? ", " : "",
                space_word[i], (unsigned long long)a->space[i], (unsigned long long)b->space[i]);
    if (a->uid != b->uid && used < size)
        used += (size_t)snprintf(out + used, size - used, "%sanother user id (%u, %u)",
                                 used ? ", " : "", a->uid, b->uid);
    if (!used)
        snprintf(out, size, "same namespaces and user id");
}

/* -- stories ----------------------------------------------------------------------------------- */

size_t gyre_story_encode(const struct gyre_story *story, uint8_t out[GYRE_STORY_BYTES])
{
    struct gyre_cursor cursor = gyre_cursor_over(out, GYRE_STORY_BYTES);
    gyre_put_u64(&cursor, (uint32_t)story->status, 4);
    gyre_put_u64(&cursor, story->echo, 4);
    gyre_put_text(&cursor, story->text, sizeof story->text);
    return (size_t)(cursor.at - out);
}

int gyre_story_decode(const struct gyre_record *record, struct gyre_story *story)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    story->status = (int32_t)gyre_get_u64(&in, 4);
    story->echo = gyre_get_u64(&in, 4) != 0;
    gyre_get_text(&in, story->text, sizeof story->text);
    return in.bad || in.at != in.end || story->status >= 0 ? GYRE_CORRUPT : 0;
}

/* -- machines ---------------------------------------------------------------------------------- */

struct gyre_machine gyre_identity_machine(const struct gyre_rank_identity *identity, uint32_t n,
                                          uint32_t rank)
{
    struct gyre_machine machine = {.lowest = rank};
    for (uint32_t other = n; other-- > 0;)
        if (gyre_identity_one_machine(&identity[rank], &identity[other])) {
            machine.lowest = other;
            machine.ranks++;
        }
    return machine;
}

uint32_t gyre_identity_ranks_above(const struct gyre_rank_identity *identity, uint32_t n,
                                   uint32_t rank, uint32_t above[GYRE_JOIN_FLOORS])
{
    uint32_t place = 0, count = 0, at = 0;
    for (uint32_t other = 0; other < rank; other++)
        place += gyre_identity_one_machine(&identity[rank], &identity[other]);
    while (place > 0 && count < GYRE_JOIN_FLOORS)
        above[count++] = place = gyre_joined_above(place, GYRE_WATCH_FAN_OUT);
    uint32_t wanted = count;
    for (uint32_t other = 0; other < rank && wanted > 0; other++)
        if (gyre_identity_one_machine(&identity[rank], &identity[other]) &&
            at++ == above[wanted - 1])
            above[--wanted] = other; /* who has that place */
    return count;
}

/* Whether a rank shares memory with the lowest of its machine, or with a lower one that does: the
 * lowest's row has these already. */
static bool reaches_lowest(uint32_t n, uint32_t lowest, uint32_t rank, const uint8_t *share)
{
    for (uint32_t other = lowest; other < rank; other++)
        if (share[(size_t)rank * n + other] &&
            (other == lowest || share[(size_t)lowest * n + other]))
            return true;
    return false;
}

/* Takes a rank out of the matrix: it has no memory of the node. */
static void leave_alone(uint32_t n, uint32_t rank, uint8_t *share)
{
    for (uint32_t other = 0; other < n; other++)
        share[(size_t)rank * n + other] = share[(size_t)other * n + rank] = 0;
}

/* Completes the matrix for the ranks of one large machine. */
static void complete_machine(const struct gyre_rank_identity *identity, uint32_t n, uint32_t lowest,
                             uint8_t *share)
{
    uint8_t *with_lowest = share + (size_t)lowest * n;
    for (uint32_t a = lowest + 1; a < n; a++)
        if (reaches_lowest(n, lowest, a, share))
            with_lowest[a] = share[(size_t)a * n + lowest] = 1;
        else if (gyre_identity_one_machine(&identity[lowest], &identity[a]))
            leave_alone(n, a, share);
    for (uint32_t a = lowest + 1; a < n; a++)
        for (uint32_t b = lowest + 1; b < n && with_lowest[a]; b++)
            share[(size_t)a * n + b] = with_lowest[b] && a != b;
}

void gyre_nodes_share_by_lowest(const struct gyre_rank_identity *identity, uint32_t n,
                                uint32_t most, uint8_t *share)
{
    for (uint32_t rank = 0; rank < n; rank++) {
        const struct gyre_machine machine = gyre_identity_machine(identity, n, rank);
        if (machine.ranks > most && machine.lowest == rank)
            complete_machine(identity, n, rank, share);
    }
}

/* -- nodes ------------------------------------------------------------------------------------- */

static bool shares_with_all(uint32_t n, const uint8_t *share, const uint32_t *node, uint32_t rank,
                            uint32_t candidate)
{
    for (uint32_t member = 0; member < rank; member++)
        if (node[member] == candidate && !share[(size_t)rank * n + member])
            return false;
    return true;
}

static uint32_t find_node(uint32_t n, const uint8_t *share, const uint32_t *node, uint32_t rank,
                          uint32_t fresh)
{
    for (uint32_t member = 0; member < rank; member++)
        if (share[(size_t)rank * n + member] && shares_with_all(n, share, node, rank, node[member]))
            return node[member];
    return fresh;
}

uint32_t gyre_nodes_assign(uint32_t n, const uint8_t *share, uint32_t *node)
{
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < n; rank++) {
        node[rank] = find_node(n, share, node, rank, nodes);
        nodes += node[rank] == nodes;
    }
    return nodes;
}
