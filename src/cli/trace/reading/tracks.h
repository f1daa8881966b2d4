/* Rows of bars that do not overlap: for the calls of a rank, and for each of its lanes. */
#ifndef GYRE_CLI_TRACE_READING_TRACKS_H
#define GYRE_CLI_TRACE_READING_TRACKS_H

#include "cli/trace/reading/timeline.h"

#include <stdio.h>

/* Gives each bar a track, and sorts the bars by track and time. Pairs of bars fall apart, so this
 * comes before gyre_pairs_find(). */
int gyre_tracks_lay(struct gyre_timeline *timeline, struct gyre_trouble *trouble);

/* Writes the name of a track: "calls", "lane 2", "communicator 3, shared memory". */
void gyre_track_name(char *out, size_t room, const struct gyre_track *track);

/* Writes what a bar is: "all_reduce f32 sum, 8 elements", "send to 2", "fold". */
void gyre_bar_text(char *out, size_t room, const struct gyre_bar *bar);

/* Writes a text as a string of JSON. */
void gyre_timeline_put_text(FILE *out, const char *text);

#endif
