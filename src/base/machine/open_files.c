/* The limit of descriptors. */
#include "base/machine/open_files.h"

bool gyre_open_files_allow(rlim_t need, struct rlimit *before)
{
    *before = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    if (getrlimit(RLIMIT_NOFILE, before) || before->rlim_cur >= need)
        return true;
    struct rlimit raised = {before->rlim_max < need ? before->rlim_max : need, before->rlim_max};
    return !setrlimit(RLIMIT_NOFILE, &raised) && raised.rlim_cur == need;
}
