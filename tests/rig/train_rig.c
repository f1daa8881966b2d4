/* The rig of gyre train's tests: see train_rig.h. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rig rig;

/* -- files ------------------------------------------------------------------------------------- */

const char *golden(const char *name)
{
    static char path[4][512];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/golden/%s", GYRE_TEST_DATA, name);
    return path[next];
}

/* This program is <build>/tests/proc_train; the tool is <build>/gyre. */
const char *in_folder(const char *name)
{
    static char path[4][512];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", rig_folder(), name);
    return path[next];
}

char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 22);
    if (!file || !text || !fread(text, 1, (1 << 22) - 1, file))
        fail_msg("%s cannot be read", path);
    fclose(file);
    return text;
}

void write_lines(const char *path, const char *lines)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(lines, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* An IDX file of bytes, from a function of the place. */
static void write_idx(const char *path, const unsigned *size, int dims,
                      unsigned char (*at)(unsigned))
{
    FILE *file = fopen(path, "w");
    unsigned bytes = 1;
    assert_non_null(file);
    fprintf(file, "%c%c%c%c", 0, 0, 8, dims);
    for (int d = 0; d < dims; bytes *= size[d++])
        fprintf(file, "%c%c%c%c", size[d] >> 24, size[d] >> 16 & 255, size[d] >> 8 & 255,
                size[d] & 255);
    for (unsigned i = 0; i < bytes; i++)
        fputc(at(i), file);
    assert_int_equal(fclose(file), 0);
}

static unsigned char digit(unsigned image)
{
    return (unsigned char)(image * 7 % 10);
}

/* A bright row for each digit, on noise. */
static unsigned char pixel(unsigned i)
{
    unsigned row = i / 28 % 28, noise = (i * 2654435761u) >> 27;
    return (unsigned char)(row / 2 == 2u + digit(i / 784) ? 220 + noise : noise);
}

void write_digits(const char *images, const char *labels, unsigned count)
{
    const unsigned size[] = {count, 28, 28};
    write_idx(images, size, 3, pixel);
    write_idx(labels, size, 1, digit);
}

void compare_files(const char *a, const char *b)
{
    char command[2200];
    snprintf(command, sizeof command, "cmp %s %s", a, b);
    assert_int_equal(system(command), 0);
}

void clean(void)
{
    char command[700];
    snprintf(command, sizeof command, "rm -rf %s/*", rig_folder());
    assert_int_equal(system(command), 0);
}

/* -- what a run left --------------------------------------------------------------------------- */

double read_number(const char *text, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(text, key);
    if (!at)
        fail_msg("there is no \"%s\" in %.200s", name, text);
    return strtod(at + strlen(key), NULL);
}

void read_metrics(const char *path, struct metrics *m)
{
    char *text = read_text(path), *save = NULL;
    m->steps = m->epochs = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strstr(line, "\"kind\":\"step\"")) {
            assert_true(m->steps < STEPS_MOST);
            m->step[m->steps++] = read_number(line, "loss");
        } else if (strstr(line, "\"kind\":\"epoch\"")) {
            assert_true(m->epochs < EPOCHS_MOST);
            m->tested[m->epochs] =
                strstr(line, "\"test_accuracy\":") ? read_number(line, "test_accuracy") : -1;
            m->epoch[m->epochs++] = read_number(line, "loss");
        }
    }
    free(text);
}

/* The newest checkpoint's model. */
const char *saved_model(const char *folder)
{
    static char path[1024];
    char command[1200];
    snprintf(command, sizeof command, "ls -d %s/step-* | tail -n 1", folder);
    FILE *listing = popen(command, "r");
    path[0] = 0;
    assert_non_null(listing);
    assert_non_null(fgets(path, 900, listing));
    pclose(listing);
    path[strcspn(path, "\n")] = 0;
    strcat(path, "/model.safetensors");
    return path;
}

struct gyre_safetensors *open_tensors(const char *path)
{
    struct gyre_safetensors *file;
    struct gyre_trouble trouble = {0};
    if (gyre_safetensors_open(&file, path, &trouble))
        fail_msg("%s", trouble.text);
    return file;
}

/* -- running ----------------------------------------------------------------------------------- */

#define METRICS_MOST (1 << 18) /* bytes of a short run */
#define METRICS_WAIT 180000    /* ms until the next of them */

int metrics_pipe(const char *path)
{
    assert_int_equal(mkfifo(path, 0600), 0);
    int end = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(end >= 0 && fcntl(end, F_SETPIPE_SZ, 4096) >= 4096);
    return end;
}

/* False: the pipe has ended. */
static bool read_metrics_pipe(int pipe, char text[METRICS_MOST])
{
    struct pollfd some = {.fd = pipe, .events = POLLIN};
    size_t length = strlen(text);
    if (poll(&some, 1, METRICS_WAIT) != 1)
        fail_msg("the run tells nothing more behind %s: %s", text, rig.err_text);
    ssize_t got = read(pipe, text + length, METRICS_MOST - 1 - length);
    text[length + (size_t)(got > 0 ? got : 0)] = 0;
    return got > 0;
}

void signal_behind(int pipe, const char *text, int number, const char *copy)
{
    static char told[METRICS_MOST];
    told[0] = 0;
    while (!strstr(told, text))
        if (!read_metrics_pipe(pipe, told))
            fail_msg("the run ended before %s: %s", text, told);
    rig_signal(&rig, number);
    /* Now there is room for all that it says. The read wakes it where it waits for room. */
    assert_true(fcntl(pipe, F_SETPIPE_SZ, METRICS_MOST) >= METRICS_MOST);
    read_metrics_pipe(pipe, told);
    rig_wait_end(&rig);
    while (read_metrics_pipe(pipe, told))
        continue;
    close(pipe);
    if (copy)
        write_lines(copy, told);
}

void expect_success(const char *const *words)
{
    rig_run(&rig, NULL, words);
    if (rig.code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
    rig_end(&rig);
}

/* -- what it told ------------------------------------------------------------------------------ */

/* The line of what was told that begins with `start`, behind it. */
const char *line_of(const char *start)
{
    static char line[2048];
    const char *at = strstr(rig.out_text, start);
    if (!at || (at > rig.out_text && at[-1] != '\n'))
        fail_msg("no line begins with \"%s\" in:\n%s%s", start, rig.out_text, rig.err_text);
    at += strlen(start);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

/* Runs a line of what was told, as a shell does; both outputs are rig.out_text then. */
void type(const char *start)
{
    char command[2900];
    const char *path = rig_tool();
    snprintf(command, sizeof command, "cd %s && PATH=%.*s:$PATH && exec %s 2>&1", rig_folder(),
             (int)(strrchr(path, '/') - path), path, line_of(start));
    rig_end(&rig);
    rig.in = rig.out = rig.err = rig.life = -1;
    FILE *typed = popen(command, "r");
    assert_non_null(typed);
    rig.out_length = fread(rig.out_text, 1, sizeof rig.out_text - 1, typed);
    rig.out_text[rig.out_length] = 0;
    rig.code = pclose(typed);
    if (rig.code)
        fail_msg("%s: status %d: %s", command, rig.code, rig.out_text);
}

void expect_told(const char *text)
{
    if (!rig_has(rig.out_text, text))
        fail_msg("\"%s\" is not in:\n%s", text, rig.out_text);
}
