/* Slurm's compressed lists, expanded without scontrol (which containers lack).
 *
 * A node list is names separated by commas, and inside a name each bracket holds numbers and
 * ranges, zero-padded as written:
 *
 *     rack[1-2]n[08-10],login   ─▶   rack1n08 rack1n09 rack1n10 rack2n08 rack2n09 rack2n10 login
 *
 *     list  = name (',' name)*           part  = text | '[' range (',' range)* ']'
 *     name  = part part*                 range = number | number '-' number
 *
 * In a name with several brackets the last one turns fastest. expand_from() recurses once for each
 * bracket, at most BRACKETS_MAX deep. A first pass finds every fault and counts the names, so
 * "x[0-999999999]" is refused before any name is handed out.
 *
 * Variables with STEP in their names tell of this srun, the others of the allocation around it. A
 * task that srun started has SLURM_STEP_ID. sbatch's own script has SLURM_PROCID=0 but no step, and
 * salloc's interactive shell has one of the reserved numbers at the upper end. */
#include "transport/job/inside.h"
#include "base/env.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX      65536
#define NAME_MAX_LEN   255
#define BRACKETS_MAX   8
#define DIGITS_MAX     9
#define TASKS_MAX      (1 << 20)
#define RESERVED_STEPS INT64_C(0xfffffff0) /* batch, extern and interactive steps live above */

/* -- node lists -------------------------------------------------------------------------------- */

struct expansion {
    const char *list; /* the whole list, for messages */
    int (*each)(const char *name, void *context);
    void *context;
    struct gyre_trouble *trouble;
    char name[NAME_MAX_LEN + 1];
    uint64_t names; /* counted before the first is given out */
};

struct range {
    uint64_t first, last;
    int width; /* digits as written, so that 08 stays 08 */
};

static int refuse_slurm(struct expansion *expansion, const char *at, const char *why)
{
    return gyre_trouble_set(expansion->trouble, GYRE_INVALID,
                            "node list \"%s\" makes no sense at character %d: %s; expected names "
                            "such as a1,b[01-03,07]",
                            expansion->list, (int)(at - expansion->list) + 1, why);
}

static bool read_slurm_number(const char **at, uint64_t *value)
{
    const char *start = *at;
    for (*value = 0; isdigit((unsigned char)**at); (*at)++) {
        *value = *value * 10 + (uint64_t)(**at - '0');
        if (*at - start >= DIGITS_MAX) {
            return false;
        }
    }
    return *at > start;
}

/* Reads a range inside a bracket; leaves *at behind it, on ',' or ']'. */
static int read_number_range(struct expansion *expansion, const char **at, struct range *range)
{
    const char *start = *at;
    if (!read_slurm_number(at, &range->first)) {
        return refuse_slurm(expansion, *at, "expected a number of at most 9 digits");
    }
    range->width = (int)(*at - start);
    range->last = range->first;
    if (**at == '-') {
        (*at)++;
        if (!read_slurm_number(at, &range->last)) {
            return refuse_slurm(expansion, *at, "expected a number of at most 9 digits");
        }
    }
    if (range->last < range->first) {
        return refuse_slurm(expansion, start, "the range runs backwards");
    }
    return **at == ',' || **at == ']' ? 0 : refuse_slurm(expansion, *at, "expected , - or ] here");
}

/* Counts the numbers of a bracket, from its '[' on; leaves *at behind its ']'. */
static int measure_bracket(struct expansion *expansion, const char **at, uint64_t *numbers)
{
    struct range range = {0, 0, 0};
    *numbers = 0;
    do {
        (*at)++;
        int status = read_number_range(expansion, at, &range);
        if (status) {
            return status;
        }
        *numbers += range.last - range.first + 1;
    } while (**at == ',');
    (*at)++;
    return *numbers <= NAMES_MAX ? 0 : refuse_slurm(expansion, *at, "more than 65536 names");
}

