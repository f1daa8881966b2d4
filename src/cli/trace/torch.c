/* Writes dumps of torch's flight recorder, as torch/distributed/flight_recorder reads them: a
 * pickle for each rank.
 *
 *     {"version": "2.10", "rank": 0,
 *      "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}},
 *      "entries": [{"profiling_name": "c10d:all_reduce", "collective_seq_id": 7, …}, …]}
 *
 * "c10d" is torch's word for a library that it does not know. The analyser matches the calls of a
 * group by their numbers. A ring of events may have lost the first calls of some ranks, so calls
 * before the first that all have are left out. Messages from rank to rank are left out too: the
 * analyser takes them for calls of all ranks.
 *
 * Tested by tests/unit/cli/trace/torch_test.c, and by tests/program/cli/trace_torch.sh with the
 * analyser itself. */
#include "cli/trace/torch.h"

#include "cli/trace/pickle.h"
#include "transport/stream/signature.h"

#include <stdlib.h>

#define DUMP_VERSION "2.10"

static void put_key_text(FILE *out, const char *key, const char *text)
{
    gyre_pickle_text(out, key);
    gyre_pickle_text(out, text);
}

static void put_key_number(FILE *out, const char *key, int64_t number)
{
    gyre_pickle_text(out, key);
    gyre_pickle_number(out, number);
}

/* -- groups ------------------------------------------------------------------------------------ */

static const char *group_words(char name[16], uint32_t comm)
{
    snprintf(name, 16, "%u", comm);
    return comm ? "undefined" : "default_pg";
}

/* Writes the members as the text of a list: "[0, 1, 2]". */
static void put_members(FILE *out, const struct gyre_calls *calls, uint32_t comm)
{
    const struct gyre_timeline *timeline = calls->timeline;
    char *text = NULL;
    size_t length = 0;
    FILE *list = open_memstream(&text, &length);
    const char *between = "";
    gyre_pickle_text(out, "ranks");
    if (!list) {
        gyre_pickle_text(out, "[]");
        return;
    }
    fputc('[', list);
    for (uint32_t i = 0; i < (comm ? timeline->count : timeline->n); i++) {
        if (comm && !gyre_calls_is_member(&calls->of[i], comm))
            continue;
        fprintf(list, "%s%u", between, comm ? timeline->of[i].head.rank : i);
        between = ", ";
    }
    fputc(']', list);
    fclose(list);
    gyre_pickle_text(out, text ? text : "[]");
    free(text);
}

static void put_groups(FILE *out, const struct gyre_calls *calls,
                       const struct gyre_rank_calls *rank)
{
    char name[16];
    gyre_pickle_text(out, "pg_config");
    gyre_pickle_begin_dict(out);
    for (uint32_t i = 0; i < rank->comms; i++) {
        const char *words = group_words(name, rank->comm[i]);
        gyre_pickle_text(out, name);
        gyre_pickle_begin_dict(out);
        put_key_text(out, "name", name);
        put_key_text(out, "desc", words);
        put_members(out, calls, rank->comm[i]);
        gyre_pickle_end_dict(out);
    }
    gyre_pickle_end_dict(out);
}

/* -- entries ----------------------------------------------------------------------------------- */

/* The first call of a communicator that no rank's ring has lost. */
static uint64_t first_kept(const struct gyre_calls *calls, uint32_t comm)
{
    uint64_t first = 0;
    for (uint32_t r = 0; r < calls->timeline->count; r++) {
        const struct gyre_rank_calls *rank = &calls->of[r];
        uint32_t i = 0;
        while (i < rank->calls && rank->call[i]->comm != comm)
            i++;
        if (calls->timeline->of[r].lost && i < rank->calls && rank->call[i]->sequence > first)
            first = rank->call[i]->sequence;
    }
    return first;
}

static const char *element_word(uint32_t type)
{
    static const char *const word[] = {[GYRE_F32] = "Float",
                                       [GYRE_F64] = "Double",
                                       [GYRE_F16] = "Half",
                                       [GYRE_BF16] = "BFloat16",
                                       [GYRE_I32] = "Int",
                                       [GYRE_I64] = "Long",
                                       [GYRE_U8] = "Byte",
                                       [GYRE_I8] = "Char",
                                       [GYRE_U32] = "UInt32",
                                       [GYRE_U64] = "UInt64",
                                       [GYRE_I16] = "Short",
                                       [GYRE_U16] = "UInt16",
                                       [GYRE_F8E4M3] = "Float8_e4m3fn",
                                       [GYRE_F8E5M2] = "Float8_e5m2"};
    return type < sizeof word / sizeof *word ? word[type] : "Byte";
}

