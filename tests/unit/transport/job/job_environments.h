/* The environments that launchers really set, as `env` under them shows, host names aside. */
#ifndef GYRE_TESTS_UNIT_TRANSPORT_JOB_JOB_ENVIRONMENTS_H
#define GYRE_TESTS_UNIT_TRANSPORT_JOB_JOB_ENVIRONMENTS_H

#include "rig/test.h"

#include <stdlib.h>
#include <string.h>

#define KEY_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_B "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

/* torchrun 1.13, static rendezvous: its agent's store owns MASTER_PORT. */
#define TORCHRUN(rank, local, restarts, agent)                                                     \
    "LOCAL_RANK=" local "\0RANK=" rank "\0GROUP_RANK=1\0ROLE_RANK=" rank "\0ROLE_NAME=default\0"   \
    "LOCAL_WORLD_SIZE=2\0WORLD_SIZE=4\0GROUP_WORLD_SIZE=2\0ROLE_WORLD_SIZE=4\0"                    \
    "MASTER_ADDR=10.1.0.7\0MASTER_PORT=29500\0TORCHELASTIC_RESTART_COUNT=" restarts "\0"           \
    "TORCHELASTIC_MAX_RESTARTS=3\0TORCHELASTIC_RUN_ID=none\0"                                      \
    "TORCHELASTIC_USE_AGENT_STORE=" agent "\0NCCL_ASYNC_ERROR_HANDLING=1\0OMP_NUM_THREADS=1\0"

/* Open MPI 4.1.4. The daemon's URI differs between nodes, the head node's does not. */
#define OPEN_MPI(rank, local, space, daemon)                                                       \
    "OMPI_APP_CTX_NUM_PROCS=4\0OMPI_COMMAND=prog\0OMPI_COMM_WORLD_LOCAL_RANK=" local "\0"          \
    "OMPI_COMM_WORLD_LOCAL_SIZE=2\0OMPI_COMM_WORLD_NODE_RANK=" local "\0"                          \
    "OMPI_COMM_WORLD_RANK=" rank "\0OMPI_COMM_WORLD_SIZE=4\0OMPI_FIRST_RANKS=0\0"                  \
    "OMPI_MCA_ess_base_jobid=" space "\0OMPI_MCA_orte_num_nodes=2\0"                               \
    "OMPI_MCA_orte_hnp_uri=1146224640.0;tcp://10.1.0.7:52447;tcp6://[fd00::2]:37825\0"             \
    "OMPI_NUM_APP_CTX=1\0OMPI_UNIVERSE_SIZE=4\0PMIX_HOSTNAME=a\0PMIX_ID=" space "." rank "\0"      \
    "PMIX_NAMESPACE=" space "\0PMIX_RANK=" rank "\0PMIX_SECURITY_MODE=native\0"                    \
    "PMIX_SERVER_URI41=" daemon "\0PMIX_SERVER_URI4=" daemon "\0PMIX_VERSION=4.2.2rc2\0"

/* mpiexec.hydra 4.0.2. Nothing here names the job. */
#define HYDRA(rank, size, local, locals)                                                           \
    "GFORTRAN_UNBUFFERED_PRECONNECTED=y\0HYDI_CONTROL_FD=7\0"                                      \
    "MPIR_CVAR_CH3_INTERFACE_HOSTNAME=a\0MPI_LOCALNRANKS=" locals "\0MPI_LOCALRANKID=" local       \
    "\0PMI_FD=6\0PMI_RANK=" rank "\0PMI_SIZE=" size "\0"

/* srun with 5 tasks on 3 nodes, inside an allocation of 8 tasks on 4 nodes. */
#define SRUN(rank, local, node, step)                                                              \
    "SLURM_CLUSTER_NAME=c1\0SLURM_JOB_ID=4711\0SLURM_JOBID=4711\0SLURM_JOB_NODELIST=g[10-13]\0"    \
    "SLURM_NODELIST=g[10-13]\0SLURM_JOB_NUM_NODES=4\0SLURM_NNODES=3\0SLURM_NTASKS=5\0"             \
    "SLURM_NPROCS=5\0SLURM_LAUNCH_NODE_IPADDR=10.9.9.9\0SLURM_LOCALID=" local "\0"                 \
    "SLURM_MPI_TYPE=pmix\0SLURM_NODEID=" node "\0SLURM_PROCID=" rank "\0SLURM_STEPID=" step        \
    "\0SLURM_STEP_ID=" step "\0SLURM_STEP_NODELIST=g[11-13]\0SLURM_STEP_NUM_NODES=3\0"             \
    "SLURM_STEP_NUM_TASKS=5\0SLURM_STEP_TASKS_PER_NODE=2(x2),1\0SLURM_TASKS_PER_NODE=2(x4)\0"      \
    "SLURM_DISTRIBUTION=block\0SLURM_SUBMIT_HOST=login\0"

/* sbatch's own script: a rank, a number of tasks, and no step. */
#define SBATCH                                                                                     \
    "SLURM_CLUSTER_NAME=c1\0SLURM_JOB_ID=4711\0SLURM_JOB_NODELIST=g[10-13]\0SLURM_NTASKS=8\0"      \
    "SLURM_JOB_NUM_NODES=4\0SLURM_PROCID=0\0SLURM_LOCALID=0\0SLURM_NODEID=0\0SLURM_GTIDS=0\0"      \
    "SLURM_TASKS_PER_NODE=2(x4)\0"

/* salloc's interactive step, which has a reserved number. */
#define SALLOC                                                                                     \
    "SLURM_JOB_ID=4711\0SLURM_NTASKS=8\0SLURM_PROCID=0\0SLURM_LOCALID=0\0SLURM_NODEID=0\0"         \
    "SLURM_STEP_ID=4294967290\0SLURM_STEP_NODELIST=g10\0SLURM_STEP_NUM_TASKS=1\0"                  \
    "SLURM_STEP_TASKS_PER_NODE=1\0"

/* gyre run, node 1 of 4+2. */
#define GYRE_RUN(rank, local)                                                                      \
    "RANK=" rank "\0WORLD_SIZE=6\0LOCAL_RANK=" local "\0LOCAL_WORLD_SIZE=2\0NODE_RANK=1\0"         \
    "MASTER_ADDR=10.1.0.7\0MASTER_PORT=41234\0GYRE_JOB=5f1c0a\0"

/* Replaces the environment by a list of "NAME=value\0…", ended by an empty string, and a key. */
static inline void environment_set(const char *list)
{
    clearenv();
    setenv("GYRE_KEY", KEY_A, 1);
    setenv("HOME", "/nonexistent", 1);
    for (; *list; list += strlen(list) + 1) {
        assert_int_equal(putenv((char *)list), 0);
    }
}

#endif
