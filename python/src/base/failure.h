/* What Gyre refuses or fails at, as the exceptions that users of torch.distributed expect. */
#pragma once

#include <string>

namespace gyre_torch
{

/* Throws what a negative status of Gyre is in Python: ValueError where an argument is wrong,
 * NotImplementedError where something is not built in, else torch.distributed.DistBackendError.
 * `call` is what was called, `story` Gyre's own; where it is empty, the status's name stands for
 * it. */
[[noreturn]] void fail(const std::string &call, int status, const std::string &story);

/* Throws ValueError: the caller gave `call` something that cannot be used. */
[[noreturn]] void refuse(const std::string &call, const std::string &why);

/* Throws NotImplementedError. */
[[noreturn]] void lack(const std::string &call, const std::string &what);

/* Throws torch.distributed.DistBackendError. */
[[noreturn]] void give_up(const std::string &call, const std::string &why);

} // namespace gyre_torch
