/* The lines of a hosts file. Tested by tests/unit/launch/hosts_file_test.c. */
#include "launch/hosts_file.h"

#include "base/disk/regular.h"
#include "base/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MOST (1u << 20)
#define BLANKS     " \t\r"

struct hosts_file {
    const char *path;
    int each, number; /* of the line */
    struct gyre_hosts *hosts;
    struct gyre_seating *seating;
    int *line; /* on which each host stands */
    struct gyre_trouble *trouble;
};

/* Puts the place before the sentence that says what is wrong there. */
static int refuse_hosts_line(const struct hosts_file *file)
{
    char what[512];
    snprintf(what, sizeof what, "%.500s", file->trouble->text);
    *file->trouble = (struct gyre_trouble){0};
    return gyre_trouble_set(file->trouble, GYRE_INVALID, "%s:%d: %s", file->path, file->number,
                            what);
}

/* "slots=4" behind a host. */
static int read_slots(const struct hosts_file *file, char *word, int *size)
{
    static const char slots[] = "slots=";
    char *more = strtok(NULL, BLANKS);
    int64_t value = 0;
    if (strncmp(word, slots, sizeof slots - 1) || more)
        return gyre_trouble_set(file->trouble, GYRE_INVALID,
                                "\"%s\" stands behind the host; expected HOST, HOST:RANKS or HOST "
                                "slots=RANKS",
                                more ? more : word);
    int status = gyre_parse_int("slots", word + sizeof slots - 1, 1, GYRE_RANKS_PER_NODE_MAX,
                                &value, file->trouble);
    *size = (int)value;
    return status;
}

static int refuse_second(const struct hosts_file *file, const char *name)
{
    for (int i = 0; i < file->seating->nodes; i++)
        if (!strcmp(file->hosts->name[i], name))
            return gyre_trouble_set(file->trouble, GYRE_INVALID,
                                    "host '%s' stands on line %d, too; give it once, with all its "
                                    "ranks",
                                    name, file->line[i]);
    return 0;
}

static int add_listed_host(struct hosts_file *file, const char *name, int size)
{
    int node = file->seating->nodes;
    int status = refuse_second(file, name);
    if (!status && node == GYRE_NODES_MAX)
        status =
            gyre_trouble_set(file->trouble, GYRE_INVALID, "more than %d hosts", GYRE_NODES_MAX);
    if (status)
        return status;
    snprintf(file->hosts->name[node], sizeof file->hosts->name[node], "%s", name);
    file->seating->size[node] = size;
    file->line[node] = file->number;
    file->seating->nodes++;
    return 0;
}

/* Hosts of one line; `slots` behind them are for each. */
static int read_hosts_line(struct hosts_file *file, char *line)
{
    static struct gyre_hosts some;
    static struct gyre_seating seats;
    line[strcspn(line, "#")] = 0;
    char *word = strtok(line, BLANKS), *behind = word ? strtok(NULL, BLANKS) : NULL;
    int slots = 0, status = 0;
    if (!word)
        return 0;
    status = gyre_seating_parse_hosts("the line", word, file->each, &some, &seats, file->trouble);
    if (!status && behind)
        status = read_slots(file, behind, &slots);
    for (int i = 0; !status && i < seats.nodes; i++)
        status = add_listed_host(file, some.name[i], slots ? slots : seats.size[i]);
    return status;
}

static int read_hosts_lines(struct hosts_file *file, char *text)
{
    int status = 0;
    for (char *rest = text, *line; !status && (line = strsep(&rest, "\n"));) {
        file->number++;
        if (read_hosts_line(file, line))
            status = refuse_hosts_line(file);
    }
    if (!status && !file->seating->nodes)
        status = gyre_trouble_set(file->trouble, GYRE_INVALID,
                                  "%s names no host; expected lines such as a:4", file->path);
    return status;
}

int gyre_hosts_file_read(const char *path, int each, struct gyre_hosts *hosts,
                         struct gyre_seating *seating, struct gyre_trouble *trouble)
{
    static struct gyre_hosts found;
    static struct gyre_seating sizes;
    static int line[GYRE_NODES_MAX];
    struct hosts_file file = {.path = path,
                              .each = each,
                              .hosts = &found,
                              .seating = &sizes,
                              .line = line,
                              .trouble = trouble};
    char *text = NULL;
    uint64_t length;
    sizes.nodes = 0;
    int status = gyre_regular_read(path, BYTES_MOST, &text, &length, trouble);
    if (!status && strlen(text) != length)
        status = gyre_trouble_set(trouble, GYRE_INVALID, "%s has a zero byte", path);
    if (!status)
        status = read_hosts_lines(&file, text);
    free(text);
    if (!status) {
        *hosts = found;
        *seating = sizes;
    }
    return status;
}
