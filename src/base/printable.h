/* Text that others wrote (a file, a peer, a user's variable), made fit to be printed.
 *
 * A terminal obeys control characters: ESC and the C1 controls move its cursor, rename its window
 * or answer as if the user had typed. A newline forges a line. Each byte of such a character, and
 * each byte that is no UTF-8, becomes '?'. */
#ifndef GYRE_BASE_PRINTABLE_H
#define GYRE_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the well-formed UTF-8 character at `at` < `end`; 0: not well formed (RFC 3629:
 * shortest form, no surrogates, nothing beyond U+10FFFF). */
size_t gyre_utf8_length(const uint8_t *at, const uint8_t *end);

/* Whether the well-formed character at `at` is a control: C0, DEL or C1. */
bool gyre_is_control(const uint8_t *at);

/* Copies `from` as one line to `to`, of `size` > 3 bytes. A text that does not fit is cut between
 * two characters and ends in "...". Returns `to`. */
char *gyre_printable(char *to, size_t size, const char *from);

/* Make `text` printable in place, as one line, or with its newlines and tabs. Return `text`. */
char *gyre_printable_line(char *text);
char *gyre_printable_lines(char *text);

#endif
