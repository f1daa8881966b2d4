/* What one rank finds out by itself and all ranks have to know: a signal, a failure. Tested by
 * tests/program/train/wrong.c. */
#include "train/inside.h"

#include "ddp/agreement.h"

#include <signal.h>
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

int gyre_train_explain(struct gyre_train *t, int status)
{
    const char *story = gyre_error(t->comm);
    if (status >= 0)
        return status;
    return gyre_trouble_set(t->trouble, status, "%s", *story ? story : gyre_error(NULL));
}

int gyre_train_agree(struct gyre_train *t, int status)
{
    int culprit;
    status = gyre_agree(t->comm, status, t->trouble, &culprit);
    if (culprit < 0)
        return status;
    t->common = true;
    if (culprit && !strstr(t->trouble->text, "rank "))
        gyre_trouble_wrap(t->trouble, "on another rank");
    return status;
}
