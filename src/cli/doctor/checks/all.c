/* All checks of this machine, in the order in which they are told. Tested by
 * tests/program/cli/doctor.c. */
#include "cli/doctor/checks/all.h"
#include "cli/doctor/checks/checks.h"

static gyre_doctor_check *const checks[] = {
    gyre_check_cores,   gyre_check_frequency,  gyre_check_load,        gyre_check_clock,
    gyre_check_memory,  gyre_check_memlock,    gyre_check_descriptors, gyre_check_sharing,
    gyre_check_dev_shm, gyre_check_huge_pages, gyre_check_kernels,     gyre_check_blas,
    gyre_check_tcp,     gyre_check_io_uring,   gyre_check_address,     gyre_check_ports,
    gyre_check_rdma,    gyre_check_key,        gyre_check_launcher,    gyre_check_settings,
};

/* CUDA goes first: what tries it must be forked before OpenBLAS has started threads. */
void gyre_check_this_machine(bool tries, struct gyre_doctor_report *report)
{
    gyre_check_cuda(tries, report);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        checks[i](&gyre_doctor_this_machine, report);
}
