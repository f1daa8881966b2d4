/* Where there is no verbs driver nothing is broken, or seen. */
#include "link/verbs_breaker.h"

void verbs_breaker_light(void)
{
}

uint32_t verbs_breaker_broken(void)
{
    return 0;
}

int verbs_breaker_poll(struct gyre_wire *handle, uint64_t now, struct gyre_completion *out, int max)
{
    return 0;
}

int verbs_breaker_arm(struct gyre_wire *handle, struct gyre_alarm *alarm)
{
    return 0;
}

uint64_t verbs_watcher_seen(void)
{
    return 0;
}

int verbs_watcher_poll(struct gyre_wire *handle, uint64_t now, struct gyre_completion *out, int max)
{
    return 0;
}
