/* The place where the ranks meet.
 *
 * The place is an address that the user or the launcher gives, else one that every rank derives
 * from the job's id. The first of these that there is:
 *
 *     options.store              a store of the program's own
 *     options.root
 *     GYRE_ROOT                  host:port, or file:///folder: a file of the job in that folder
 *     MASTER_ADDR:MASTER_PORT    (a port behind it where torchrun's agent holds that one itself)
 *     indexed Job                the first pod's name, port 29500
 *     srun                       first host of the step, port from the job's id
 *     any job with a name        a file beside the key, where rank 0 writes its address
 *
 * The id may be derived from the address (id.c). So the given address is read first, then the id is
 * found, and only then is a place derived from the id. A world of 1 needs no place.
 *
 * Tested by tests/unit/transport/job/job_test.c. */
#include "transport/job/inside.h"
#include "base/bytes.h"
#include "base/disk/folder.h"
#include "base/env.h"

#include <stdio.h>
#include <string.h>

#define AGENT_PORT_TRIES 16 /* behind the port that torchrun's agent holds */
#define PORT_TRIES       17 /* the port itself and 16 more */
#define STORE_NAME_MOST  200
#define ROOT_NAME_BYTES  64 /* "/root-" and the job's id */

static int set_root(struct gyre_job *job, const char *name, const char *host, size_t length,
                    const char *port_text, struct gyre_trouble *trouble)
{
    int64_t port = 0;
    if (length == 0 || length >= sizeof job->root_host) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s holds a host name of %zu characters: expected 1 to %zu", name,
                                length, sizeof job->root_host - 1);
    }
    int status = gyre_parse_int(name, port_text, 1, 65535, &port, trouble);
    if (status == 0) {
        memcpy(job->root_host, host, length);
        job->root_host[length] = '\0';
        job->root_port = (uint16_t)port;
        job->root_port_tries = 1;
    }
    return status;
}

/* -- stores ------------------------------------------------------------------------------------ */

static int set_root_store(const struct gyre_options *options, struct gyre_job *job,
                          struct gyre_trouble *trouble)
{
    const struct gyre_store *store = options->store;
    const char *name = gyre_job_name(options);
    if (gyre_check_size("gyre_store", store->size, sizeof *store, trouble)) {
        return GYRE_INVALID;
    }
    if (!store->set || !store->get) {
        return gyre_trouble_set(trouble, GYRE_INVALID, "options.store has no function %s",
                                store->set ? "get" : "set");
    }
    if (!name || !*name || strlen(name) > STORE_NAME_MOST) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "options.store wants options.job, a name for the group of 1 to %d "
                                "characters",
                                STORE_NAME_MOST);
    }
    job->root_kind = GYRE_ROOT_STORE;
    job->store = *store;
    snprintf(job->root_file, sizeof job->root_file, "gyre/%s", name);
    return 0;
}

static int set_root_folder(struct gyre_job *job, const char *name, const char *folder,
                           struct gyre_trouble *trouble)
{
    if (folder[0] != '/' || strlen(folder) >= sizeof job->root_file - ROOT_NAME_BYTES) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is \"file://%s\": expected file:///folder, of at most %zu "
                                "characters",
                                name, folder, sizeof job->root_file - ROOT_NAME_BYTES - 1);
    }
    job->root_kind = GYRE_ROOT_FILE;
    job->group = true;
    strcpy(job->root_file, folder);
    return gyre_folder_make(folder, 0700, trouble);
}

/* Adds the name of the job's file to its folder. */
static void name_file(struct gyre_job *job)
{
    char id[2 * sizeof job->id + 1];
    size_t used = strlen(job->root_file);
    gyre_hex_write(job->id, sizeof job->id, id);
    snprintf(job->root_file + used, sizeof job->root_file - used, "/root-%s", id);
}

/* -- addresses --------------------------------------------------------------------------------- */

