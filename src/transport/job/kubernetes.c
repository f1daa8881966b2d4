/* Where rank 0 of an indexed Job of Kubernetes is.
 *
 * The pods of an indexed Job are named after it, with their number behind, and a headless service
 * makes those names known to all of them (`subdomain` of the pod's template; JobSet sets it):
 *
 *     this pod   train-rank-0-3.train.default.svc.cluster.local     JOB_COMPLETION_INDEX=3
 *     rank 0     train-rank-0-0.train.default.svc.cluster.local
 *
 * The kubelet writes a pod's full name into its /etc/hosts, which is where it is taken from. The
 * size of a Job stands in no variable: its manifest sets WORLD_SIZE.
 *
 * Tested by tests/unit/transport/job/kubernetes_test.c. */
#include "transport/job/inside.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 29500 /* a pod has its ports to itself */

int gyre_kubernetes_refuse_size(struct gyre_trouble *trouble)
{
    return gyre_trouble_set(
        trouble, GYRE_INVALID,
        "JOB_COMPLETION_INDEX is \"%s\": this pod is one of an indexed Job, and "
        "Kubernetes does not tell of how many; set WORLD_SIZE to the Job's "
        "`completions`, or RANK=0 and WORLD_SIZE=1 where each pod works alone",
        getenv("JOB_COMPLETION_INDEX"));
}

int gyre_kubernetes_first_pod(const char *name, int index, char *first, size_t room,
                              struct gyre_trouble *trouble)
{
    char number[16];
    size_t digits = (size_t)snprintf(number, sizeof number, "-%d", index);
    size_t pod = strcspn(name, ".");
    if (!name[pod])
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "this pod is called \"%s\", by which no other pod finds it: give "
                                "the Job a headless service, with its name as `subdomain` of the "
                                "pod's template, or set MASTER_ADDR and MASTER_PORT",
                                name);
    if (pod <= digits || strncmp(name + pod - digits, number, digits) != 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "this pod is called \"%s\", which does not end with its "
                                "JOB_COMPLETION_INDEX, %d: set MASTER_ADDR and MASTER_PORT",
                                name, index);
    int length = snprintf(first, room, "%.*s-0%s", (int)(pod - digits), name, name + pod);
    return length > 0 && (size_t)length < room
               ? 0
               : gyre_trouble_set(trouble, GYRE_INVALID, "this pod's name is too long: \"%s\"",
                                  name);
}

/* This pod's name, the full one where a resolver knows it. */
static void find_pod_name(char *name, size_t room)
{
    struct addrinfo hints = {.ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM}, *found = NULL;
    if (gethostname(name, room))
        name[0] = '\0';
    name[room - 1] = '\0';
    if (getaddrinfo(name, NULL, &hints, &found) == 0 && found->ai_canonname)
        snprintf(name, room, "%s", found->ai_canonname);
    if (found)
        freeaddrinfo(found);
}

int gyre_kubernetes_root(struct gyre_job *job, struct gyre_trouble *trouble)
{
    char name[256];
    find_pod_name(name, sizeof name);
    job->root_port = PORT;
    job->root_port_tries = 1;
    return gyre_kubernetes_first_pod(name, job->rank, job->root_host, sizeof job->root_host,
                                     trouble);
}
