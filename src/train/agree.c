/* What one rank finds out by itself and all ranks have to know: a signal, a failure. Tested by
 * tests/program/train/wrong.c. */
#include "train/inside.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t stop_asked;

void gyre_train_stop(void)
{
    stop_asked = 1;
}

bool gyre_train_stop_asked(void)
{
    return stop_asked != 0;
}

struct run_end {
    int64_t status;
    char text[GYRE_TROUBLE_MAX];
};

int gyre_train_agree(struct gyre_train *t, int status)
{
    int32_t mine = status, *all = calloc((size_t)t->n, sizeof *all);
    struct run_end run_end = {.status = status};
    int told = all ? gyre_all_gather(t->comm, &mine, all, 1, GYRE_I32) : -ENOMEM, first = -1;
    for (int rank = t->n - 1; !told && rank >= 0; rank--)
        first = all[rank] ? rank : first;
    free(all);
    if (told || first < 0)
        return told ? gyre_trouble_set(t->trouble, told, "%s", gyre_error(t->comm)) : 0;
    snprintf(run_end.text, sizeof run_end.text, "%s", t->trouble->text);
    told = gyre_broadcast(t->comm, &run_end, &run_end, sizeof run_end, GYRE_U8, first);
    *t->trouble = (struct gyre_trouble){0};
    if (told)
        return gyre_trouble_set(t->trouble, told, "%s", gyre_error(t->comm));
    t->common = true;
    return gyre_trouble_set(
        t->trouble, (int)run_end.status, "%s%.900s",
        first && t->n > 1 && !strstr(run_end.text, "rank ") ? "on another rank: " : "",
        run_end.text);
}