/* Writes a list of one list of one number, and a list of one type. */
static void put_torch_buffer(FILE *out, const char *sizes, const char *types, uint64_t elements,
                             uint32_t type)
{
    gyre_pickle_text(out, sizes);
    gyre_pickle_begin_list(out);
    gyre_pickle_begin_list(out);
    gyre_pickle_number(out, (int64_t)elements);
    gyre_pickle_end_list(out);
    gyre_pickle_end_list(out);
    gyre_pickle_text(out, types);
    gyre_pickle_begin_list(out);
    gyre_pickle_text(out, element_word(type));
    gyre_pickle_end_list(out);
}

static void put_state(FILE *out, const struct gyre_bar *call)
{
    put_key_text(out, "state", call->open ? "started" : "completed");
    put_key_number(out, "time_created_ns", call->begin);
    put_key_number(out, "time_discovered_started_ns", call->begin);
    gyre_pickle_text(out, "time_discovered_completed_ns");
    if (call->open)
        gyre_pickle_none(out);
    else
        gyre_pickle_number(out, call->end);
    gyre_pickle_text(out, "retired");
    gyre_pickle_bool(out, !call->open);
}

static void put_call_name(FILE *out, const struct gyre_bar *call)
{
    char text[64];
    const uint32_t verb = call->signature & 255;
    snprintf(text, sizeof text, "c10d:%s",
             verb == GYRE_SIGNATURE_ALL_TO_ALL_V ? "all_to_all_single" : gyre_verb_name(verb));
    put_key_text(out, "profiling_name", text);
    const char *words = group_words(text, call->comm);
    gyre_pickle_text(out, "process_group");
    gyre_pickle_begin_tuple(out);
    gyre_pickle_text(out, text);
    gyre_pickle_text(out, words);
    gyre_pickle_end_tuple(out);
}

static void put_entry(FILE *out, const struct gyre_bar *call, int64_t number, uint32_t n)
{
    const struct gyre_call_elements elements = gyre_calls_elements(call, n);
    const uint32_t type = call->signature >> 8 & 255;
    gyre_pickle_begin_dict(out);
    put_key_number(out, "record_id", number);
    put_key_number(out, "pg_id", call->comm);
    put_call_name(out, call);
    put_key_number(out, "collective_seq_id", (int64_t)call->sequence);
    put_key_number(out, "p2p_seq_id", 0);
    put_key_number(out, "op_id", (int64_t)call->sequence);
    put_torch_buffer(out, "input_sizes", "input_dtypes", elements.input, type);
    put_torch_buffer(out, "output_sizes", "output_dtypes", elements.output, type);
    put_state(out, call);
    put_key_number(out, "timeout_ms", 0);
    gyre_pickle_text(out, "is_p2p");
    gyre_pickle_bool(out, false);
    gyre_pickle_text(out, "frames");
    gyre_pickle_begin_list(out);
    gyre_pickle_end_list(out);
    gyre_pickle_end_dict(out);
}

/* Writes the calls of one communicator after the other: each has its own order in the analyser. */
static void put_entries(FILE *out, const struct gyre_calls *calls,
                        const struct gyre_rank_calls *rank)
{
    int64_t number = 0;
    gyre_pickle_text(out, "entries");
    gyre_pickle_begin_list(out);
    for (uint32_t c = 0; c < rank->comms; c++) {
        const uint64_t first = first_kept(calls, rank->comm[c]);
        const uint32_t n = gyre_calls_size(calls, rank->comm[c]);
        for (uint32_t i = 0; i < rank->calls; i++)
            if (rank->call[i]->comm == rank->comm[c] && rank->call[i]->sequence >= first)
                put_entry(out, rank->call[i], number++, n);
    }
    gyre_pickle_end_list(out);
}

void gyre_torch_put(FILE *out, const struct gyre_calls *calls, uint32_t place)
{
    gyre_pickle_begin(out);
    gyre_pickle_begin_dict(out);
    put_key_text(out, "version", DUMP_VERSION);
    put_key_number(out, "rank", calls->timeline->of[place].head.rank);
    put_groups(out, calls, &calls->of[place]);
    put_entries(out, calls, &calls->of[place]);
    gyre_pickle_end_dict(out);
    gyre_pickle_end(out);
}
