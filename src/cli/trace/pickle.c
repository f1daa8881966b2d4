/* Writes pickles. A pickle is a program for a machine with a stack: values are pushed, and a
 * container takes all that lies above a mark. Protocol 2 of PEP 307, from Python's own
 * Lib/pickletools.py.
 *
 *     80 02                 protocol 2
 *     7d 28                 an empty dictionary, a mark
 *     58 01 00 00 00 61     "a", its length before it
 *     8a 01 05              5, in one byte
 *     75                    the dictionary takes what lies above the mark
 *     2e                    the end: the value on the stack
 *
 * Tested by tests/unit/cli/trace/torch_test.c. */
#include "cli/trace/pickle.h"

#include <string.h>

static void put_opcodes(FILE *out, const void *bytes, size_t length)
{
    fwrite(bytes, 1, length, out);
}

/* Writes a number in so many bytes, the lowest first. */
static void put_low_first(FILE *out, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fputc((int)(number >> 8 * i & 255), out);
}

void gyre_pickle_begin(FILE *out)
{
    put_opcodes(out, "\x80\x02", 2);
}

void gyre_pickle_end(FILE *out)
{
    fputc('.', out);
}

void gyre_pickle_begin_dict(FILE *out)
{
    put_opcodes(out, "}(", 2);
}

void gyre_pickle_end_dict(FILE *out)
{
    fputc('u', out);
}

void gyre_pickle_begin_list(FILE *out)
{
    put_opcodes(out, "](", 2);
}

void gyre_pickle_end_list(FILE *out)
{
    fputc('e', out);
}

void gyre_pickle_begin_tuple(FILE *out)
{
    fputc('(', out);
}

void gyre_pickle_end_tuple(FILE *out)
{
    fputc('t', out);
}

void gyre_pickle_text(FILE *out, const char *text)
{
    fputc('X', out);
    put_low_first(out, strlen(text), 4);
    for (const char *at = text; *at; at++)
        fputc((unsigned char)*at < 0x80 ? *at : '?', out);
}

void gyre_pickle_number(FILE *out, int64_t number)
{
    int bytes = 1;
    while (bytes < 8 &&
           (number < -(INT64_C(1) << (8 * bytes - 1)) || number >= INT64_C(1) << (8 * bytes - 1)))
        bytes++;
    put_opcodes(out, "\x8a", 1);
    fputc(bytes, out);
    put_low_first(out, (uint64_t)number, bytes);
}

void gyre_pickle_bool(FILE *out, bool value)
{
    fputc(value ? 0x88 : 0x89, out);
}

void gyre_pickle_none(FILE *out)
{
    fputc('N', out);
}
