/* A list saved and loaded, by all ranks together. Nothing is changed, and nothing written, before
 * all ranks have said that they can:
 *
 *     save   list ─▶ [examine] ─▶ agree ─▶ collect ─▶ [write] ─▶ agree ─▶ release
 *     open   [newest whole generation] ─▶ agree ─▶ its facts to all
 *     load   list ─▶ [find, examine] ─▶ agree ─▶ [copy] ─▶ give ─▶ release      [ ]: rank 0
 *
 * What ranks agree on are a status and the items, line by line, so lists that differ are told and
 * not met by collectives that differ. Tested by tests/program/ddp/checkpoint.c. */
#include "checkpoint/run/run.h"

#include "base/log.h"
#include "checkpoint/run/inside.h"
#include "ddp/agreement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -- a pass ------------------------------------------------------------------------------------ */

static struct gyre_run_pass *begin_pass(struct gyre_checkpoint *c, bool loading)
{
    c->pass = (struct gyre_run_pass){.loading = loading, .world = (uint64_t)gyre_size(c->comm)};
    return &c->pass;
}

static int end_pass(struct gyre_checkpoint *c, int status, struct gyre_trouble *trouble)
{
    for (struct gyre_bound *bound = c->bound; bound; bound = bound->next)
        if (bound->kind->release)
            bound->kind->release(bound);
    gyre_run_items_free(&c->pass.items);
    gyre_generation_close(c->pass.generation);
    c->pass.generation = NULL;
    return status ? gyre_trouble_set(trouble, status, "%s", c->pass.trouble.text) : 0;
}

static int list_all(struct gyre_checkpoint *c)
{
    int status = 0;
    for (struct gyre_bound *bound = c->bound; bound && !status; bound = bound->next) {
        bound->first = c->pass.items.count;
        bound->lost = NULL;
        status = bound->kind->list(bound, &c->pass);
        for (uint64_t i = bound->first; i < c->pass.items.count; i++)
            c->pass.items.item[i].optional = bound->optional;
    }
    return status ? status : gyre_run_items_check(&c->pass.items, &c->pass.trouble);
}

static int examine_all(struct gyre_checkpoint *c)
{
    int status = 0;
    for (struct gyre_bound *bound = c->bound; bound && !status; bound = bound->next)
        if (bound->kind->examine)
            status = bound->kind->examine(bound, &c->pass);
    return status;
}

/* What collectives return has its story in the communicator. */
static int carry_all(struct gyre_checkpoint *c)
{
    int status = 0;
    for (struct gyre_bound *bound = c->bound; bound && !status; bound = bound->next) {
        int (*move)(struct gyre_bound *, struct gyre_run_pass *) =
            c->pass.loading ? bound->kind->give : bound->kind->collect;
        status = move ? move(bound, &c->pass) : 0;
    }
    return status ? gyre_trouble_set(&c->pass.trouble, status, "%s", gyre_error(c->comm)) : 0;
}

/* -- agreeing ---------------------------------------------------------------------------------- */

static int agree(struct gyre_checkpoint *c, int status)
{
    int culprit;
    status = gyre_agree(c->comm, status, &c->pass.trouble, &culprit);
    if (culprit > 0)
        gyre_trouble_wrap(&c->pass.trouble, "rank %d", culprit);
    return status;
}

static struct gyre_lines describe_items(const struct gyre_run_items *items)
{
    struct gyre_lines lines = {0};
    for (uint64_t i = 0; i < items->count; i++) {
        const struct gyre_run_item *item = &items->item[i];
        gyre_lines_put(&lines, "\"%.200s\" of %s [", item->name, gyre_stored_type_name(item->type));
        for (uint32_t d = 0; d < item->dims; d++)
            gyre_lines_put(&lines, "%s%llu", d ? ", " : "", (unsigned long long)item->shape[d]);
        gyre_lines_put(&lines, "] in %s\n",
                       item->part == GYRE_GENERATION_MODEL ? "the model" : "the training");
    }
    return lines;
}

/* Can all ranks move what is on the list, and is it the same? */
static int agree_on_list(struct gyre_checkpoint *c, int status)
{
    status = agree(c, status);
    if (status)
        return status;
    struct gyre_lines lines = describe_items(&c->pass.items);
    status = gyre_agree_on_lines(c->comm, &lines, &c->pass.trouble);
    if (status && !c->pass.trouble.status)
        gyre_trouble_set(&c->pass.trouble, status, "%s", gyre_error(c->comm));
    else if (status == GYRE_MISMATCH)
        gyre_trouble_wrap(&c->pass.trouble, "ranks have other things on their checkpoint's list");
    free(lines.text);
    return status;
}

