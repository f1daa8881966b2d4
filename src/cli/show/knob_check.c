/* Whether a knob's value can be used. Tested by tests/program/cli/knobs.sh. */
#include "cli/show/knob_check.h"

#include "base/env.h"
#include "collectives/kernels/reduce.h"
#include "transport/link/words.h"

#include <stdio.h>
#include <string.h>

#define WORDS_MAX 16

static int check_word(const struct gyre_knob *knob, const char *text, struct gyre_trouble *trouble)
{
    char copy[128], *rest = copy;
    const char *words[WORDS_MAX];
    int count = 0, index;
    snprintf(copy, sizeof copy, "%s", knob->words);
    while (rest && count < WORDS_MAX)
        words[count++] = strsep(&rest, " ");
    return gyre_parse_word(knob->name, text, words, count, &index, trouble);
}

static int check_kernels(const struct gyre_knob *knob, const char *text,
                         struct gyre_trouble *trouble)
{
    const char *words[WORDS_MAX];
    int count = 0, index;
    for (; count < WORDS_MAX && gyre_reduce_variants[count].name; count++)
        words[count] = gyre_reduce_variants[count].name;
    return gyre_parse_word(knob->name, text, words, count, &index, trouble);
}

static int check_transport_word(const struct gyre_knob *knob, const char *text,
                                struct gyre_trouble *trouble)
{
    const char *words[GYRE_LINK_WORDS_MOST];
    int index;
    return gyre_parse_word(knob->name, text, words, gyre_link_words(words), &index, trouble);
}

int gyre_knob_check(const struct gyre_knob *knob, const char *text, struct gyre_trouble *trouble)
{
    uint64_t size = 1;
    int64_t number = 1;
    int status = 0;
    switch (knob->kind) {
    case GYRE_KNOB_WORD:
        return check_word(knob, text, trouble);
    case GYRE_KNOB_NUMBER:
        return gyre_parse_int(knob->name, text, knob->least, knob->most, &number, trouble);
    case GYRE_KNOB_SIZE:
        status = gyre_parse_size(knob->name, text, &size, trouble);
        break;
    case GYRE_KNOB_TIME:
        status = gyre_parse_duration_ms(knob->name, text, &number, trouble);
        break;
    case GYRE_KNOB_TRANSPORT:
        return check_transport_word(knob, text, trouble);
    case GYRE_KNOB_KERNELS:
        return check_kernels(knob, text, trouble);
    default:
        return 0;
    }
    bool zero = !status && knob->least && (!size || !number);
    return zero ? gyre_env_refuse_zero(knob->name, 0, trouble) : status;
}
