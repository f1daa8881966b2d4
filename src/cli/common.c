/* Words that every command says alike.
 * Tested by tests/unit/cli/common_test.c and tests/program/cli/cli.c. */
#include "cli/common.h"

#include "base/env.h"
#include "base/status.h"
#include "knobs/strangers.h"
#include "transport/job/job.h"
#include "transport/link/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int gyre_cli_fail(const char *command, int status, const struct gyre_trouble *trouble)
{
    fprintf(stderr, "gyre%s%s: %s\n", *command ? " " : "", command, trouble->text);
    return status == GYRE_INVALID || status == GYRE_REFUSED ? 2 : 1;
}

void gyre_cli_tell_strangers(const char *command)
{
    const char *launcher = getenv("GYRE_LAUNCHER_FD"), *stranger;
    while (!(launcher && *launcher) && (stranger = gyre_stranger_next()))
        fprintf(stderr, "gyre %s: %s\n", command, stranger);
}

int gyre_cli_backend(const char *name, struct gyre_trouble *trouble)
{
    const char *names[GYRE_LINK_WORDS_MOST];
    int index, count = gyre_link_words(names);
    int status = name ? gyre_parse_word("--backend", name, names, count, &index, trouble) : 0;
    if (name && !status)
        setenv("GYRE_TRANSPORT", names[index], 1);
    return status;
}

/* Each rank reads the list and finds its own entry; that these are numbers is said here, once. */
int gyre_cli_devices(const char *list, struct gyre_trouble *trouble)
{
    if (list && (!*list || list[strspn(list, "0123456789,")]))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--devices is \"%s\": expected numbers with commas between, one "
                                "for each rank of a machine, such as 2,4,7",
                                list);
    if (list)
        setenv("GYRE_DEVICES", list, 1);
    return 0;
}

int gyre_cli_job_around(char launcher[32])
{
    struct gyre_trouble unused = {0};
    struct gyre_job job;
    if (gyre_job_find_rank(NULL, &job, &unused) || strcmp(job.source, "alone") == 0)
        return 0;
    snprintf(launcher, 32, "%s", job.source);
    return job.world;
}

bool gyre_cli_joins(void)
{
    struct gyre_trouble unused = {0};
    bool joins = false;
    return !gyre_job_find_joining(NULL, &joins, &unused) && joins;
}

int gyre_cli_restarts(void)
{
    struct gyre_trouble unused = {0};
    uint16_t epoch;
    return gyre_job_find_epoch(&epoch, &unused) ? 0 : epoch;
}

int gyre_cli_path(char *path, size_t room, struct gyre_trouble *trouble)
{
    ssize_t length = readlink("/proc/self/exe", path, room - 1);
    if (length < 0)
        return gyre_trouble_set(trouble, -errno, "where am I? /proc/self/exe: %s", strerror(errno));
    path[length] = '\0';
    return 0;
}
