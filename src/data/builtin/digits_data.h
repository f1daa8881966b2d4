/* The rows of the digits data set, as text. */
#ifndef GYRE_DATA_BUILTIN_DIGITS_DATA_H
#define GYRE_DATA_BUILTIN_DIGITS_DATA_H

#define GYRE_DIGITS_ROWS    1797
#define GYRE_DIGITS_LETTERS 66 /* a digit, 64 pixels, and the end of the text */

extern const char gyre_digits_text[GYRE_DIGITS_ROWS][GYRE_DIGITS_LETTERS];

#endif
