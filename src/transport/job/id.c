/* The job's id: sixteen bytes, equal on all its ranks and different from any other job's.
 *
 * Each way of starting ranks leaves something in the environment that is equal on all of them and
 * new for every job:
 *
 *     named      options.job or GYRE_JOB               (gyre run draws one at random)
 *     torchrun   run id, address, port, restarts       (the run id alone is "none" by default)
 *     srun       cluster, job, step, restarts
 *     mpirun     namespace, address of the head node   (PMIX_SERVER_URI is each node's own daemon)
 *     mpiexec    nothing; but on one machine all ranks descend from one hydra_pmi_proxy, and boot,
 *                process number and start time name that process for ever
 *     others     the root's address: two jobs cannot listen at one place
 *
 * The id is a digest over the method's name and these fields. Each field has its length before it,
 * so two different sets of fields never read the same. The id is a name and no secret.
 *
 * Tested by tests/unit/transport/job/job_test.c and tests/program/job/environments.c. */
#include "transport/job/boot.h"
#include "transport/job/inside.h"
#include "transport/net/crypto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELDS_MAX    6
#define ANCESTORS_MAX 32
#define PORT_LOW      15000 /* above the well-known ports, below Linux's first ephemeral, 32768 */
#define PORT_COUNT    15000

struct fields {
    const char *text[FIELDS_MAX];
    uint8_t length[FIELDS_MAX][4];
    size_t count;
};

static void add_field(struct fields *fields, const char *text)
{
    fields->text[fields->count++] = text ? text : "";
}

static int digest_fields(struct fields *fields, uint8_t id[16], struct gyre_trouble *trouble)
{
    struct gyre_piece pieces[2 * FIELDS_MAX];
    uint8_t digest[GYRE_DIGEST_BYTES];
    for (size_t i = 0; i < fields->count; i++) {
        size_t length = strlen(fields->text[i]);
        for (int byte = 0; byte < 4; byte++) {
            fields->length[i][byte] = (uint8_t)(length >> 8 * byte);
        }
        pieces[2 * i] = (struct gyre_piece){fields->length[i], 4};
        pieces[2 * i + 1] = (struct gyre_piece){fields->text[i], length};
    }
    int status = gyre_sha256(pieces, 2 * fields->count, digest);
    if (status) {
        return gyre_trouble_set(trouble, status, "libcrypto cannot compute SHA-256 (job id)");
    }
    memcpy(id, digest, 16);
    return 0;
}

/* -- mpiexec: the proxy that all local ranks descend from -------------------------------------- */

struct process {
    long parent;
    char name[64];
    unsigned long long started; /* clock ticks since boot */
};

/* The name stands in parentheses and may hold some itself, so the last ')' ends it. */
static bool read_process(long pid, struct process *process)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    char *got = fgets(line, sizeof line, file);
    fclose(file);
    char *open = got ? strchr(line, '(') : NULL, *close = got ? strrchr(line, ')') : NULL;
    if (!open || !close) {
        return false;
    }
    *close = '\0';
    snprintf(process->name, sizeof process->name, "%s", open + 1);
    return sscanf(close + 1,
                  " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                  "%llu",
                  &process->parent, &process->started) == 2;
}

static bool find_proxy(char *text, size_t room)
{
    long pid = getppid();
    for (int depth = 0; depth < ANCESTORS_MAX && pid > 0; depth++) {
        struct process process;
        if (!read_process(pid, &process)) {
            return false;
        }
        if (strcmp(process.name, "hydra_pmi_proxy") == 0) {
            snprintf(text, room, "%ld %llu", pid, process.started);
            return true;
        }
        pid = process.parent;
    }
    return false;
}

/* -- the ways ---------------------------------------------------------------------------------- */

static int id_from_name(const char *name, struct gyre_job *job, struct gyre_trouble *trouble)
{
    struct fields fields = {.count = 0};
    add_field(&fields, "name");
    add_field(&fields, name);
    return digest_fields(&fields, job->id, trouble);
}

