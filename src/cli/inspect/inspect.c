/* gyre inspect FILE|DIR: the tensors of a safetensors file with what their numbers look like, or
 * the generations of a checkpoint's folder and which of them are whole. What cannot be used makes
 * the exit code 2. Tested by tests/program/cli/inspect.c. */
#include "cli/inspect/inside.h"

#include "base/printable.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/flags.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SHAPE_MAX 64

enum { NO_VALUES, JSON, HELP, FLAGS };

static const struct gyre_flag inspect_flags[FLAGS] = {
    [NO_VALUES] = {"no-values", 0, NULL, "names and shapes only; the tensors are not read"},
    [JSON] = {"json", 0, NULL, "print JSON instead of a table"},
    [HELP] = {"help", 'h', NULL, "this page"},
};

static const char *shape_of(const struct gyre_stored_tensor *tensor, char text[SHAPE_MAX])
{
    size_t used = (size_t)snprintf(text, SHAPE_MAX, "[");
    for (uint32_t i = 0; i < tensor->dims && used < SHAPE_MAX - 28; i++)
        used += (size_t)snprintf(text + used, SHAPE_MAX - used, "%s%" PRIu64, i ? "," : "",
                                 tensor->shape[i]);
    snprintf(text + used, SHAPE_MAX - used, used < SHAPE_MAX - 28 ? "]" : ",...]");
    return text;
}

static const char *or_dash(const char *text)
{
    return *text ? text : "-";
}

static void print_tensor(const struct gyre_stored_tensor *tensor, int width, bool with_values)
{
    char name[GYRE_STORED_SHOWN], shape[SHAPE_MAX];
    struct gyre_inspect_values values;
    printf("%-*s %-10s %-16s %12" PRIu64, width, gyre_printable(name, sizeof name, tensor->name),
           gyre_stored_type_name(tensor->type), shape_of(tensor, shape), tensor->bytes);
    if (with_values) {
        gyre_inspect_values_of(tensor, false, &values);
        printf(" %13s %13s %13s", or_dash(values.min), or_dash(values.max), or_dash(values.mean));
        if (values.floats)
            printf(" %8" PRIu64 " %8" PRIu64, values.nan, values.inf);
        else
            printf(" %8s %8s", "-", "-");
    }
    putchar('\n');
}

static int widest_name(const struct gyre_safetensors *file)
{
    char name[GYRE_STORED_SHOWN];
    size_t most = sizeof "tensor" - 1;
    for (uint64_t i = 0; i < gyre_safetensors_count(file); i++) {
        size_t length =
            strlen(gyre_printable(name, sizeof name, gyre_safetensors_at(file, i)->name));
        most = length > most ? length : most;
    }
    return (int)most;
}

static void print_tensor_table(const struct gyre_safetensors *file, bool with_values)
{
    uint64_t count = gyre_safetensors_count(file), elements, bytes, numbers = 0, total = 0;
    int width = widest_name(file);
    printf("%-*s %-10s %-16s %12s", width, "tensor", "type", "shape", "bytes");
    if (with_values)
        printf(" %13s %13s %13s %8s %8s", "min", "max", "mean", "nan", "inf");
    putchar('\n');
    for (uint64_t i = 0; i < count; i++) {
        const struct gyre_stored_tensor *tensor = gyre_safetensors_at(file, i);
        print_tensor(tensor, width, with_values);
        gyre_stored_size(tensor->type, tensor->shape, tensor->dims, &elements, &bytes);
        numbers += elements;
        total += bytes;
    }
    printf("\n%" PRIu64 " tensors, %" PRIu64 " numbers, %" PRIu64 " bytes\n", count, numbers,
           total);
    for (uint64_t i = 0; i < gyre_safetensors_texts(file); i++) {
        const struct gyre_stored_text *text = gyre_safetensors_text_at(file, i);
        char key[GYRE_STORED_SHOWN], value[GYRE_STORED_SHOWN];
        printf("%s: %s\n", gyre_printable(key, sizeof key, text->key),
               gyre_printable(value, sizeof value, text->value));
    }
}

static int inspect(const char *path, const bool given[FLAGS])
{
    struct gyre_trouble trouble = {0};
    struct gyre_safetensors *file;
    struct stat about;
    if (!stat(path, &about) && S_ISDIR(about.st_mode))
        return gyre_inspect_folder(path, given[JSON]);
    int status = gyre_safetensors_open(&file, path, &trouble);
    if (status)
        return gyre_cli_fail("inspect", status, &trouble);
    if (given[JSON])
        gyre_inspect_print_json(file, path, !given[NO_VALUES]);
    else
        print_tensor_table(file, !given[NO_VALUES]);
    gyre_safetensors_close(file);
    return 0;
}

int gyre_cli_inspect(char **argv)
{
    struct gyre_flags flags = {.argv = argv, .flag = inspect_flags, .count = FLAGS};
    struct gyre_trouble trouble = {0};
    bool given[FLAGS] = {false};
    const char *path = NULL;
    int index = 0;
    while (index != GYRE_INVALID && *flags.argv) { /* flags may stand behind the path */
        while ((index = gyre_flags_next(&flags, &trouble)) >= 0)
            given[index] = true;
        if (index == GYRE_FLAGS_END && *flags.argv && path)
            index = gyre_trouble_set(&trouble, GYRE_INVALID, "unexpected word '%s'", *flags.argv);
        else if (index == GYRE_FLAGS_END && *flags.argv)
            path = *flags.argv++;
    }
    if (given[HELP] && !trouble.status) {
        puts("usage: gyre inspect [FLAGS] FILE|DIR\n\nFILE is a safetensors file, DIR a folder of "
             "checkpoints.\n");
        gyre_flags_print(inspect_flags, FLAGS);
        return 0;
    }
    if (!path)
        gyre_trouble_set(&trouble, GYRE_INVALID,
                         "which file? Give a safetensors file or a folder of checkpoints");
    return trouble.status ? gyre_cli_fail("inspect", GYRE_INVALID, &trouble) : inspect(path, given);
}