/* -- saving ------------------------------------------------------------------------------------ */

static int write_items(struct gyre_checkpoint *c, const char *folder,
                       const struct gyre_stored_text *text, uint64_t texts)
{
    struct gyre_run_pass *pass = &c->pass;
    struct gyre_generation_content content = {.step = pass->step,
                                              .world = pass->world,
                                              .text = text,
                                              .texts = texts,
                                              .spared = c->spared};
    int status = 0;
    for (int part = 0; part < GYRE_GENERATION_PARTS && !status; part++)
        status = gyre_run_items_of(&pass->items, (enum gyre_generation_part)part,
                                   &content.part[part], &pass->trouble);
    if (!status)
        status = gyre_generation_save(folder, &content, c->keep, &pass->trouble);
    for (int part = 0; part < GYRE_GENERATION_PARTS; part++)
        free((void *)(uintptr_t)content.part[part].tensor);
    return status;
}

/* With the texts of the list, then the notes. */
static int write_all(struct gyre_checkpoint *c, const char *folder,
                     const struct gyre_stored_text *note, uint64_t notes)
{
    struct gyre_stored_text *text = calloc(c->texts + notes + 1, sizeof *text);
    if (!text)
        return gyre_trouble_set(&c->pass.trouble, -ENOMEM, "no memory for a checkpoint's texts");
    for (uint64_t i = 0; i < c->texts + notes; i++)
        text[i] = i < c->texts ? c->text[i] : note[i - c->texts];
    int status = write_items(c, folder, text, c->texts + notes);
    free(text);
    return status;
}

int gyre_run_save(struct gyre_checkpoint *c, const char *folder, uint64_t step,
                  const struct gyre_stored_text *note, uint64_t notes, struct gyre_trouble *trouble)
{
    const bool root = gyre_rank(c->comm) == 0;
    begin_pass(c, false)->step = step;
    int status = list_all(c);
    if (!status && root)
        status = examine_all(c);
    status = agree_on_list(c, status);
    if (!status)
        status = carry_all(c);
    if (!status)
        status = agree(c, root ? write_all(c, folder, note, notes) : 0);
    return end_pass(c, status, trouble);
}

void gyre_run_spare(struct gyre_checkpoint *c, uint64_t step)
{
    c->spared = step;
}

/* -- loading ----------------------------------------------------------------------------------- */

/* What rank 0 found, to all. */
static int tell_facts(struct gyre_checkpoint *c)
{
    struct gyre_run_pass *pass = &c->pass;
    uint64_t facts[3] = {0};
    if (pass->generation) {
        facts[0] = gyre_generation_step(pass->generation);
        facts[1] = gyre_generation_world(pass->generation);
        facts[2] =
            gyre_safetensors_find(gyre_generation_file(pass->generation, GYRE_GENERATION_TRAINING),
                                  "wire.scale") != NULL;
    }
    int status = gyre_broadcast(c->comm, facts, facts, 3, GYRE_U64, 0);
    pass->step = facts[0];
    pass->world = facts[1];
    pass->wired = facts[2] != 0;
    return status ? gyre_trouble_set(&pass->trouble, status, "%s", gyre_error(c->comm)) : 0;
}

int gyre_run_open(struct gyre_checkpoint *c, const char *folder, struct gyre_trouble *trouble)
{
    struct gyre_run_pass *pass = begin_pass(c, true);
    int status = gyre_rank(c->comm)
                     ? 0
                     : gyre_generation_newest(&pass->generation, folder, NULL, &pass->trouble);
    status = agree(c, status);
    if (!status)
        status = tell_facts(c);
    return status ? end_pass(c, status, trouble) : 0;
}

const struct gyre_generation *gyre_run_generation(const struct gyre_checkpoint *c)
{
    return c->pass.generation;
}

