/* All checks of this machine. */
#ifndef GYRE_CLI_DOCTOR_CHECKS_ALL_H
#define GYRE_CLI_DOCTOR_CHECKS_ALL_H

#include "cli/doctor/report.h"

/* `tries`: two processes share memory of each pair of CUDA devices (gyre_check_cuda()). */
void gyre_check_this_machine(bool tries, struct gyre_doctor_report *report);

#endif
