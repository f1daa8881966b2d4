/* The words by which a user chooses the links between ranks: "auto", and the name of each driver of
 * the table. Every flag, variable and message takes the words from here. */
#ifndef GYRE_TRANSPORT_LINK_WORDS_H
#define GYRE_TRANSPORT_LINK_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#define GYRE_LINK_WORDS_MOST 8

/* Fills in "auto", then the drivers' names in the order of the alphabet. Returns their number. */
int gyre_link_words(const char *words[GYRE_LINK_WORDS_MOST]);

/* Writes the words as text: "auto, shm, tcp or verbs". Returns `text`. */
const char *gyre_link_words_text(char *text, size_t size);

/* Whether a word names a driver of mapped memory ("shm"), or one of messages ("tcp", "verbs");
 * "auto" names neither. */
bool gyre_link_word_maps(const char *word);
bool gyre_link_word_sends(const char *word);

#endif
