/* What must be equal on all ranks: before they train options, samples and weights to start from;
 * at the end of each epoch, and where a run stops, the weights. With different ones training would
 * go on without a word, and learn something else.
 *
 * Ranks compare lines "NAME<tab>VALUE". Tested by tests/program/train/equal.c. */
#include "train/inside.h"

#include "base/crc.h"
#include "ddp/agreement.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TOLD_MOST  3   /* differences in one message */
#define VALUE_MOST 120 /* characters of a value in a message */

/* -- the lines that differ --------------------------------------------------------------------- */

/* The value behind this name, of *length characters; NULL where the text has no such line. */
static const char *find_value(const char *text, const char *name, size_t *length)
{
    size_t named = strcspn(name, "\t");
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strcspn(line, "\t\n") != named || memcmp(line, name, named) != 0)
            continue;
        line += named + (line[named] == '\t');
        *length = strcspn(line, "\n");
        return line;
    }
    return NULL;
}

static void append_side(char *text, size_t room, const char *value, size_t length,
                        const struct gyre_lines_side *side)
{
    size_t used = strlen(text);
    bool cut = length > VALUE_MOST;
    snprintf(text + used, room - used, "%.*s%s on rank %d (host %s)",
             cut ? VALUE_MOST : (int)length, value, cut ? "..." : "", side->rank, side->host);
}

static void append_difference(char *text, size_t room, const char *line,
                              const struct gyre_lines_side side[2])
{
    size_t used = strlen(text), length[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        const char *value = find_value(side[i].text, line, &length[i]);
        used = strlen(text);
        snprintf(text + used, room - used, "%s%.*s%s",
                 i      ? ""
                 : used ? ", "
                        : "",
                 i ? 0 : (int)strcspn(line, "\t"), line, i ? " and " : " is ");
        append_side(text, room, value ? value : "unknown", value ? length[i] : 7, &side[i]);
    }
}

static bool differs(const char *line, const struct gyre_lines_side side[2])
{
    size_t length[2] = {0, 0};
    const char *one = find_value(side[0].text, line, &length[0]),
               *two = find_value(side[1].text, line, &length[1]);
    return !two || length[0] != length[1] || memcmp(one, two, length[0]) != 0;
}

static int refuse_difference(struct gyre_train *t, const struct gyre_lines_side side[2])
{
    char text[GYRE_TROUBLE_MAX] = "";
    int found = 0;
    for (const char *line = side[0].text; *line; line = strchr(line, '\n') + 1)
        if (differs(line, side) && found++ < TOLD_MOST)
            append_difference(text, sizeof text, line, side);
    t->common = true;
    if (!found)
        return gyre_trouble_set(
            t->trouble, GYRE_INVALID,
            "rank %d (host %s) knows options that rank 0 (host %s) does not: use "
            "one build of Gyre",
            side[1].rank, side[1].host, side[0].host);
    if (found > TOLD_MOST)
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "%s, and %d more differ; give all ranks the same", text,
                                found - TOLD_MOST);
    return gyre_trouble_set(t->trouble, GYRE_INVALID, "%s; give all ranks the same", text);
}

/* -- comparing --------------------------------------------------------------------------------- */

/* Frees the lines. */
static int compare_lines(struct gyre_train *t, struct gyre_lines *lines)
{
    struct gyre_difference difference;
    int status = gyre_lines_compare(t->comm, lines, &difference, t->trouble);
    if (status)
        gyre_train_explain(t, status);
    else if (difference.ranks)
        status = refuse_difference(t, difference.side);
    gyre_difference_free(&difference);
    free(lines->text);
    return status;
}

int gyre_train_compare_options(struct gyre_train *t)
{
    struct gyre_lines lines = {0};
    if (t->n == 1)
        return 0;
    gyre_train_options_put(t->options, &lines);
    return compare_lines(t, &lines);
}

/* -- what the options lead to ------------------------------------------------------------------ */

static void put_dataset(struct gyre_lines *lines, const char *name, const struct gyre_dataset *set)
{
    gyre_lines_put(lines, "%s\t%" PRIu64 " samples of %" PRIu64 " numbers, digest %016" PRIx64 "\n",
                   name, set->samples, set->features, gyre_dataset_hash(set));
}

