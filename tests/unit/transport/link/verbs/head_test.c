/* The headers of the verbs driver that do not travel: which do, by the bytes that the device
 * writes, and that what comes is what was sent. Two wires in this process, on the stand-in for the
 * library. */
#include "unit/transport/link/verbs/verbs_ends.h"

#include "transport/stream/frame.h"
#include "rig/test.h"

#include <string.h>

/* Bytes that end 0 writes for a message. */
static uint64_t carried(struct ends *ends, uint32_t number, uint64_t length)
{
    uint64_t before = fake_verbs.written[0];
    ends_carry(ends, number, length);
    return fake_verbs.written[0] - before;
}

static const struct {
    uint32_t number;
    uint64_t length;
    bool header; /* travels */
    const char *what;
} messages[] = {
    {0, 4096, true, "the first one"},
    {1, 4096, false, "the next one"},
    {2, 4096, false, "and the next"},
    {4, 4096, false, "one is left out"},
    {5, 4064, true, "no packet is saved"},
    {6, 4064, true, "nor here"},
    {7, 4096, true, "the one before was shorter"},
    {8, 8, true, "in a slot"},
    {9, 20000, true, "past the rings"},
    {10, 4096, false, "since it was no frame of the inbox"},
    {25, 4096, false, "15 later"},
    {41, 4096, true, "16 later"},
    {40, 4096, true, "backwards"},
    {42, 4095, true, "one byte less"},
    {43, 4095, false, "which saves a packet too"},
    {44, 8192, true, "two packets"},
    {45, 8192, false, "two packets"},
    {46, 16384, true, "four, the longest"},
    {47, 16384, false, "four"},
    {48, 16384, false, "beside credit that goes the other way"},
    {49, 16384, false, "again"},
    {50, 1000, true, "of one packet in any case"},
    {51, 1000, true, "of one packet"},
};

static void a_header_that_is_known_does_not_travel(void **state)
{
    (void)state;
    ends_devices();
    struct ends *ends = ends_new("a", "b", "1", false);
    for (uint32_t i = 0; i < COUNT(messages); i++) {
        uint64_t bytes = carried(ends, messages[i].number, messages[i].length);
        uint64_t least = messages[i].length + (messages[i].header ? GYRE_FRAME_BYTES : 0);
        bool past = messages[i].length > GYRE_EAGER_MAX, slot = messages[i].length < 209;
        if (!past && bytes != least + (slot ? 16 : 0))
            fail_msg("message %u, %s: %llu bytes", messages[i].number, messages[i].what,
                     (unsigned long long)bytes);
    }
    ends_free(ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_that_is_known_does_not_travel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
