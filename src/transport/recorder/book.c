/* The tables of a rank's records: ways by name, and communicators. Tested by
 * tests/unit/transport/recorder/recorder_test.c. */
#include "transport/recorder/book.h"

#include <stdio.h>

uint16_t gyre_recorder_add_way(struct gyre_recorder *recorder, const char *name)
{
    if (recorder->ways == GYRE_RECORD_WAYS)
        return GYRE_BY_ROUNDS;
    recorder->way_name[recorder->ways] = name;
    snprintf(recorder->head->way[recorder->ways], sizeof recorder->head->way[0], "%s", name);
    gyre_trace_copy_tables(recorder->trace, recorder->head);
    return (uint16_t)recorder->ways++;
}

void gyre_recorder_note_comm(struct gyre_recorder *recorder, uint32_t name, uint32_t n,
                             uint32_t rank)
{
    for (uint32_t i = 0; recorder && i < GYRE_RECORD_COMMS; i++) {
        struct gyre_record_comm *comm = &recorder->head->comm[i];
        if (comm->made && comm->name != name)
            continue;
        *comm = (struct gyre_record_comm){name, n, rank, 1};
        gyre_trace_copy_tables(recorder->trace, recorder->head);
        return;
    }
}

void gyre_recorder_drop_comm(struct gyre_recorder *recorder, uint32_t name)
{
    for (uint32_t i = 0; recorder && i < GYRE_RECORD_COMMS; i++)
        if (recorder->head->comm[i].name == name)
            recorder->head->comm[i].made = 0;
}
