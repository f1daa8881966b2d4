/* Tested by tests/program/torch/failures.py and refusals.py. */
#include "base/failure.h"

#include <c10/util/Exception.h>

#include <gyre/gyre.h>

namespace gyre_torch
{

static std::string sentence(const std::string &call, const std::string &what)
{
    return "gyre: " + call + ": " + what;
}

void refuse(const std::string &call, const std::string &why)
{
    C10_THROW_ERROR(ValueError, sentence(call, why));
}

void lack(const std::string &call, const std::string &what)
{
    C10_THROW_ERROR(NotImplementedError, sentence(call, what));
}

void give_up(const std::string &call, const std::string &why)
{
    C10_THROW_ERROR(DistBackendError, sentence(call, why));
}

void fail(const std::string &call, int status, const std::string &story)
{
    std::string name = gyre_status_name(status);
    if (status == GYRE_TIMED_OUT)
        name = "Timed out (" + name + ")"; /* programs look for torch's word */
    const std::string what = story.empty() ? name : name + ": " + story;
    if (status == GYRE_INVALID)
        refuse(call, what);
    if (status == GYRE_UNSUPPORTED)
        lack(call, what);
    give_up(call, what);
}

} // namespace gyre_torch
