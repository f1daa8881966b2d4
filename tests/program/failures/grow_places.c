/* Processes join at places of many kinds: of a job that began with one rank, of groups that met in
 * a store or a folder, and of parts made by gyre_split_apart(). */
#include "program/job/store_rig.h"
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT 20000

/* Where members and newcomers find each other; without all three it is MASTER_ADDR. */
struct place {
    int members, newcomers;
    const char *transport;
    bool part;       /* members are a part of a job, and name the place by gyre_open() */
    bool loses_root; /* rank 0 ends before anybody comes */
    bool torchrun;   /* all have its variables, by which its agent holds the place's first port */
    struct store_table *table;
    char folder[64];
    struct gyre_store store;
};

static struct gyre_options options_of(struct place *place)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    if (place->table) {
        place->store = store_of(place->table);
        options.store = &place->store;
        options.job = "growing";
    } else if (place->folder[0]) {
        options.root = place->folder;
    }
    if (place->table || place->folder[0])
        unsetenv("GYRE_KEY"); /* the place has one */
    options.join_timeout_ms = 60000 * rig_slow();
    return options;
}

static int64_t sum_all(struct gyre_comm *comm, int64_t *data)
{
    for (int i = 0; i < COUNT; i++)
        data[i] = INT64_C(1) << gyre_rank(comm);
    int status = gyre_all_reduce(comm, data, data, COUNT, GYRE_I64, GYRE_SUM);
    for (int i = 0; i < COUNT && !status; i++)
        if (data[i] != (INT64_C(1) << gyre_size(comm)) - 1)
            return -EIO;
    return status;
}

/* Sums and grows until all are there, in memory that goes along. */
static int grow_up(struct gyre_comm *comm, int goal)
{
    struct gyre_comm *larger;
    void *memory;
    int status = gyre_alloc(comm, COUNT * sizeof(int64_t), &memory);
    while (!status && !(status = (int)sum_all(comm, memory)) && gyre_size(comm) < goal) {
        status = gyre_grow(comm, goal - gyre_size(comm), &larger);
        if (!status && larger) {
            gyre_finalize(comm);
            comm = larger;
        }
    }
    if (status || gyre_free(comm, memory))
        return rig_check(false, comm, gyre_error(NULL));
    return gyre_finalize(comm);
}

/* Makes the part, and ends the job that it is of: a part outlives it. */
static int become_part(struct gyre_comm **comm, struct place *place)
{
    struct gyre_comm *whole = *comm;
    struct gyre_options options = options_of(place);
    struct gyre_comm *larger;
    int bad = rig_check(!gyre_split_apart(whole, 0, 0, comm), whole, "split apart");
    bad = bad || gyre_finalize(whole);
    bad = bad || rig_check(gyre_grow(*comm, 1, &larger) == GYRE_UNSUPPORTED &&
                               strstr(gyre_error(NULL), "gyre_open()"),
                           *comm, "a part has no place");
    return bad || rig_check(!gyre_open(*comm, &options), *comm, "open");
}

static int lose_root(struct gyre_comm **comm, const struct rig *rig)
{
    struct gyre_comm *smaller;
    int32_t value = 1;
    const struct place *place = rig->argument;
    if (gyre_rank(*comm) == 0) {
        rig_until(&rig->shared->ready, place->members - 1); /* all others are here */
        raise(SIGKILL);
    }
    rig->shared->ready++;
    while (!gyre_all_reduce(*comm, &value, &value, 1, GYRE_I32, GYRE_MAX))
        ;
    if (gyre_shrink(*comm, &smaller))
        return rig_check(false, *comm, "shrink");
    gyre_finalize(*comm);
    *comm = smaller;
    return 0;
}

static void set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

/* What torchrun tells its ranks. A newcomer has the variables of a rank that was lost. */
static void be_under_torchrun(const struct place *place)
{
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    setenv("RANK", "0", 0);
    set_number("WORLD_SIZE", place->members);
    set_number("LOCAL_WORLD_SIZE", place->members);
}

