/* The range of ports from the environment. */
#include "transport/net/ports.h"

#include <stdio.h>
#include <stdlib.h>

int gyre_ports_read(uint16_t *low, uint16_t *high, struct gyre_trouble *trouble)
{
    const char *text = getenv("GYRE_PORT_RANGE");
    int first, last, end = 0;
    *low = *high = 0;
    if (!text || !*text)
        return 0;
    if (sscanf(text, "%d-%d%n", &first, &last, &end) < 2 || text[end] || first < 1 ||
        last > 65535 || first > last)
        return gyre_trouble_set(
            trouble, GYRE_INVALID,
            "GYRE_PORT_RANGE is \"%s\": expected two ports, low-high, such as 29600-29700", text);
    *low = (uint16_t)first;
    *high = (uint16_t)last;
    return 0;
}
