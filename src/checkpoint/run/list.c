/* The list of what a training consists of: entries in the order in which they were added. Tested by
 * tests/program/ddp/checkpoint.c. */
#include "checkpoint/run/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int gyre_run_no_memory(const char *call)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    trouble->status = 0;
    return gyre_trouble_set(trouble, -ENOMEM, "%s: no memory", call);
}

static int check_checkpoint_options(const struct gyre_checkpoint_options *options)
{
    if (gyre_check_size("gyre_checkpoint_options", options->size, sizeof *options,
                        gyre_thread_trouble()))
        return GYRE_INVALID;
    if (!options->keep)
        return gyre_refuse("gyre_checkpoint_options.keep is 0: at least 1 generation stays");
    return 0;
}

int gyre_checkpoint_create(struct gyre_checkpoint **checkpoint, struct gyre_comm *comm,
                           const struct gyre_checkpoint_options *options)
{
    const struct gyre_checkpoint_options standard = GYRE_CHECKPOINT_OPTIONS_INIT;
    if (!checkpoint)
        return gyre_refuse("gyre_checkpoint_create: nowhere to put the checkpoint (NULL)");
    *checkpoint = NULL;
    if (!comm)
        return gyre_refuse("gyre_checkpoint_create: the communicator is NULL");
    options = options ? options : &standard;
    int status = check_checkpoint_options(options);
    if (status)
        return status;
    struct gyre_checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        return gyre_run_no_memory("gyre_checkpoint_create");
    c->comm = comm;
    c->keep = options->keep;
    c->end = &c->bound;
    *checkpoint = c;
    return 0;
}

void *gyre_run_bind(struct gyre_checkpoint *c, const struct gyre_bound_kind *kind, size_t bytes)
{
    struct gyre_bound *bound = calloc(1, bytes);
    if (!bound) {
        gyre_run_no_memory("gyre_checkpoint_add");
        return NULL;
    }
    bound->kind = kind;
    bound->comm = c->comm;
    *c->end = bound;
    c->end = &bound->next;
    return bound;
}

/* -- texts ------------------------------------------------------------------------------------- */

static int append_text_copy(struct gyre_checkpoint *c, const char *key, const char *value)
{
    struct gyre_stored_text *text = realloc(c->text, (c->texts + 1) * sizeof *text);
    if (!text)
        return gyre_run_no_memory("gyre_checkpoint_add_text");
    c->text = text;
    text[c->texts] = (struct gyre_stored_text){strdup(key), strdup(value)};
    if (text[c->texts].key && text[c->texts].value) {
        c->texts++;
        return 0;
    }
    free((void *)(uintptr_t)text[c->texts].key);
    free((void *)(uintptr_t)text[c->texts].value);
    return gyre_run_no_memory("gyre_checkpoint_add_text");
}

int gyre_checkpoint_add_text(struct gyre_checkpoint *c, const char *key, const char *value)
{
    if (!c || !key || !value)
        return gyre_refuse("gyre_checkpoint_add_text: the %s is NULL", !c     ? "checkpoint"
                                                                       : !key ? "key"
                                                                              : "value");
    for (uint64_t i = 0; i < c->texts; i++)
        if (strcmp(c->text[i].key, key) == 0)
            return gyre_refuse("gyre_checkpoint_add_text: \"%.80s\" is on the list already", key);
    return append_text_copy(c, key, value);
}
