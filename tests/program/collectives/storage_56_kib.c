/* Ranks of a program with 56 KiB of thread-local storage: less than a small stack, but nearly all
 * of it. */
#define STORAGE (56 * 1024)
#include "program/collectives/storage.h"
