/* The user's key: where it is looked for, which files are trusted, and eight ranks that make one at
 * once. */
#include "transport/job/job.h"
#include "rig/clean_room.h"
#include "unit/transport/job/job_environments.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RACERS 8
#define ROUNDS 20

static char folder[64];

/* -- helpers ----------------------------------------------------------------------------------- */

static int make_folder(void **state)
{
    strcpy(folder, "/tmp/gyre-test-key-XXXXXX");
    return clean_room_make(folder);
}

static int remove_folder(void **state)
{
    return clean_room_remove(folder);
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t length, mode_t mode)
{
    int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), length);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

/* Two ranks, an address, and no key yet. */
static void no_key(void)
{
    environment_set("RANK=0\0WORLD_SIZE=2\0GYRE_ROOT=a:1\0");
    unsetenv("GYRE_KEY");
    setenv("HOME", folder, 1);
}

static int discover(struct gyre_job *job, struct gyre_trouble *trouble)
{
    trouble->status = 0;
    trouble->text[0] = '\0';
    return gyre_job_discover(NULL, job, trouble);
}

static void reference(struct gyre_job *job)
{
    struct gyre_trouble trouble = {0};
    environment_set("RANK=0\0WORLD_SIZE=2\0GYRE_ROOT=a:1\0GYRE_KEY=" KEY_A "\0");
    assert_int_equal(discover(job, &trouble), 0);
}

static void expect_key_a(void)
{
    struct gyre_job job, expected;
    struct gyre_trouble trouble;
    if (discover(&job, &trouble)) {
        fail_msg("%s", trouble.text);
    }
    reference(&expected);
    assert_memory_equal(job.key, expected.key, sizeof job.key);
    assert_memory_equal(job.key_id, expected.key_id, sizeof job.key_id);
}

static void expect_refusal(int status, const char *told)
{
    struct gyre_job job;
    struct gyre_trouble trouble;
    assert_int_equal(discover(&job, &trouble), status);
    if (!strstr(trouble.text, told)) {
        fail_msg("\"%s\" is not in \"%s\"", told, trouble.text);
    }
}

static void use_file(const char *name)
{
    no_key();
    setenv("GYRE_KEY_FILE", in_folder(name), 1);
}

/* -- files ------------------------------------------------------------------------------------- */

static void test_file_formats(void **state)
{
    uint8_t raw[32];
    for (uint8_t i = 0; i < 32; i++) {
        raw[i] = i;
    }
    write_file("hex", KEY_A, 64, 0600);
    use_file("hex");
    expect_key_a();
    write_file("line", KEY_A " \r\n", 67, 0400);
    use_file("line");
    expect_key_a();
    write_file("raw", raw, 32, 0600);
    use_file("raw");
    expect_key_a();
}

static void test_wrong_contents(void **state)
{
    static char large[5000];
    memset(large, 'a', sizeof large);
    write_file("short", KEY_A, 63, 0600);
    use_file("short");
    expect_refusal(GYRE_INVALID, "holds 63 bytes that are no key");
    write_file("empty", "", 0, 0600);
    use_file("empty");
    expect_refusal(GYRE_INVALID, "holds 0 bytes that are no key");
    write_file("long", large, sizeof large, 0600);
    use_file("long");
    expect_refusal(GYRE_INVALID, "expected 64 hexadecimal digits or 32 bytes");
    write_file("letters", "z" KEY_A, 64, 0600);
    use_file("letters");
    expect_refusal(GYRE_INVALID, "that are no key");
}

static void test_wrong_modes(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0660, 0602, 0610, 0601, 0777};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        char told[128];
        write_file("open", KEY_A, 64, modes[i]);
        use_file("open");
        snprintf(told, sizeof told, "mode %04o, so others can read or write it: chmod 600 %s",
                 (unsigned)modes[i], in_folder("open"));
        expect_refusal(GYRE_REFUSED, told);
    }
}

static void test_not_a_plain_file(void **state)
{
    write_file("hex", KEY_A, 64, 0600);
    assert_int_equal(symlink("hex", in_folder("link")), 0);
    use_file("link");
    expect_refusal(GYRE_REFUSED, "is a symbolic link");
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    use_file("fifo");
    expect_refusal(GYRE_REFUSED, "is not a regular file");
    assert_int_equal(mkdir(in_folder("folder"), 0700), 0);
    use_file("folder");
    expect_refusal(GYRE_REFUSED, "is not a regular file");
    use_file("absent");
    expect_refusal(GYRE_INVALID, "no such file; make it by");
}

static void test_another_owner(void **state)
{
    write_file("theirs", KEY_A, 64, 0600);
    if (chown(in_folder("theirs"), 65534, 65534) != 0) {
        print_message("skipped: only root can give a file away\n");
        skip();
    }
    use_file("theirs");
    expect_refusal(GYRE_REFUSED, "belongs to user 65534");
}

