/* The running kernel's id. Containers of a machine share it, and a reboot changes it. */
#ifndef GYRE_TRANSPORT_JOB_BOOT_H
#define GYRE_TRANSPORT_JOB_BOOT_H

#include <stddef.h>

#define GYRE_BOOT_ID_TEXT 40

/* Writes the id with its newline and returns its length; 0 and "": this machine has none. */
size_t gyre_boot_id(char text[GYRE_BOOT_ID_TEXT]);

#endif
