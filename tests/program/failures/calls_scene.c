/* The one scene that this process plays. */
#include "program/failures/calls_scene.h"

#include "stand_in/failing_calls.h"

#include <stdio.h>
#include <string.h>

struct scene scene = {.digest = 14695981039346656037u};

static struct failing_book *book;

void scene_open(void)
{
    book = failing_book_open(getenv("FAILING_CALLS"));
    scene.input = malloc(SCENE_LARGE * sizeof *scene.input);
    scene.output = calloc(SCENE_LARGE, sizeof *scene.output);
    for (int i = 0; i < SCENE_LARGE; i++)
        scene.input[i] = (float)(i % 100);
}

void scene_arm(bool on)
{
    if (book)
        book->armed = on;
}

void scene_take(const void *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        scene.digest = (scene.digest ^ ((const unsigned char *)at)[i]) * 1099511628211u;
}

/* Whether a text names only its status, or that and the call: "gyre_grow: Cannot allocate
 * memory". */
static bool says_nothing(const char *text, const char *status)
{
    const char *end = strstr(text, ": ");
    return !*text || !strcmp(text, status) ||
           (end && !strncmp(text, "gyre_", 5) && !strcmp(end + 2, status));
}

bool scene_failed(int status, const char *step)
{
    if (status >= 0)
        return false;
    const char *text = gyre_error(scene.comm);
    if (!*text && scene.comm)
        text = gyre_error(NULL);
    scene.silent |= says_nothing(text, gyre_status_name(status));
    dprintf(2, "%s: %s: %s\n", step, gyre_status_name(status), text);
    return true;
}

bool scene_wrote(int status, const char *step, uint64_t floats)
{
    if (!scene_failed(status, step))
        scene_take(scene.output, floats * sizeof *scene.output);
    return status >= 0;
}

int scene_begin(void)
{
    return scene_failed(gyre_init(&scene.comm, NULL), "gyre_init") ? -1 : 0;
}

int scene_greatest(const float *from)
{
    return gyre_all_reduce(scene.comm, from, scene.output, SCENE_COUNT, GYRE_F32, GYRE_MAX);
}
