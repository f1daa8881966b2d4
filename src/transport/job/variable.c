/* Variables of the environment, as all files of this room read them.
 *
 * Tested by tests/unit/transport/job/refused_test.c. */
#include "transport/job/inside.h"

#include <stdlib.h>

const char *gyre_job_variable(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    return text && text[0] ? text : NULL;
}

int gyre_job_refuse_half(const char *have, const char *lack, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "%s is \"%s\" but %s is not set: set both or neither", have,
                            getenv(have), lack);
}
