/* The checks. Each asks the machine and writes what it found into the report, good or bad; none
 * fails, and none changes anything. Names of findings never change: scripts read them. */
#ifndef GYRE_CLI_DOCTOR_CHECKS_CHECKS_H
#define GYRE_CLI_DOCTOR_CHECKS_CHECKS_H

#include "cli/doctor/machine.h"
#include "cli/doctor/report.h"

typedef void gyre_doctor_check(const struct gyre_doctor_machine *machine,
                               struct gyre_doctor_report *report);

gyre_doctor_check gyre_check_cores, gyre_check_frequency;                        /* cores.c */
gyre_doctor_check gyre_check_load, gyre_check_clock;                             /* load.c */
gyre_doctor_check gyre_check_memory;                                             /* memory.c */
gyre_doctor_check gyre_check_memlock, gyre_check_descriptors;                    /* limits.c */
gyre_doctor_check gyre_check_sharing, gyre_check_dev_shm, gyre_check_huge_pages; /* sharing.c */
gyre_doctor_check gyre_check_io_uring, gyre_check_tcp;                           /* tcp.c */
gyre_doctor_check gyre_check_address, gyre_check_ports;                          /* network.c */
gyre_doctor_check gyre_check_rdma;                                               /* rdma.c */
gyre_doctor_check gyre_check_key;                                                /* key.c */
gyre_doctor_check gyre_check_launcher, gyre_check_settings;                      /* job.c */
gyre_doctor_check gyre_check_kernels, gyre_check_blas;                           /* arithmetic.c */

/* CUDA devices, and how memory goes between ranks on any two of them (cuda.c). `tries`: two
 * processes share memory of each pair, which takes seconds; the caller has not touched CUDA. */
void gyre_check_cuda(bool tries, struct gyre_doctor_report *report);

#endif
