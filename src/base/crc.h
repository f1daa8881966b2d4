/* CRC-32C (Castagnoli), as in iSCSI and ext4, by the CPU's instruction where there is one. */
#ifndef GYRE_BASE_CRC_H
#define GYRE_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The sum of `length` more bytes after a part whose sum is `crc`; start with 0. crc32c("123456789")
 * is 0xe3069283. */
uint32_t gyre_crc32c(uint32_t crc, const void *bytes, size_t length);

#endif
