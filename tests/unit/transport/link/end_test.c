/* One end of a pipe: streams, the first failure, goodbyes, and what is told after detach(). */
#include "rig/test.h"
#include "transport/link/end.h"

#include <errno.h>
#include <string.h>

struct toy_pipe {
    struct gyre_pipe end;
    int zero;
};

static const struct gyre_stream_options options = {.posts = 8};

static struct gyre_pipe *make(uint32_t streams)
{
    struct gyre_pipe *pipe = NULL;
    assert_int_equal(gyre_end_create(sizeof(struct toy_pipe), 3, 5, &options, streams, &pipe), 0);
    assert_int_equal(((struct toy_pipe *)pipe)->zero, 0);
    return pipe;
}

static void expect(struct gyre_pipe *pipe, uint32_t stream, uint64_t token)
{
    static uint8_t byte;
    const struct gyre_match match = {.sequence = token, .fingerprint = 7};
    assert_int_equal(gyre_stream_recv(pipe->stream[stream], &match, &byte, 1, token), 0);
}

/* Moves what `from` says to `to`, and gives the status of the last byte. */
static int carry(struct gyre_stream *from, struct gyre_stream *to)
{
    struct iovec iov;
    int status = 0;
    while (gyre_stream_gather(from, &iov, 1) > 0) {
        status = gyre_stream_feed(to, iov.iov_base, iov.iov_len);
        gyre_stream_wrote(from, iov.iov_len);
    }
    return status;
}

static void what_no_stream_has_is_refused(void **state)
{
    const struct gyre_stream_options none = {0};
    struct gyre_pipe *pipe = NULL;
    assert_int_equal(gyre_end_create(sizeof *pipe, 0, 1, &none, 2, &pipe), GYRE_INVALID);
    assert_null(pipe);
}

static void the_first_failure_counts(void **state)
{
    struct gyre_pipe *pipe = make(2);
    struct gyre_trouble trouble = {0};
    struct gyre_completion out[4];
    expect(pipe, 0, 1);
    expect(pipe, 1, 2);
    assert_int_equal(gyre_end_state(pipe, &trouble), 0);
    assert_int_equal(trouble.status, 0);
    for (int i = 0; i < 2; i++) {
        gyre_trouble_set(&pipe->trouble, -EIO - i, "story %d", i);
        gyre_end_fail(pipe, -EIO - i);
    }
    assert_int_equal(gyre_end_state(pipe, &trouble), -EIO);
    assert_string_equal(trouble.text, "story 0");
    assert_int_equal(gyre_end_state(pipe, NULL), -EIO);
    assert_false(gyre_end_carries(pipe, out, sizeof out, true));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(gyre_stream_complete(pipe->stream[i], out, 4), 1);
        assert_int_equal(out[0].status, -EIO);
    }
    gyre_end_destroy(pipe);
}

static void a_mismatch_says_what_both_mean(void **state)
{
    struct gyre_pipe *here = make(2), *there = make(2);
    const struct gyre_match other = {.sequence = 1, .fingerprint = 8};
    char text[256];
    expect(here, 1, 1);
    assert_int_equal(gyre_stream_send(there->stream[1], &other, "", 1, 1), 0);
    assert_int_equal(carry(there->stream[1], here->stream[1]), GYRE_MISMATCH);
    assert_string_equal(gyre_end_refusal(here, 1, GYRE_CORRUPT, "bytes", text), "bytes");
    assert_non_null(strstr(gyre_end_refusal(here, 1, GYRE_MISMATCH, "bytes", text),
                           "rank 3 and rank 5 disagree about operation 1"));
    gyre_end_destroy(here);
    gyre_end_destroy(there);
}

/* One operation for both, whose algorithm sends two bytes where it expects one. */
static void a_message_of_another_length_is_the_algorithms_fault(void **state)
{
    struct gyre_pipe *here = make(2), *there = make(2);
    const struct gyre_match same = {.sequence = 1, .fingerprint = 7};
    char text[256];
    expect(here, 1, 1);
    assert_int_equal(gyre_stream_send(there->stream[1], &same, "12", 2, 1), 0);
    assert_int_equal(carry(there->stream[1], here->stream[1]), GYRE_MISMATCH);
    gyre_end_refusal(here, 1, GYRE_MISMATCH, "bytes", text);
    assert_non_null(strstr(text, "rank 3 and rank 5 called the same operation 1 of communicator"));
    assert_non_null(strstr(text, ": a defect of the algorithm; GYRE_ALGO names another"));
    assert_null(strstr(text, "fingerprint"));
    gyre_end_destroy(here);
    gyre_end_destroy(there);
}

static void goodbyes_go_both_ways_on_all_streams(void **state)
{
    struct gyre_pipe *here = make(2), *there = make(2);
    gyre_end_bye(here);
    gyre_end_bye(there);
    for (uint32_t i = 0; i < 2; i++) {
        assert_false(gyre_end_parted(here));
        assert_int_equal(carry(here->stream[i], there->stream[i]), 0);
        assert_false(gyre_end_parted(there));
        assert_int_equal(carry(there->stream[i], here->stream[i]), 0);
    }
    assert_true(gyre_end_parted(here));
    assert_true(gyre_end_parted(there));
    gyre_end_destroy(here);
    gyre_end_destroy(there);
}

static void departed_pipes_tell_their_last_completions(void **state)
{
    struct gyre_pipe *departed = NULL, *failed = make(1), *fine = make(2);
    struct gyre_completion out[4];
    expect(failed, 0, 1);
    expect(fine, 0, 2);
    expect(fine, 1, 3);
    gyre_end_fail(failed, -EIO);
    gyre_end_depart(failed, &departed);
    gyre_end_depart(fine, &departed);
    assert_int_equal(gyre_end_harvest(&departed, out, 2), 2);
    assert_int_equal(out[0].token + out[1].token, 5);
    assert_int_equal(out[0].status, -ECANCELED);
    assert_int_equal(out[1].status, -ECANCELED);
    assert_int_equal(gyre_end_harvest(&departed, out, 4), 1);
    assert_int_equal(out[0].token, 1);
    assert_int_equal(out[0].status, -EIO);
    assert_null(departed);
    assert_int_equal(gyre_end_harvest(&departed, out, 4), 0);
}

static void what_departed_is_forgotten_at_once(void **state)
{
    struct gyre_pipe *departed = NULL;
    for (int i = 0; i < 3; i++)
        gyre_end_depart(make(1), &departed);
    gyre_end_forget(&departed);
    assert_null(departed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_stream_has_is_refused),
        cmocka_unit_test(the_first_failure_counts),
        cmocka_unit_test(a_mismatch_says_what_both_mean),
        cmocka_unit_test(a_message_of_another_length_is_the_algorithms_fault),
        cmocka_unit_test(goodbyes_go_both_ways_on_all_streams),
        cmocka_unit_test(departed_pipes_tell_their_last_completions),
        cmocka_unit_test(what_departed_is_forgotten_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
