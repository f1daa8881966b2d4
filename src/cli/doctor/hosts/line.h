/* Lines of text between the coordinator of a check-up and its agents, over whatever leads there:
 * the pipes of ssh, or a socket. */
#ifndef GYRE_CLI_DOCTOR_HOSTS_LINE_H
#define GYRE_CLI_DOCTOR_HOSTS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GYRE_DOCTOR_LINE_MAX 4096

struct gyre_doctor_line {
    int in, out; /* may be the same; -1: closed */
    size_t have, taken;
    char bytes[2 * GYRE_DOCTOR_LINE_MAX];
};

void gyre_doctor_line_open(struct gyre_doctor_line *line, int in, int out);
void gyre_doctor_line_close(struct gyre_doctor_line *line);

/* Writes a line; newlines in it become blanks, and it is cut to fit. False: nobody reads any more.
 */
bool gyre_doctor_say(struct gyre_doctor_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Copies the next line without its newline. 0; GYRE_TIMED_OUT at the deadline, of gyre_now_ns();
 * GYRE_PEER_LOST: the other side has ended. */
int gyre_doctor_hear(struct gyre_doctor_line *line, char text[GYRE_DOCTOR_LINE_MAX],
                     uint64_t deadline_ns);

/* Whether a whole line has come already. */
bool gyre_doctor_has_line(const struct gyre_doctor_line *line);

#endif
