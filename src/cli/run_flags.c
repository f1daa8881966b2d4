/* The flags of `gyre run`. Tested by tests/program/cli/cli.c. */
#include "cli/run_flags.h"

const struct gyre_flag gyre_run_flags[FLAGS] = {
    [NPROC] = {"nproc-per-node", 'n', "COUNT",
               "ranks on this node, or `auto` for one per core (1)"},
    [SIMULATE] = {"simulate-nodes", 0, "LAYOUT", "play several nodes here: 2x2, 4+2"},
    [HOSTS] = {"hosts", 0, "LIST", "start over ssh: a:4,b:2"},
    [HOSTS_FILE] = {"hosts-file", 0, "FILE",
                    "the same from a file, a line each; with --elastic read again on SIGHUP"},
    [HOSTFILE] = {"hostfile", 0, "FILE", NULL}, /* mpirun's word for it */
    [LEAVE_WITHIN] = {"leave-within", 0, "TIME",
                      "how long ranks may stay whose host has gone from that file (5min)"},
    [NNODES] = {"nnodes", 0, "COUNT", "nodes; run this command once on each (1)"},
    [NODE_RANK] = {"node-rank", 0, "INDEX",
                   "which of them this is (0; in Kubernetes the pod's index)"},
    [ADDR] = {"master-addr", 0, "HOST", "where rank 0 is reached (127.0.0.1)"},
    [PORT] = {"master-port", 0, "PORT", "its port (29500; a free one on one node)"},
    [BIND] = {"bind", 0, NULL, "give each rank cores of its own"},
    [BACKEND] = {"backend", 0, "NAME",
                 "how ranks reach each other: TRANSPORTS (GYRE_TRANSPORT, or auto)"},
    [DEVICES] = {"devices", 0, "LIST",
                 "CUDA devices of each node: local rank i takes entry i; 2,4,7"},
    [LOG_DIR] = {"log-dir", 0, "FOLDER",
                 "also write each rank's output to FOLDER/rank-N.out, .err"},
    [NO_PREFIX] = {"no-prefix", 0, NULL, "no \"[rank] \" before each line"},
    [RESTARTS] = {"restarts", 0, "COUNT",
                  "start the whole job again after a failure, or with --elastic a lost rank; at "
                  "most so often (0)"},
    [MAX_RESTARTS] = {"max-restarts", 0, "COUNT", NULL}, /* torchrun's word for it */
    [PAUSE] = {"restart-pause", 0, "TIME",
               "before the first of them; doubled each time, up to 30s (1s)"},
    [ELASTIC] = {"elastic", 0, "MIN[:MAX]",
                 "go on without ranks that are lost, while MIN are left"},
    [JOB] = {"job", 0, "NAME", "the job's name (random); with --elastic others may --join it"},
    [RDZV_ID] = {"rdzv-id", 0, "NAME", NULL}, /* torchrun's words for these */
    [RDZV_ENDPOINT] = {"rdzv-endpoint", 0, "HOST:PORT", NULL},
    [RDZV_BACKEND] = {"rdzv-backend", 0, "NAME", NULL},
    [JOIN] = {"join", 0, NULL, "join the elastic job --job that runs at --master-addr"},
    [NESTED] = {"nested", 0, NULL, "inside a rank of another `gyre run`: start a job of its own"},
    [STANDALONE] = {"standalone", 0, NULL, NULL},
    [NODE] = {"node", 0, "INDEX", NULL},
    [EPOCH] = {"epoch", 0, "COUNT", NULL},  /* restarts so far, as the launcher above says */
    [JOINING] = {"joining", 0, NULL, NULL}, /* the job runs, as the launcher above says */
    [CHANGES] = {"changes", 0, NULL, NULL}, /* hosts may come and go, as it says */
    [ROOT_HOSTS] = {"root-hosts", 0, "LIST", NULL}, /* where rank 0 may be, as it says */
    [HELP] = {"help", 'h', NULL, "this page"},
};