/* Counts the names for which one name stands, from its start on; leaves *at on ',' or the end. */
static int measure_name(struct expansion *expansion, const char **at, uint64_t *names)
{
    const char *start = *at;
    int brackets = 0;
    *names = 1;
    while (**at && **at != ',') {
        if (**at == '[') {
            uint64_t numbers;
            int status = measure_bracket(expansion, at, &numbers);
            if (status) {
                return status;
            }
            *names *= numbers;
            if (++brackets > BRACKETS_MAX || *names > NAMES_MAX) {
                return refuse_slurm(expansion, start, "more than 65536 names or 8 brackets");
            }
        } else if (isgraph((unsigned char)**at) && **at != ']') {
            (*at)++;
        } else {
            return refuse_slurm(expansion, *at, "this character cannot stand in a name");
        }
    }
    return *at > start ? 0 : refuse_slurm(expansion, start, "a name is empty");
}

/* Checks a list. Every fault is found here, so the second pass only gives out names. */
static int measure_list(struct expansion *expansion)
{
    const char *at = expansion->list;
    for (;;) {
        uint64_t names;
        int status = measure_name(expansion, &at, &names);
        if (status) {
            return status;
        }
        expansion->names += names;
        if (expansion->names > NAMES_MAX) {
            return refuse_slurm(expansion, at, "more than 65536 names");
        }
        if (*at == '\0') {
            return 0;
        }
        at++;
    }
}

static int expand_from(struct expansion *expansion, const char *at, size_t length);

static int expand_bracket(struct expansion *expansion, const char *at, size_t length)
{
    const char *behind = strchr(at, ']') + 1;
    int status = 0;
    while (status == 0 && *at != ']') {
        struct range range = {0, 0, 0};
        at++;
        status = read_number_range(expansion, &at, &range);
        for (uint64_t i = range.first; status == 0 && i <= range.last; i++) {
            size_t room = sizeof expansion->name - length;
            int digits = snprintf(expansion->name + length, room, "%0*llu", range.width,
                                  (unsigned long long)i);
            status = (size_t)digits < room
                         ? expand_from(expansion, behind, length + (size_t)digits)
                         : refuse_slurm(expansion, at, "the name is longer than 255 characters");
        }
    }
    return status;
}

/* Expands the rest of a name: `length` characters of it are settled; `at` is the list's next
 * character. */
static int expand_from(struct expansion *expansion, const char *at, size_t length)
{
    while (*at && *at != ',' && *at != '[') {
        if (length == NAME_MAX_LEN) {
            return refuse_slurm(expansion, at, "the name is longer than 255 characters");
        }
        expansion->name[length++] = *at++;
    }
    if (*at == '[') {
        return expand_bracket(expansion, at, length);
    }
    expansion->name[length] = '\0';
    return expansion->each(expansion->name, expansion->context);
}

const char *gyre_node_list_end(const char *at)
{
    for (bool inside = false; *at && (inside || *at != ','); at++) {
        inside = *at == '[' || (inside && *at != ']');
    }
    return at;
}

int gyre_node_list_expand(const char *list, int (*each)(const char *name, void *context),
                          void *context, struct gyre_trouble *trouble)
{
    struct expansion expansion = {
        .list = list, .each = each, .context = context, .trouble = trouble};
    int status = measure_list(&expansion);
    for (const char *at = list; status == 0; at++) {
        status = expand_from(&expansion, at, 0);
        at = gyre_node_list_end(at);
        if (*at == '\0') {
            break;
        }
    }
    return status;
}

struct node_names {
    char *text; /* each name with its zero */
    size_t used, room;
    struct gyre_trouble *trouble;
};

static int append_name(const char *name, void *context)
{
    struct node_names *names = context;
    size_t length = strlen(name) + 1;
    if (names->used + length + 1 > names->room) {
        size_t room = 2 * names->room + length + 1;
        char *text = realloc(names->text, room);
        if (!text) {
            return gyre_trouble_set(names->trouble, -ENOMEM, "no memory for a list of hosts");
        }
        names->text = text;
        names->room = room;
    }
    memcpy(names->text + names->used, name, length);
    names->used += length;
    names->text[names->used] = '\0';
    return 0;
}

int gyre_node_list_names(const char *list, char **text, struct gyre_trouble *trouble)
{
    struct node_names names = {.trouble = trouble};
    int status = gyre_node_list_expand(list, append_name, &names, trouble);
    if (status) {
        free(names.text);
        return status;
    }
    *text = names.text;
    return 0;
}