enum { SUMMED = 4096 }; /* numbers of the optimiser's state at once */

static uint32_t sum_of_weights(const struct gyre_replica *replica)
{
    uint32_t sum = 0;
    for (int i = 0; i < replica->parameters; i++)
        sum = gyre_crc32c(sum, replica->host_item[i].value,
                          replica->parameter[i]->count * sizeof(float));
    return sum;
}

static void put_data(const struct gyre_train *t, struct gyre_lines *lines)
{
    put_dataset(lines, "--data", &t->data);
    if (t->validation.samples)
        put_dataset(lines, "--validation", &t->validation);
    if (t->options->test)
        put_dataset(lines, "--test", &t->test);
    if (t->init.model)
        gyre_lines_put(lines, "--init\tweights of digest %08" PRIx32 "\n",
                       sum_of_weights(&t->replica));
}

/* Of an elastic run the lines are kept, for newcomers: data and weights change. */
int gyre_train_compare_data(struct gyre_train *t)
{
    struct gyre_lines lines = {0};
    if (t->n == 1)
        return 0;
    if (t->data_lines)
        gyre_lines_put(&lines, "%s", t->data_lines);
    else
        put_data(t, &lines);
    if (t->options->elastic && !t->data_lines && lines.text)
        t->data_lines = strdup(lines.text);
    return compare_lines(t, &lines);
}

/* -- weights ----------------------------------------------------------------------------------- */

static int add_optimizer(const struct gyre_optimizer *optimizer, uint32_t *sum,
                         struct gyre_trouble *trouble)
{
    float room[SUMMED];
    int status = 0;
    for (int s = 0; optimizer && s < optimizer->states; s++)
        for (size_t at = 0; !status && at < optimizer->count; at += SUMMED) {
            const size_t left = optimizer->count - at, count = left < SUMMED ? left : SUMMED;
            status = gyre_optimizer_read(optimizer, s, at, count, room, trouble);
            *sum = gyre_crc32c(*sum, room, count * sizeof *room);
        }
    return status;
}

/* Of all that a step goes on from: values, running means, the optimiser's state, the loss scale. */
static int sum_of_state(const struct gyre_replica *r, uint32_t *sum, struct gyre_trouble *trouble)
{
    *sum = sum_of_weights(r);
    for (int b = 0; b < r->buffers; b++)
        *sum = gyre_crc32c(*sum, r->host_item[r->parameters + b].value,
                           r->buffer[b]->count *
                               (r->buffer[b]->whole ? sizeof(int64_t) : sizeof(float)));
    int status = add_optimizer(r->optimizer, sum, trouble);
    *sum = gyre_crc32c(*sum, &r->scaler, sizeof r->scaler);
    return status;
}

int gyre_train_compare_state(struct gyre_train *t)
{
    uint32_t mine, *all = calloc((size_t)t->n, sizeof *all);
    int status = all ? gyre_replica_values_home(&t->replica, t->trouble) : -ENOMEM;
    if (!status)
        status = gyre_running_bring_home(&t->replica.running, t->trouble);
    if (!status)
        status = sum_of_state(&t->replica, &mine, t->trouble);
    if (!status)
        status = gyre_all_gather(t->comm, &mine, all, 1, GYRE_U32);
    int other = 0;
    for (int rank = 1; !status && !other && rank < t->n; rank++)
        other = all[rank] != all[0] ? rank : 0;
    if (other) {
        t->common = true;
        status = gyre_trouble_set(t->trouble, GYRE_CORRUPT,
                                  "rank %d was handed another state than rank 0: digests %08" PRIx32
                                  " and %08" PRIx32,
                                  other, all[other], all[0]);
    }
    free(all);
    return gyre_train_explain(t, status);
}

int gyre_train_compare_weights(struct gyre_train *t)
{
    int status = gyre_ddp_compare(t->replica.ddp);
    t->common |= status == GYRE_CORRUPT;
    return gyre_train_explain(t, status);
}
