/* How long does gyre_barrier() take?
 *
 * There are no data, so the table has one row of size 0 and a time. What is checked is that nobody
 * leaves before everybody has come: in each checked call another rank comes late, and no rank's
 * clock may say on leaving less than the last one's said on coming. Ranks of several machines have
 * several clocks, and then nothing is checked.
 *
 *     rank 0   comes ·······················│ leaves
 *     rank 1          comes ················│ leaves       latest coming <= earliest leaving
 *     rank 2   (late)                 comes │   leaves */
#include "harness/together.h"

#include <string.h>
#include <unistd.h>

#define LATE_US 2000

static int call_barrier(struct gyre_comm *comm, const struct bench_call *call)
{
    (void)call;
    return gyre_barrier(comm);
}

static bool one_clock(const struct bench *bench)
{
    for (int rank = 1; rank < bench->n; rank++) {
        if (strcmp(bench->place[rank].host, bench->place[0].host) != 0) {
            return false;
        }
    }
    return true;
}

/* Faults on purpose: a rank that leaves before it comes, or that tells when it left last time. */
static double left_at(const struct bench *bench, double came, double left)
{
    static double before;
    enum bench_plant plant = bench->options.plant;
    double stale = before;
    before = left;
    return bench->rank > 0                ? left
           : plant == BENCH_PLANT_ELEMENT ? came - 1
           : plant == BENCH_PLANT_STALE   ? stale
                                          : left;
}

static uint64_t check(struct bench *bench)
{
    bench_together(bench);
    if (bench->iteration % (uint64_t)bench->n == (uint64_t)bench->rank) {
        usleep(LATE_US);
    }
    double came = bench_now_us();
    bench_must(bench, gyre_barrier(bench->comm), "gyre_barrier");
    double left = left_at(bench, came, bench_now_us());
    double last = bench_agree(bench, came, GYRE_MAX);
    return one_clock(bench) && left < last;
}

static double bus_factor(int n)
{
    (void)n;
    return 0;
}

const struct bench_verb bench_verb = {
    .name = "gyre_barrier",
    .only_out_of_place = true,
    .size = BENCH_SIZE_NONE,
    .call = call_barrier,
    .bus_factor = bus_factor,
    .check = check,
};
