/* CIFAR-10: one of its files, or all of those for training in a folder, and the names of its
 * classes in a file beside them. Tested by tests/unit/data/dataset_test.c. */
#include "data/cifar.h"
#include "data/files/file.h"
#include "data/sources/sources.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCHES  5
#define NAMES_IN "batches.meta.txt"

struct batches {
    int count;
    char path[BATCHES][PATH_MAX];
    struct gyre_file file[BATCHES];
    uint64_t records[BATCHES];
};

static bool is_cifar_folder(const char *path)
{
    struct stat about;
    return !stat(path, &about) && S_ISDIR(about.st_mode);
}

bool gyre_source_is_cifar(const char *source)
{
    size_t length = strlen(source);
    return is_cifar_folder(source) || (length > 4 && strcmp(source + length - 4, ".bin") == 0);
}

/* -- pixels and labels ------------------------------------------------------------------------- */

static void name_batches(struct batches *all, const char *source)
{
    bool folder = is_cifar_folder(source);
    all->count = folder ? BATCHES : 1;
    for (int i = 0; i < all->count; i++)
        snprintf(all->path[i], sizeof all->path[i], folder ? "%s/data_batch_%d.bin" : "%s", source,
                 i + 1);
}

static int map_batches(struct batches *all, struct gyre_dataset *set, struct gyre_trouble *trouble)
{
    for (int i = 0; i < all->count; i++) {
        int status = gyre_file_map(all->path[i], &all->file[i], trouble);
        if (!status)
            status = gyre_cifar_count(all->path[i], all->file[i].length, &all->records[i], trouble);
        if (status)
            return status;
        set->samples += all->records[i];
    }
    return 0;
}

static int copy_batches(const struct batches *all, struct gyre_dataset *set,
                        struct gyre_trouble *trouble)
{
    uint8_t *pixels = set->owned[0] = malloc(set->samples * GYRE_CIFAR_PIXELS);
    int64_t *label = set->owned[1] = malloc(set->samples * sizeof *label);
    uint64_t from = 0;
    int status = pixels && label ? 0 : gyre_source_no_memory(all->path[0], trouble);
    set->pixels = pixels;
    set->label = label;
    for (int i = 0; !status && i < all->count; i++) {
        status = gyre_cifar_take(all->path[i], all->file[i].data, all->records[i],
                                 pixels + from * GYRE_CIFAR_PIXELS, label + from, trouble);
        from += all->records[i];
    }
    return status;
}

static int read_batches(struct gyre_dataset *set, const char *source, struct gyre_trouble *trouble)
{
    struct batches *all = calloc(1, sizeof *all);
    if (!all)
        return gyre_source_no_memory(source, trouble);
    name_batches(all, source);
    int status = map_batches(all, set, trouble);
    if (!status)
        status = copy_batches(all, set, trouble);
    for (int i = 0; i < all->count; i++)
        gyre_file_unmap(&all->file[i]);
    free(all);
    return status;
}

/* -- names of classes -------------------------------------------------------------------------- */

static int check_class_names(const struct gyre_classes *names, const char *path,
                             struct gyre_trouble *trouble)
{
    if (names->count != GYRE_CIFAR_CLASSES)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: has %llu names; CIFAR-10 has 10 classes, a line each", path,
                                (unsigned long long)names->count);
    for (uint64_t i = 1; i < names->count; i++)
        if (strcmp(names->name[i - 1], names->name[i]) >= 0)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s, line %llu: \"%.40s\" comes behind \"%.40s\"; CIFAR-10's "
                                    "names are in the order of the alphabet",
                                    path, (unsigned long long)i + 1, names->name[i],
                                    names->name[i - 1]);
    return 0;
}

static int read_names(struct gyre_classes *names, const char *path, struct gyre_trouble *trouble)
{
    struct gyre_file file;
    int status = gyre_file_map(path, &file, trouble);
    if (status)
        return status;
    uint64_t length = file.length;
    while (length && strchr("\r\n", file.data[length - 1]))
        length--;
    char *text = strndup((const char *)file.data, length);
    status = text ? gyre_classes_read(names, text, trouble) : gyre_source_no_memory(path, trouble);
    free(text);
    gyre_file_unmap(&file);
    return status ? status : check_class_names(names, path, trouble);
}

static int find_names(struct gyre_dataset *set, const char *source, struct gyre_trouble *trouble)
{
    char path[PATH_MAX];
    const char *slash = strrchr(source, '/');
    int folder = is_cifar_folder(source) ? (int)strlen(source) : slash ? (int)(slash - source) : 0;
    snprintf(path, sizeof path, "%.*s%s" NAMES_IN, folder, source, folder || slash ? "/" : "");
    return access(path, F_OK) ? 0 : read_names(&set->names, path, trouble);
}

/* -- the whole --------------------------------------------------------------------------------- */

int gyre_source_cifar(struct gyre_dataset *set, const char *source, struct gyre_trouble *trouble)
{
    int status = read_batches(set, source, trouble);
    if (status == -ENOENT && is_cifar_folder(source))
        gyre_trouble_wrap(trouble, "%s: a folder of data is CIFAR-10's, in its binary version",
                          source);
    set->dims = 3;
    set->shape[0] = GYRE_CIFAR_CHANNELS;
    set->shape[1] = set->shape[2] = GYRE_CIFAR_SIDE;
    set->classes = GYRE_CIFAR_CLASSES;
    return status ? status : find_names(set, source, trouble);
}
