/* Reads the text of the digits data set. */
#include "data/builtin/digits.h"

#define DOTS 16.0f /* of a pixel */

static int dots_of(char letter)
{
    return letter <= '9' ? letter - '0' : letter - 'a' + 10;
}

int64_t gyre_digits_take(uint32_t row, float pixel[GYRE_DIGITS_PIXELS])
{
    const char *text = gyre_digits_text[row];
    for (int i = 0; i < GYRE_DIGITS_PIXELS; i++)
        pixel[i] = (float)dots_of(text[1 + i]) / DOTS;
    return text[0] - '0';
}