static int id_from_torchrun(const char *run_id, struct gyre_job *job, struct gyre_trouble *trouble)
{
    struct fields fields = {.count = 0};
    add_field(&fields, "torchrun");
    add_field(&fields, run_id);
    add_field(&fields, gyre_job_variable("MASTER_ADDR"));
    add_field(&fields, gyre_job_variable("MASTER_PORT"));
    add_field(&fields, gyre_job_variable("TORCHELASTIC_RESTART_COUNT"));
    return digest_fields(&fields, job->id, trouble);
}

static int id_from_slurm(struct gyre_job *job, struct gyre_trouble *trouble)
{
    struct fields fields = {.count = 0};
    add_field(&fields, "slurm");
    add_field(&fields, gyre_job_variable("SLURM_CLUSTER_NAME"));
    add_field(&fields, gyre_job_variable("SLURM_JOB_ID"));
    add_field(&fields, gyre_job_variable("SLURM_STEP_ID"));
    add_field(&fields, gyre_job_variable("SLURM_RESTART_COUNT"));
    return digest_fields(&fields, job->id, trouble);
}

static int id_from_pmix(const char *name_space, struct gyre_job *job, struct gyre_trouble *trouble)
{
    struct fields fields = {.count = 0};
    add_field(&fields, "pmix");
    add_field(&fields, name_space);
    add_field(&fields, gyre_job_variable("OMPI_MCA_orte_hnp_uri"));
    return digest_fields(&fields, job->id, trouble);
}

static int id_from_proxy(const char *proxy, struct gyre_job *job, struct gyre_trouble *trouble)
{
    char boot_id[GYRE_BOOT_ID_TEXT];
    struct fields fields = {.count = 0};
    gyre_boot_id(boot_id);
    add_field(&fields, "hydra");
    add_field(&fields, boot_id);
    add_field(&fields, proxy);
    return digest_fields(&fields, job->id, trouble);
}

static int id_from_address(struct gyre_job *job, struct gyre_trouble *trouble)
{
    char port[16], epoch[16];
    struct fields fields = {.count = 0};
    snprintf(port, sizeof port, "%u", (unsigned)job->root_port);
    snprintf(epoch, sizeof epoch, "%u", (unsigned)job->epoch);
    add_field(&fields, "address");
    add_field(&fields, job->root_host);
    add_field(&fields, port);
    add_field(&fields, epoch);
    return digest_fields(&fields, job->id, trouble);
}

static int refuse_nameless(const struct gyre_job *job, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "rank %d of %d (by %s): nothing in the environment tells this job from "
                            "another or where rank 0 listens; set MASTER_ADDR and MASTER_PORT, "
                            "GYRE_ROOT=host:port, or a new GYRE_JOB=name for every job",
                            job->rank, job->world, job->source);
}

int gyre_job_id_find(const struct gyre_options *options, struct gyre_job *job,
                     struct gyre_trouble *trouble)
{
    const char *name = options->job ? options->job : gyre_job_variable("GYRE_JOB");
    const char *run_id = gyre_job_variable("TORCHELASTIC_RUN_ID");
    const char *name_space = gyre_job_variable("PMIX_NAMESPACE");
    char proxy[64];
    if (name) {
        return id_from_name(name, job, trouble);
    }
    if (run_id && strcmp(job->source, "torchrun") == 0) {
        return id_from_torchrun(run_id, job, trouble);
    }
    if (strcmp(job->source, "srun") == 0) {
        return id_from_slurm(job, trouble);
    }
    if (name_space && strcmp(job->source, "mpirun") == 0) {
        return id_from_pmix(name_space, job, trouble);
    }
    if (strcmp(job->source, "mpiexec") == 0 && job->local_world == job->world &&
        find_proxy(proxy, sizeof proxy)) {
        return id_from_proxy(proxy, job, trouble);
    }
    if (job->world > 1 && job->root_host[0] == '\0') {
        return refuse_nameless(job, trouble);
    }
    return id_from_address(job, trouble);
}

uint16_t gyre_job_id_port(const uint8_t id[16])
{
    uint32_t draw = (uint32_t)id[0] | (uint32_t)id[1] << 8 | (uint32_t)id[2] << 16;
    return (uint16_t)(PORT_LOW + draw % PORT_COUNT);
}
