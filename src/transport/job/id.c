/* The job's id: sixteen bytes, equal on all its ranks and different from any other job's.
 *
 * Each way of starting ranks leaves something in the environment that is equal on all of them and
 * new for every job:
 *
 *     named      options.job or GYRE_JOB               (gyre run draws one at random)
 *     torchrun   run id, address, port, restarts       (the run id alone is "none" by default)
 *     srun       cluster, job, step, restarts
 *     mpirun     namespace, address of the head node   (PMIX_SERVER_URI is each node's own daemon)
 *     mpiexec    nothing; but on one machine all ranks descend from one hydra_pmi_proxy, which boot
 *                id, process number and start time name uniquely
 *     others     the root's address: two jobs cannot listen at one place
 *
 * The id is a digest over the method's name and these fields. Each field has its length before it,
 * so two different sets of fields never read the same. The id is a name and no secret.
 *
 * Tested by tests/unit/transport/job/job_test.c and tests/program/job/environments.c. */
#include "base/bytes.h"
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

/* Writes the digest of some texts; NULL is as an empty one. */
static int digest_fields(const char *const *field, size_t count, uint8_t id[16],
                         struct gyre_trouble *trouble)
{
    struct gyre_piece pieces[2 * FIELDS_MAX];
    uint8_t lengths[FIELDS_MAX][4], digest[GYRE_DIGEST_BYTES];
    for (size_t i = 0; i < count; i++) {
        const char *text = field[i] ? field[i] : "";
        size_t length = strlen(text);
        gyre_put32(lengths[i], (uint32_t)length);
        pieces[2 * i] = (struct gyre_piece){lengths[i], 4};
        pieces[2 * i + 1] = (struct gyre_piece){text, length};
    }
    int status = gyre_sha256(pieces, 2 * count, digest);
    if (status) {
        return gyre_trouble_set(trouble, status, "libcrypto cannot compute SHA-256 (job id)");
    }
    memcpy(id, digest, 16);
    return 0;
}

#define DIGEST(id, trouble, ...)                                                                   \
    digest_fields((const char *const[]){__VA_ARGS__},                                              \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), id, trouble)

/* -- mpiexec: the proxy that all local ranks descend from -------------------------------------- */

struct process {
    long parent;
    char name[64];
    unsigned long long started; /* clock ticks since boot */
};

/* Reads a process. Its name stands in parentheses and may contain some, so the last ')' ends it. */
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

static int id_from_torchrun(const char *run_id, struct gyre_job *job, struct gyre_trouble *trouble)
{
    return DIGEST(job->id, trouble, "torchrun", run_id, gyre_job_variable("MASTER_ADDR"),
                  gyre_job_variable("MASTER_PORT"),
                  gyre_job_variable("TORCHELASTIC_RESTART_COUNT"));
}

static int id_from_slurm(struct gyre_job *job, struct gyre_trouble *trouble)
{
    return DIGEST(job->id, trouble, "slurm", gyre_job_variable("SLURM_CLUSTER_NAME"),
                  gyre_job_variable("SLURM_JOB_ID"), gyre_job_variable("SLURM_STEP_ID"),
                  gyre_job_variable("SLURM_RESTART_COUNT"));
}

static int id_from_pmix(const char *name_space, struct gyre_job *job, struct gyre_trouble *trouble)
{
    return DIGEST(job->id, trouble, "pmix", name_space, gyre_job_variable("OMPI_MCA_orte_hnp_uri"));
}

static int id_from_proxy(const char *proxy, struct gyre_job *job, struct gyre_trouble *trouble)
{
    char boot_id[GYRE_BOOT_ID_TEXT];
    gyre_boot_id(boot_id);
    return DIGEST(job->id, trouble, "hydra", boot_id, proxy);
}

static int id_from_address(struct gyre_job *job, struct gyre_trouble *trouble)
{
    char port[16], epoch[16];
    snprintf(port, sizeof port, "%u", (unsigned)job->root_port);
    snprintf(epoch, sizeof epoch, "%u", (unsigned)job->epoch);
    return DIGEST(job->id, trouble, "address", job->root_host, port, epoch);
}

static int refuse_nameless(const struct gyre_job *job, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "rank %d of %d (by %s): nothing in the environment tells this job from "
                            "another or where rank 0 listens; set MASTER_ADDR and MASTER_PORT, "
                            "GYRE_ROOT=host:port, or a new GYRE_JOB=name for every job",
                            job->rank, job->world, job->source);
}

const char *gyre_job_name(const struct gyre_options *options)
{
    return options->job ? options->job : gyre_job_variable("GYRE_JOB");
}

int gyre_job_id_find(const struct gyre_options *options, struct gyre_job *job,
                     struct gyre_trouble *trouble)
{
    const char *name = gyre_job_name(options);
    const char *run_id = gyre_job_variable("TORCHELASTIC_RUN_ID");
    const char *name_space = gyre_job_variable("PMIX_NAMESPACE");
    char proxy[64];
    if (name) {
        return DIGEST(job->id, trouble, "name", name);
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
    if (job->root_kind == GYRE_ROOT_FILE) {
        return DIGEST(job->id, trouble, "folder");
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
