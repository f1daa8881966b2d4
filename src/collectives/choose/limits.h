/* Limits of mapped memory, on which every rank relies when it chooses and plans. */
#ifndef GYRE_COLLECTIVES_CHOOSE_LIMITS_H
#define GYRE_COLLECTIVES_CHOOSE_LIMITS_H

#define GYRE_PEERS_MAPPED_MAX 64u   /* ranks of one mapped operation */
#define GYRE_EXCHANGE_MAX     4096u /* bytes of INPUT that travel in the entry lines */
/* Of a slice in a stage or an inbox, all its blocks together. */
#define GYRE_STAGE_BYTES (512u * 1024)

/* The bytes of a slice, all its blocks together. The last slice may be twice as long. */
#define GYRE_MAPPED_SLICE (GYRE_STAGE_BYTES / 2)

#endif
