/* A nemesis of ranks: random SIGKILLs and SIGSTOPs.
 *
 *     kills [--kills N] [--seed S] [--job I]
 *
 * Kills at least N ranks (default 12), in as many jobs as that takes. --job runs one job of the
 * seed. Skips nothing: where no namespaces can be made, only what jobs leave behind is not looked
 * for. */
#include "nemesis/hunt.h"
#include "nemesis/room.h"

int main(int argc, char **argv)
{
    static struct tally killed = {.what = "from SIGKILL to a survivor's error"},
                        silent = {.what = "from SIGSTOP to a survivor's error"};
    struct hunt hunt = {.seed = tally_seed(argc, argv), .killed = &killed, .silent = &silent};
    uint64_t kills = tally_option(argc, argv, "--kills", 12);
    uint64_t one = tally_option(argc, argv, "--job", UINT64_MAX);
    hunt.private = room_enter();
    if (one != UINT64_MAX)
        hunt_job(&hunt, one);
    for (uint64_t i = 0; one == UINT64_MAX && (uint64_t)hunt.kills < kills; i++)
        hunt_job(&hunt, i);
    hunt_print(&hunt);
    return hunt.bad != 0;
}
