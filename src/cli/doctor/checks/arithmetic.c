/* Which instructions sum, and who multiplies matrices. Tested by tests/unit/cli/doctor/job_test.c.
 */
#include "cli/doctor/checks/checks.h"

#include "collectives/kernels/reduce.h"
#include "model/kernels/ops.h"

#include <stdlib.h>
#include <string.h>

static const char *best_of_this_cpu(void)
{
    const char *best = "scalar";
    for (const struct gyre_reduce_variant *it = gyre_reduce_variants; it->name; it++)
        best = it->supported() ? it->name : best;
    return best;
}

void gyre_check_kernels(const struct gyre_doctor_machine *machine,
                        struct gyre_doctor_report *report)
{
    struct gyre_trouble trouble = {0};
    const char *cap = getenv("GYRE_KERNELS"), *best = best_of_this_cpu();
    (void)machine;
    if (gyre_reduce_check(&trouble)) {
        gyre_doctor_find(report, "kernels", GYRE_DOCTOR_PROBLEM, "%s", trouble.text);
        return;
    }
    bool capped = cap && *cap && strcmp(cap, best);
    gyre_doctor_find(report, "kernels", capped ? GYRE_DOCTOR_NOTE : GYRE_DOCTOR_OK,
                     "%s for sums, %s for training%s%s", capped ? cap : best, gyre_ops()->variant,
                     capped ? "; this CPU has " : "", capped ? best : "");
    if (capped)
        gyre_doctor_advise(report, "GYRE_KERNELS is set: unset it for all that the CPU can do");
}

void gyre_check_blas(const struct gyre_doctor_machine *machine, struct gyre_doctor_report *report)
{
    char name[128];
    struct gyre_trouble trouble = {0};
    const char *threads = getenv("OPENBLAS_NUM_THREADS"), *type = getenv("OPENBLAS_CORETYPE");
    if (machine->blas(name, sizeof name, &trouble)) {
        gyre_doctor_find(report, "blas", GYRE_DOCTOR_PROBLEM, "%s", trouble.text);
        return;
    }
    if (!strncmp(name, "OpenBLAS", 8)) {
        gyre_doctor_find(report, "blas", GYRE_DOCTOR_OK, "%s; threads of a rank: %s%s%s", name,
                         threads && *threads ? threads : "1",
                         type && *type ? ", OPENBLAS_CORETYPE=" : "", type && *type ? type : "");
        return;
    }
    const char *asked = getenv("GYRE_BLAS");
    bool own = asked && !strcmp(asked, "own");
    gyre_doctor_find(report, "blas", own ? GYRE_DOCTOR_OK : GYRE_DOCTOR_NOTE, "%s%s", name,
                     own ? ", as GYRE_BLAS asks for" : "; libopenblas.so.0 cannot be loaded");
    if (!own)
        gyre_doctor_advise(report, "training multiplies large matrices by OpenBLAS where it is "
                                   "installed (Debian: libopenblas0-pthread)");
}
