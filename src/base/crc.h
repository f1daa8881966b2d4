/* CRC-32C (Castagnoli), as in iSCSI and ext4, by the CPU's instruction where there is one. */
#ifndef GYRE_BASE_CRC_H
#define GYRE_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The sum of `length` more bytes after a part whose sum is `crc`; start with 0. crc32c("123456789")
 * is 0xe3069283. */
uint32_t gyre_crc32c(uint32_t crc, const void *bytes, size_t length);

/* The sum of A followed by B, from the sums of A and of B and the length of B. So parts can be
 * summed in any order. */
uint32_t gyre_crc32c_combine(uint32_t crc_a, uint32_t crc_b, size_t length_b);

#endif
