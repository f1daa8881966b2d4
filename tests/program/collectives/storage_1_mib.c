/* Ranks of a program with 1 MiB of thread-local storage: more than a small stack. */
#define STORAGE (1 << 20)
#include "program/collectives/storage.h"
