/* --hosts-file: hosts and their ranks, one host a line. The launcher reads the file at its start,
 * and again when it is told to. */
#ifndef GYRE_LAUNCH_HOSTS_FILE_H
#define GYRE_LAUNCH_HOSTS_FILE_H

#include "launch/seating.h"

/* Reads
 *
 *     # the first rack
 *     gnode1:4
 *     me@gnode2 slots=2      as Open MPI writes it
 *     gnode3                 `each` ranks
 *     rack[1-2]n[01-16]:8    as Slurm writes it
 *     a:4,b                  as --hosts takes it
 *
 * Writes *hosts and *seating on success only. GYRE_INVALID with a sentence that begins with
 * "FILE:LINE: ", -errno. */
int gyre_hosts_file_read(const char *path, int each, struct gyre_hosts *hosts,
                         struct gyre_seating *seating, struct gyre_trouble *trouble);

#endif