/* -- the file in the home directory ------------------------------------------------------------ */

static size_t files_in(const char *path)
{
    size_t count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        count += entry->d_name[0] != '.';
    }
    closedir(directory);
    return count;
}

static void test_home_file_is_made_once(void **state)
{
    struct stat file;
    struct gyre_job first, second;
    struct gyre_trouble trouble;
    no_key();
    assert_int_equal(discover(&first, &trouble), 0);
    assert_int_equal(discover(&second, &trouble), 0);
    assert_memory_equal(first.key, second.key, sizeof first.key);
    assert_int_equal(stat(in_folder(".config/gyre/key"), &file), 0);
    assert_int_equal(file.st_mode & 07777, 0600);
    assert_int_equal(file.st_size, 65);
    assert_int_equal(file.st_nlink, 1);
    assert_int_equal(stat(in_folder(".config/gyre"), &file), 0);
    assert_int_equal(file.st_mode & 07777, 0700);
    assert_int_equal(chmod(in_folder(".config/gyre/key"), 0644), 0);
    expect_refusal(GYRE_REFUSED, "chmod 600");
}

static void test_xdg_folder_wins(void **state)
{
    struct gyre_job job;
    struct gyre_trouble trouble;
    no_key();
    setenv("XDG_CONFIG_HOME", in_folder("xdg/deep"), 1);
    assert_int_equal(discover(&job, &trouble), 0);
    assert_int_equal(access(in_folder("xdg/deep/gyre/key"), R_OK), 0);
    assert_int_equal(access(in_folder(".config"), F_OK), -1);
}

static void test_no_folder_can_be_made(void **state)
{
    write_file("file", "", 0, 0600);
    no_key();
    setenv("HOME", in_folder("file"), 1);
    expect_refusal(GYRE_INVALID, "GYRE_KEY_FILE");
}

static void race(int start, int result)
{
    char byte;
    struct gyre_job job;
    struct gyre_trouble trouble;
    ssize_t got = read(start, &byte, 1); /* ends when the parent closes the other end */
    int status = got == 0 ? discover(&job, &trouble) : -1;
    bool told = status == 0 && write(result, job.key_id, sizeof job.key_id) == sizeof job.key_id;
    _exit(told ? 0 : 1);
}

static void run_race(void)
{
    int start[2], result[2];
    uint8_t ids[RACERS][8];
    assert_int_equal(pipe(start), 0);
    assert_int_equal(pipe(result), 0);
    no_key();
    for (int i = 0; i < RACERS; i++) {
        if (fork() == 0) {
            close(start[1]);
            race(start[0], result[1]);
        }
    }
    close(start[0]);
    close(start[1]);
    for (int i = 0; i < RACERS; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(read(result[0], ids, sizeof ids), sizeof ids);
    for (int i = 1; i < RACERS; i++) {
        assert_memory_equal(ids[0], ids[i], sizeof ids[0]);
    }
    close(result[0]);
    close(result[1]);
}

static void test_eight_ranks_make_one_key(void **state)
{
    for (int round = 0; round < ROUNDS; round++) {
        run_race();
        assert_int_equal(files_in(in_folder(".config/gyre")), 1);
        assert_int_equal(unlink(in_folder(".config/gyre/key")), 0);
    }
}

static void test_world_of_one_touches_no_file(void **state)
{
    struct gyre_job job;
    struct gyre_trouble trouble;
    no_key();
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    setenv("GYRE_KEY_FILE", "/nonexistent/key", 1);
    assert_int_equal(discover(&job, &trouble), 0);
    assert_int_equal(files_in(folder), 0);
    assert_int_equal(access(in_folder(".config"), F_OK), -1);
}

static void test_root_file_lies_beside_the_key(void **state)
{
    struct gyre_job job;
    struct gyre_trouble trouble;
    char expected[128];
    write_file("hex", KEY_A, 64, 0600);
    environment_set(OPEN_MPI("0", "0", "77", "x"));
    unsetenv("GYRE_KEY");
    setenv("GYRE_KEY_FILE", in_folder("hex"), 1);
    assert_int_equal(discover(&job, &trouble), 0);
    snprintf(expected, sizeof expected, "%s/root-", folder);
    assert_int_equal(job.root_kind, GYRE_ROOT_FILE);
    assert_memory_equal(job.root_file, expected, strlen(expected));
    assert_int_equal(strlen(job.root_file), strlen(expected) + 32);
    assert_int_equal(files_in(folder), 1);
}

/* -- the launcher's descriptor ----------------------------------------------------------------- */

static int use_descriptor(const char *bytes, size_t length)
{
    int ends[2];
    char number[16];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], bytes, length), length);
    close(ends[1]);
    no_key();
    setenv("GYRE_KEY", KEY_B, 1); /* the descriptor goes first */
    snprintf(number, sizeof number, "%d", ends[0]);
    setenv("GYRE_KEY_FD", number, 1);
    return ends[0];
}

