/* The words for drivers, from their table. */
#include "transport/link/words.h"

#include "transport/link/table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

int gyre_link_words(const char *words[GYRE_LINK_WORDS_MOST])
{
    int count = 1;
    words[0] = "auto";
    for (const struct gyre_driver *const *it = gyre_drivers; *it; it++) {
        int at = count++;
        assert(count <= GYRE_LINK_WORDS_MOST);
        for (; at > 1 && strcmp(words[at - 1], (*it)->name) > 0; at--)
            words[at] = words[at - 1];
        words[at] = (*it)->name;
    }
    return count;
}

const char *gyre_link_words_text(char *text, size_t size)
{
    const char *words[GYRE_LINK_WORDS_MOST];
    int count = gyre_link_words(words);
    size_t at = 0;
    for (int i = 0; i < count && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s",
                               i == 0          ? ""
                               : i + 1 < count ? ", "
                                               : " or ",
                               words[i]);
    return text;
}

static const struct gyre_driver *driver_named(const char *word)
{
    const struct gyre_driver *const *it = gyre_drivers;
    while (*it && strcmp((*it)->name, word))
        it++;
    return *it;
}

bool gyre_link_word_maps(const char *word)
{
    const struct gyre_driver *driver = driver_named(word);
    return driver && driver->mapped;
}

bool gyre_link_word_sends(const char *word)
{
    const struct gyre_driver *driver = driver_named(word);
    return driver && !driver->mapped;
}