static int compare_texts(struct gyre_checkpoint *c)
{
    for (uint64_t i = 0; i < c->texts; i++) {
        const char *saved = gyre_generation_text(c->pass.generation, c->text[i].key);
        if (saved && strcmp(saved, c->text[i].value) != 0)
            return gyre_trouble_set(&c->pass.trouble, GYRE_INVALID,
                                    "the checkpoint of step %llu was saved with %.80s \"%.200s\", "
                                    "here it is \"%.200s\"",
                                    (unsigned long long)c->pass.step, c->text[i].key, saved,
                                    c->text[i].value);
    }
    return 0;
}

/* Rank 0. */
static int examine_generation(struct gyre_checkpoint *c)
{
    int status = compare_texts(c);
    if (!status)
        status = gyre_run_items_find(&c->pass.items, c->pass.generation, &c->pass.trouble);
    return status ? status : examine_all(c);
}

static void copy_found(const struct gyre_run_items *items)
{
    for (uint64_t i = 0; i < items->count; i++)
        if (items->item[i].found && items->item[i].data)
            memcpy(items->item[i].data, items->item[i].found, items->item[i].bytes);
}

int gyre_run_load(struct gyre_checkpoint *c, int refused, uint64_t *step,
                  struct gyre_trouble *trouble)
{
    const bool root = gyre_rank(c->comm) == 0;
    if (refused)
        gyre_trouble_set(&c->pass.trouble, refused, "%s", trouble->text);
    int status = refused ? refused : list_all(c);
    if (!status && root)
        status = examine_generation(c);
    status = agree_on_list(c, status);
    if (!status && root)
        copy_found(&c->pass.items);
    if (!status)
        status = carry_all(c);
    if (!status) {
        *step = c->pass.step;
        c->world = (int)c->pass.world;
    }
    trouble->status = 0;
    return end_pass(c, status, trouble);
}

void gyre_run_allow_missing(struct gyre_checkpoint *c)
{
    struct gyre_bound *last = c->bound;
    while (last && last->next)
        last = last->next;
    if (last)
        last->optional = true;
}

const char *gyre_run_lost(const struct gyre_checkpoint *c, int k)
{
    const struct gyre_bound *bound = c->bound;
    while (bound && (!bound->lost || k-- > 0))
        bound = bound->next;
    return bound ? bound->lost : NULL;
}

/* -- gyre/checkpoint.h ------------------------------------------------------------------------- */

void gyre_checkpoint_destroy(struct gyre_checkpoint *c)
{
    for (struct gyre_bound *bound = c ? c->bound : NULL, *next; bound; bound = next) {
        next = bound->next;
        if (bound->kind->destroy)
            bound->kind->destroy(bound);
        free(bound);
    }
    for (uint64_t i = 0; c && i < c->texts; i++) {
        free((void *)(uintptr_t)c->text[i].key);
        free((void *)(uintptr_t)c->text[i].value);
    }
    if (c)
        free(c->text);
    free(c);
}

int gyre_checkpoint_save(struct gyre_checkpoint *c, const char *folder, uint64_t step)
{
    struct gyre_trouble trouble = {0};
    if (!c || !folder)
        return gyre_refuse("gyre_checkpoint_save: the %s is NULL", c ? "folder" : "checkpoint");
    int status = gyre_run_save(c, folder, step, NULL, 0, &trouble);
    if (status)
        *gyre_thread_trouble() = trouble;
    return status;
}

static void log_lost(const struct gyre_checkpoint *c)
{
    const char *name;
    for (int k = 0; (name = gyre_run_lost(c, k)); k++)
        gyre_log(GYRE_LOG_WARN,
                 "the checkpoint of %d ranks has no \"%s\" for %d ranks: none is loaded", c->world,
                 name, gyre_size(c->comm));
}

int gyre_checkpoint_load(struct gyre_checkpoint *c, const char *folder, uint64_t *step)
{
    struct gyre_trouble trouble = {0};
    if (!c || !folder || !step)
        return gyre_refuse("gyre_checkpoint_load: the %s is NULL", !c        ? "checkpoint"
                                                                   : !folder ? "folder"
                                                                             : "place of the step");
    int status = gyre_run_open(c, folder, &trouble);
    if (!status)
        status = gyre_run_load(c, 0, step, &trouble);
    if (status)
        *gyre_thread_trouble() = trouble;
    else if (gyre_rank(c->comm) == 0)
        log_lost(c);
    return status;
}

int gyre_checkpoint_world(const struct gyre_checkpoint *c)
{
    return c ? c->world : 0;
}
