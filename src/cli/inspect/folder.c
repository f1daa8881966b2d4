/* gyre inspect DIR: every generation of a checkpoint's folder, each checked to its last byte.
 * Tested by tests/program/cli/inspect.c. */
#include "cli/inspect/inside.h"

#include "base/printable.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>

static void print_folder_table(const struct gyre_generation_report *report)
{
    printf("%12s  %-8s %8s %14s\n", "step", "state", "ranks", "bytes");
    for (uint64_t i = 0; i < report->count; i++) {
        const struct gyre_generation_found *generation = &report->generation[i];
        if (generation->trouble.status)
            printf("%12" PRIu64 "  %-8s %s\n", generation->step, "damaged",
                   generation->trouble.text);
        else
            printf("%12" PRIu64 "  %-8s %8" PRIu64 " %14" PRIu64 "\n", generation->step, "whole",
                   generation->world, generation->bytes);
    }
}

static void print_texts(const char *folder, const struct gyre_generation *checkpoint)
{
    char key[GYRE_STORED_SHOWN], value[GYRE_STORED_SHOWN];
    printf("\nnewest whole: step %" PRIu64 ", model %.16s\n", gyre_generation_step(checkpoint),
           gyre_generation_model_hash(checkpoint));
    for (uint64_t i = 0; i < gyre_generation_texts(checkpoint); i++) {
        const struct gyre_stored_text *text = gyre_generation_text_at(checkpoint, i);
        printf("%s: %s\n", gyre_printable(key, sizeof key, text->key),
               gyre_printable(value, sizeof value, text->value));
    }
    printf("`gyre inspect %s/step-%08" PRIu64 "/model.safetensors` lists its tensors\n", folder,
           gyre_generation_step(checkpoint));
}

static void put_generation(struct gyre_json_out *out,
                           const struct gyre_generation_found *generation)
{
    gyre_json_put_text(out, "{\"step\":");
    gyre_json_put_whole(out, generation->step);
    if (generation->trouble.status) {
        gyre_json_put_text(out, ",\"whole\":false,\"why\":");
        gyre_json_put_string(out, generation->trouble.text);
    } else {
        gyre_json_put_text(out, ",\"whole\":true,\"world\":");
        gyre_json_put_whole(out, generation->world);
        gyre_json_put_text(out, ",\"bytes\":");
        gyre_json_put_whole(out, generation->bytes);
    }
    gyre_json_put_text(out, "}");
}

static void print_folder_json(const char *folder, const struct gyre_generation_report *report,
                              const struct gyre_generation *newest)
{
    struct gyre_json_out out = {.stream = stdout};
    gyre_json_put_text(&out, "{\"folder\":");
    gyre_json_put_string(&out, folder);
    gyre_json_put_text(&out, ",\n \"generations\":[");
    for (uint64_t i = 0; i < report->count; i++) {
        gyre_json_put_text(&out, i ? ",\n  " : "\n  ");
        put_generation(&out, &report->generation[i]);
    }
    gyre_json_put_text(&out, "],\n \"texts\":{");
    for (uint64_t i = 0; newest && i < gyre_generation_texts(newest); i++) {
        const struct gyre_stored_text *text = gyre_generation_text_at(newest, i);
        gyre_json_put_text(&out, i ? "," : "");
        gyre_json_put_string(&out, text->key);
        gyre_json_put_text(&out, ":");
        gyre_json_put_string(&out, text->value);
    }
    gyre_json_put_text(&out, "}}\n");
}

int gyre_inspect_folder(const char *folder, bool json)
{
    struct gyre_trouble trouble = {0}, none = {0};
    struct gyre_generation_report report, skipped;
    struct gyre_generation *newest;
    int status = gyre_generation_look(folder, &report, &trouble);
    if (status)
        return gyre_cli_fail("inspect", status, &trouble);
    status = gyre_generation_newest(&newest, folder, &skipped, &none);
    if (json)
        print_folder_json(folder, &report, newest);
    else
        print_folder_table(&report);
    if (newest && !json)
        print_texts(folder, newest);
    gyre_generation_report_free(&report);
    gyre_generation_report_free(&skipped);
    gyre_generation_close(newest);
    return status ? gyre_cli_fail("inspect", status, &none) : 0;
}