static void test_wrong_descriptors(void **state)
{
    int fd = use_descriptor("short", 5);
    expect_refusal(GYRE_INVALID, "(GYRE_KEY_FD) holds 5 bytes that are no key");
    close(fd);
    expect_refusal(GYRE_INVALID, "Bad file descriptor");
    setenv("GYRE_KEY_FD", "seven", 1);
    expect_refusal(GYRE_INVALID, "GYRE_KEY_FD is \"seven\"");
}

static void test_descriptor_is_read_once_and_closed(void **state)
{
    int fd = use_descriptor(KEY_A, 64);
    struct gyre_job first, second;
    struct gyre_trouble trouble;
    assert_int_equal(discover(&first, &trouble), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(discover(&second, &trouble), 0);
    assert_memory_equal(first.key, second.key, sizeof first.key);
    expect_key_a();
}

/* -- a look ------------------------------------------------------------------------------------ */

static struct gyre_key_place look(enum gyre_key_origin origin)
{
    struct gyre_key_place place;
    struct gyre_trouble trouble = {0};
    if (gyre_job_find_key(&place, &trouble)) {
        fail_msg("%s", trouble.text);
    }
    assert_int_equal(place.origin, origin);
    return place;
}

/* What a launcher reads for its ranks is what they would read, also where there is one only. */
static void test_the_users_key_is_that_of_its_ranks(void **state)
{
    static const char digits[] =
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
    struct gyre_trouble trouble = {0};
    uint8_t key[32], again[32];
    no_key();
    setenv("WORLD_SIZE", "1", 1);
    assert_int_equal(gyre_job_user_key(key, &trouble), 0);
    assert_int_equal(gyre_job_user_key(again, &trouble), 0); /* the file has been made */
    assert_memory_equal(key, again, sizeof key);
    write_file("own", digits, sizeof digits - 1, 0600);
    setenv("GYRE_KEY_FILE", in_folder("own"), 1);
    assert_int_equal(gyre_job_user_key(key, &trouble), 0);
    for (int i = 0; i < 32; i++)
        assert_int_equal(key[i], i);
    setenv("GYRE_KEY", "short", 1);
    assert_int_equal(gyre_job_user_key(key, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "GYRE_KEY"));
    unsetenv("GYRE_KEY");
    unsetenv("GYRE_KEY_FILE");
}

static void test_a_look_makes_nothing(void **state)
{
    static const uint8_t nobody[8];
    char path[128];
    no_key();
    snprintf(path, sizeof path, "%s", in_folder(".config/gyre/key"));
    struct gyre_key_place place = look(GYRE_KEY_TO_MAKE);
    assert_string_equal(place.path, path);
    assert_memory_equal(place.key_id, nobody, 8);
    assert_int_equal(access(in_folder(".config"), F_OK), -1);
    setenv("GYRE_AUTH", "none", 1);
    look(GYRE_KEY_UNWANTED);
}

/* Every place tells the same key by the same name, which is that of a job's ranks. */
static void test_a_look_names_the_key(void **state)
{
    struct gyre_job expected;
    reference(&expected);
    struct gyre_key_place place = look(GYRE_KEY_VARIABLE);
    assert_memory_equal(place.key_id, expected.key_id, 8);
    write_file("hex", KEY_A, 64, 0600);
    use_file("hex");
    place = look(GYRE_KEY_FILE);
    assert_string_equal(place.path, in_folder("hex"));
    assert_memory_equal(place.key_id, expected.key_id, 8);
    use_descriptor(KEY_A, 64);
    place = look(GYRE_KEY_LAUNCHED);
    assert_memory_equal(place.key_id, expected.key_id, 8);
    expect_key_a(); /* the descriptor is spent, and a rank knows the key all the same */
}

static void test_a_look_refuses_what_ranks_refuse(void **state)
{
    struct gyre_key_place place;
    struct gyre_trouble trouble = {0};
    use_file("none");
    assert_int_equal(gyre_job_find_key(&place, &trouble), GYRE_INVALID);
    write_file("open", KEY_A, 64, 0644);
    use_file("open");
    trouble.status = 0;
    assert_int_equal(gyre_job_find_key(&place, &trouble), GYRE_REFUSED);
    assert_non_null(strstr(trouble.text, "chmod 600"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file_formats, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_wrong_contents, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_wrong_modes, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_not_a_plain_file, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_another_owner, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_home_file_is_made_once, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_xdg_folder_wins, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_no_folder_can_be_made, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_eight_ranks_make_one_key, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_world_of_one_touches_no_file, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_root_file_lies_beside_the_key, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_wrong_descriptors, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_descriptor_is_read_once_and_closed, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_the_users_key_is_that_of_its_ranks, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_look_makes_nothing, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_look_names_the_key, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_look_refuses_what_ranks_refuse, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests_name("job_key", tests, NULL, NULL);
}
