/* What fuzz targets share. Built with -fsanitize=fuzzer a target is libFuzzer's; as a test it runs
 * cases from seeds, so a failure is repeated by its seed alone, or the files named on its command
 * line. */
#ifndef GYRE_TESTS_FUZZ_FUZZ_H
#define GYRE_TESTS_FUZZ_FUZZ_H

#include "base/rng.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_MOST 65536 /* bytes of a case */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#ifndef GYRE_LIBFUZZER

static inline int fuzz_replay(const char *path, uint8_t *data)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return 1;
    size_t size = fread(data, 1, FUZZ_MOST, file);
    fclose(file);
    return LLVMFuzzerTestOneInput(data, size);
}

/* Writes `least` bytes or more, fewer than `end`, that the seed alone settles. Returns how many. */
static inline size_t fuzz_random_bytes(uint64_t seed, size_t least, size_t end, uint8_t *data)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, seed);
    size_t size = least + gyre_rng_below(&rng, end - least);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)gyre_rng_next(&rng);
    return size;
}

/* Runs the named files, or the cases of GYRE_FUZZ_RUNS seeds. */
static inline int fuzz_run(int argc, char **argv, uint64_t runs,
                           size_t (*make_case)(uint64_t seed, uint8_t *data))
{
    static uint8_t data[FUZZ_MOST];
    const char *text = getenv("GYRE_FUZZ_RUNS");
    int status = 0;
    runs = text ? strtoull(text, NULL, 10) : runs;
    for (int i = 1; i < argc; i++)
        status |= fuzz_replay(argv[i], data);
    for (uint64_t seed = 0; argc < 2 && seed < runs; seed++)
        LLVMFuzzerTestOneInput(data, make_case(seed, data));
    return status;
}

#endif

#endif