static int live(struct rig *rig, int me)
{
    struct place *place = rig->argument;
    struct gyre_comm *comm;
    struct gyre_options options = options_of(place);
    const bool member = me < place->members;
    static const char *const ranks[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
    for (int i = 0; i < 4 && !member; i++)
        unsetenv(ranks[i]);
    if (place->torchrun)
        be_under_torchrun(place);
    if (member) {
        set_number("WORLD_SIZE", place->members);
        set_number("LOCAL_WORLD_SIZE", place->members);
    }
    int status = !member       ? gyre_join(&comm, &options)
                 : place->part ? gyre_init(&comm, NULL)
                               : gyre_init(&comm, &options);
    if (status)
        return rig_check(false, NULL, gyre_error(NULL));
    int bad = member && place->part && become_part(&comm, place);
    if (!bad && member && place->loses_root)
        bad = lose_root(&comm, rig);
    return bad || grow_up(comm, place->members + place->newcomers - place->loses_root);
}

static void grow_at(struct place *place)
{
    struct rig rig = {.n = place->members + place->newcomers,
                      .transport = place->transport,
                      .process = live,
                      .argument = place};
    print_message("%s, %s%s, %d and %d\n", place->transport,
                  place->table       ? "store"
                  : place->folder[0] ? "folder"
                                     : "address",
                  place->part ? " of a part" : "", place->members, place->newcomers);
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 60, place->loses_root), 0);
    munmap(rig.shared, sizeof *rig.shared);
}

/* Grows where the places of all kinds are. */
static void grow_everywhere(struct place place)
{
    static const char *const transports[] = {"shm", "tcp"};
    for (int i = 0; i < 2; i++) {
        char folder[] = "/tmp/gyre-grow-XXXXXX";
        struct place in_store = place, in_folder = place;
        assert_non_null(mkdtemp(folder));
        in_folder.transport = in_store.transport = transports[i];
        in_store.table = store_table_make(STORE_GOOD);
        snprintf(in_folder.folder, sizeof in_folder.folder, "file://%s", folder);
        grow_at(&in_store);
        assert_int_equal(store_table_entries(in_store.table), 0);
        munmap(in_store.table, sizeof *in_store.table);
        grow_at(&in_folder);
        assert_int_equal(rmdir(folder), 0); /* nothing is left behind */
    }
}

static void a_job_of_one_grows(void **state)
{
    (void)state;
    grow_at(&(struct place){.members = 1, .newcomers = 1, .transport = "shm"});
    grow_at(&(struct place){.members = 1, .newcomers = 2, .transport = "tcp"});
    grow_everywhere((struct place){.members = 1, .newcomers = 2});
}

static void groups_of_a_store_grow(void **state)
{
    (void)state;
    grow_everywhere((struct place){.members = 2, .newcomers = 2});
    grow_everywhere((struct place){.members = 2, .newcomers = 1, .loses_root = true});
}

static void parts_grow_where_they_open(void **state)
{
    (void)state;
    grow_everywhere((struct place){.members = 2, .newcomers = 2, .part = true});
    grow_everywhere((struct place){.members = 3, .newcomers = 1, .part = true, .loses_root = true});
}

/* Without a store of the program's. torchrun itself ends all ranks when one is lost, so this is of
 * programs that are left alone by it, or come beside it. */
static void a_job_under_torchrun_grows(void **state)
{
    (void)state;
    grow_at(&(struct place){.members = 2, .newcomers = 1, .transport = "shm", .torchrun = true});
    grow_at(&(struct place){
        .members = 3, .newcomers = 2, .transport = "tcp", .torchrun = true, .loses_root = true});
}

/* Nothing says where newcomers could come. */
static void a_job_of_one_without_a_place_says_so(void **state)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    struct gyre_comm *comm, *larger;
    (void)state;
    options.rank = 0;
    options.world = 1;
    assert_int_equal(gyre_init(&comm, &options), 0);
    assert_int_equal(gyre_grow(comm, 1, &larger), GYRE_UNSUPPORTED);
    assert_null(larger);
    assert_non_null(strstr(gyre_error(NULL), "set MASTER_ADDR"));
    options.root = "nowhere";
    assert_int_equal(gyre_open(comm, &options), GYRE_INVALID);
    assert_non_null(strstr(gyre_error(NULL), "options.root"));
    assert_int_equal(gyre_grow(comm, -1, &larger), GYRE_INVALID);
    assert_int_equal(gyre_grow(comm, 1, NULL), GYRE_INVALID);
    assert_int_equal(gyre_open(NULL, NULL), GYRE_INVALID);
    assert_int_equal(gyre_barrier(comm), 0);
    assert_int_equal(gyre_finalize(comm), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_of_one_grows),
        cmocka_unit_test(groups_of_a_store_grow),
        cmocka_unit_test(a_job_under_torchrun_grows),
        cmocka_unit_test(parts_grow_where_they_open),
        cmocka_unit_test(a_job_of_one_without_a_place_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