/* -- this process's place ---------------------------------------------------------------------- */

bool gyre_slurm_in_step(void)
{
    int64_t step = -1;
    bool known = gyre_env_int("SLURM_STEP_ID", 0, INT64_MAX, &step, NULL) == 0 && step >= 0;
    return known && step < RESERVED_STEPS && gyre_job_variable("SLURM_PROCID");
}

/* The value of a variable; 0: absent, or no such number. */
static int64_t slurm_count(const char *name)
{
    int64_t count = 0;
    gyre_env_int(name, 0, TASKS_MAX, &count, NULL);
    return count;
}

/* Finds the size of an allocation without srun. SLURM_TASKS_PER_NODE is no sign: of a whole node
 * taken for one process it may hold the cores. Beside a number of tasks, tasks per node are a limit
 * only. */
int gyre_slurm_stranded(const char **of)
{
    if (!gyre_job_variable("SLURM_JOB_ID") || gyre_slurm_in_step()) {
        return 0;
    }
    int64_t tasks = slurm_count("SLURM_NTASKS"), nodes = slurm_count("SLURM_JOB_NUM_NODES");
    int64_t nnodes = slurm_count("SLURM_NNODES"), per_node = slurm_count("SLURM_NTASKS_PER_NODE");
    int64_t most = nodes > nnodes ? nodes : nnodes, found = 0;
    const struct {
        int64_t count;
        const char *of;
    } signs[] = {{tasks, "tasks (SLURM_NTASKS)"},
                 {tasks ? 0 : per_node * (most ? most : 1), "tasks (SLURM_NTASKS_PER_NODE)"},
                 {nodes, "nodes (SLURM_JOB_NUM_NODES)"},
                 {nnodes, "nodes (SLURM_NNODES)"}};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (signs[i].count > found) {
            found = signs[i].count;
            *of = signs[i].of;
        }
    }
    return found < INT_MAX ? (int)found : INT_MAX;
}

struct host_slot {
    char *host;
    size_t room;
};

static int keep_first(const char *name, void *context)
{
    struct host_slot *slot = context;
    snprintf(slot->host, slot->room, "%s", name);
    return GYRE_AGAIN;
}

int gyre_slurm_first_host(char *host, size_t room, struct gyre_trouble *trouble)
{
    const char *list = gyre_job_variable("SLURM_STEP_NODELIST");
    struct host_slot slot = {host, room};
    if (!list) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "SLURM_STEP_NODELIST is not set in a step of srun, so nobody knows "
                                "where rank 0 is: set GYRE_ROOT=host:port");
    }
    int status = gyre_node_list_expand(list, keep_first, &slot, trouble);
    return status == GYRE_AGAIN ? 0 : gyre_trouble_wrap(trouble, "SLURM_STEP_NODELIST");
}

/* Reads "4" or "4(x3)" at *at: tasks per node, and the number of nodes; leaves *at on ',' or the
 * end. */
static bool read_tasks(const char **at, uint64_t *tasks, uint64_t *nodes)
{
    *nodes = 1;
    if (!read_slurm_number(at, tasks)) {
        return false;
    }
    if (strncmp(*at, "(x", 2) == 0) {
        *at += 2;
        if (!read_slurm_number(at, nodes) || **at != ')' || *nodes == 0) {
            return false;
        }
        (*at)++;
    }
    return *tasks >= 1 && *tasks <= TASKS_MAX && (**at == ',' || **at == '\0');
}

int gyre_slurm_tasks_on_node(const char *name, const char *list, int node, int *tasks,
                             struct gyre_trouble *trouble)
{
    uint64_t seen = 0;
    for (const char *at = list;; at++) {
        uint64_t each, nodes;
        if (!read_tasks(&at, &each, &nodes)) {
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s is \"%s\": expected tasks per node such as 4(x2),2", name,
                                    list);
        }
        seen += nodes;
        if ((uint64_t)node < seen) {
            *tasks = (int)each;
            return 0;
        }
        if (*at == '\0') {
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s is \"%s\": it tells of %llu nodes, and this is node %d",
                                    name, list, (unsigned long long)seen, node);
        }
    }
}