/* Reads "host:port" or "[2001:db8::1]:port", or "file:///folder". */
static int set_root_text(struct gyre_job *job, const char *name, const char *text,
                         struct gyre_trouble *trouble)
{
    const char *colon = strrchr(text, ':'), *host = text;
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool bracketed = length >= 2 && text[0] == '[' && colon[-1] == ']';
    if (strncmp(text, "file://", 7) == 0) {
        return set_root_folder(job, name, text + 7, trouble);
    }
    if (bracketed) {
        host++;
        length -= 2;
    }
    if (length == 0 || (!bracketed && memchr(text, ':', length))) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is \"%s\": expected host:port, with an IPv6 address in "
                                "brackets as in [2001:db8::1]:29500",
                                name, text);
    }
    int64_t port;
    if (gyre_parse_int(name, colon + 1, 1, 65535, &port, NULL)) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is \"%s\": expected a port from 1 to 65535 behind the colon",
                                name, text);
    }
    return set_root(job, name, host, length, colon + 1, trouble);
}

/* Takes torchrun's address. Where its agent keeps its own store on MASTER_PORT, rank 0 takes one of
 * the next 16 ports. */
static int set_root_master(struct gyre_job *job, struct gyre_trouble *trouble)
{
    const char *host = gyre_job_variable("MASTER_ADDR"), *port = gyre_job_variable("MASTER_PORT");
    const char *agent = gyre_job_variable("TORCHELASTIC_USE_AGENT_STORE");
    if (!host || !port) {
        return gyre_job_refuse_half(host ? "MASTER_ADDR" : "MASTER_PORT",
                                    host ? "MASTER_PORT" : "MASTER_ADDR", trouble);
    }
    int status = set_root(job, "MASTER_PORT", host, strlen(host), port, trouble);
    if (status || strcmp(job->source, "torchrun") != 0) {
        return status;
    }
    job->root_port_tries = PORT_TRIES;
    if (agent && strcmp(agent, "True") == 0) {
        if (job->root_port > 65535 - AGENT_PORT_TRIES) {
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "MASTER_PORT is %s: torchrun holds that port itself, and "
                                    "there are no 16 ports behind it; expected at most %d",
                                    port, 65535 - AGENT_PORT_TRIES);
        }
        job->root_port++;
        job->root_port_tries = AGENT_PORT_TRIES;
    }
    return 0;
}

/* Finds an address that the user or the launcher has given. None is no failure: root_host stays
 * empty. */
static int find_given_root(const struct gyre_options *options, struct gyre_job *job,
                           struct gyre_trouble *trouble)
{
    const char *given = gyre_job_variable("GYRE_ROOT");
    if (options->store) {
        return set_root_store(options, job, trouble);
    }
    if (options->root) {
        return set_root_text(job, "options.root", options->root, trouble);
    }
    if (given) {
        return set_root_text(job, "GYRE_ROOT", given, trouble);
    }
    if (gyre_job_variable("MASTER_ADDR") || gyre_job_variable("MASTER_PORT")) {
        return set_root_master(job, trouble);
    }
    return strcmp(job->source, "Kubernetes") == 0 ? gyre_kubernetes_root(job, trouble) : 0;
}

/* Whether rank 0 is on the first host. With -m arbitrary it may be on any host of the list, which
 * Slurm sorts. */
static bool first_host_has_rank_0(const struct gyre_job *job)
{
    const char *distribution = gyre_job_variable("SLURM_DISTRIBUTION");
    return strcmp(job->source, "srun") == 0 &&
           !(distribution && strncmp(distribution, "arbitrary", 9) == 0);
}

/* Derives a place from the name of the job, where no address is given. */
static int find_derived_root(struct gyre_job *job, struct gyre_trouble *trouble)
{
    if (first_host_has_rank_0(job)) {
        job->root_port = gyre_job_id_port(job->id);
        job->root_port_tries = PORT_TRIES;
        return gyre_slurm_first_host(job->root_host, sizeof job->root_host, trouble);
    }
    job->root_kind = GYRE_ROOT_FILE;
    job->root_port_tries = 1;
    return gyre_job_root_file(job, trouble);
}

int gyre_job_root_find(const struct gyre_options *options, struct gyre_job *job,
                       struct gyre_trouble *trouble)
{
    job->group = options->store != NULL;
    int status = job->world > 1 ? find_given_root(options, job, trouble) : 0;
    if (status == 0) {
        status = gyre_job_id_find(options, job, trouble);
    }
    if (status == 0 && job->group && job->root_kind == GYRE_ROOT_FILE) {
        name_file(job);
    }
    if (status == 0 && job->world > 1 && !job->group && job->root_host[0] == '\0') {
        status = find_derived_root(job, trouble);
    }
    return status;
}
