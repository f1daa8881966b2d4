/* A nemesis of trainings under their launcher: a rank, all ranks or the launcher are killed at
 * drawn moments, many of them within a save, and the run is started again with --resume; and a disk
 * fills while checkpoints are saved. The model in the end has the bits of a run that nobody hurt.
 *
 *     torn [--kills N] [--seed S]
 *
 * Kills N times (default 2). Skips the full disk where a small file system cannot be mounted. */
#include "nemesis/tally.h"
#include "rig/test.h"
#include "rig/train_rig.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define LONGEST 700000000 /* ns until a kill */

static struct gyre_rng rng;
static uint64_t seed, kills;

static void train_words(const char *words[], const char *save)
{
    const char *all[] = {"train", "--preset", "wine",    "--layers", "13,64,3", "--ranks",
                         "2",     "--epochs", "60",      "--save",   save,      "--save-every",
                         "2",     "--resume", "--quiet", NULL};
    memcpy(words, all, sizeof all);
}

static void train_to_the_end(const char *save)
{
    const char *words[16];
    train_words(words, save);
    expect_success(words);
}

/* Process ids of the ranks; how many. */
static int find_ranks(pid_t launcher, pid_t pid[8])
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)launcher, (int)launcher);
    FILE *file = fopen(path, "r");
    while (file && count < 8 && fscanf(file, "%d", &pid[count]) == 1)
        count++;
    if (file)
        fclose(file);
    return count;
}

static void kill_something(void)
{
    pid_t pid[8];
    int ranks = find_ranks(rig.pid, pid), what = (int)gyre_rng_below(&rng, 3);
    if (what == 0 || ranks == 0)
        kill(rig.pid, SIGKILL);
    else if (what == 1)
        kill(pid[gyre_rng_below(&rng, (uint64_t)ranks)], SIGKILL);
    for (int i = 0; what == 2 && i < ranks; i++)
        kill(pid[i], SIGKILL);
}

static void a_torn_training_has_the_same_bits(void **state)
{
    const char *words[16];
    char whole[1024];
    int hurt = 0;
    (void)state;
    clean();
    train_to_the_end(in_folder("whole"));
    snprintf(whole, sizeof whole, "%s", saved_model(in_folder("whole")));
    for (uint64_t i = 0; i < kills; i++) {
        train_words(words, in_folder("torn"));
        rig_start(&rig, words);
        tally_pause(gyre_rng_below(&rng, LONGEST));
        kill_something();
        rig_wait_end(&rig);
        rig_wait_lifeless(&rig);
        hurt += rig.code != 0;
        rig_end(&rig);
    }
    train_to_the_end(in_folder("torn"));
    compare_files(whole, saved_model(in_folder("torn")));
    print_message("%d of %d trainings were killed before they ended\n", hurt, (int)kills);
}

static void a_full_disk_keeps_the_checkpoint_before(void **state)
{
    const char *words[16];
    char whole[1024], disk[600];
    (void)state;
    clean();
    snprintf(disk, sizeof disk, "%s", in_folder("disk"));
    mkdir(disk, 0700);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", disk, "tmpfs", 0, "size=48k")) {
        print_message("skipped: no file system can be mounted here\n");
        skip();
    }
    train_to_the_end(in_folder("whole"));
    snprintf(whole, sizeof whole, "%s", saved_model(in_folder("whole")));
    train_words(words, in_folder("disk/save"));
    rig_run(&rig, NULL, words);
    if (rig.code == 0 || !rig_has(rig.err_text, "No space left on device"))
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    assert_int_equal(mount("tmpfs", disk, "tmpfs", MS_REMOUNT, "size=64m"), 0);
    gyre_safetensors_close(open_tensors(saved_model(in_folder("disk/save"))));
    train_to_the_end(in_folder("disk/save"));
    compare_files(whole, saved_model(in_folder("disk/save")));
    umount2(disk, MNT_DETACH);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_torn_training_has_the_same_bits),
        cmocka_unit_test(a_full_disk_keeps_the_checkpoint_before),
    };
    seed = tally_seed(argc, argv);
    kills = tally_option(argc, argv, "--kills", 2);
    gyre_rng_seed(&rng, seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
