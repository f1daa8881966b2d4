/* All files as one compilation, because torch's headers take half a minute of it each time.
 *
 *     calls ─► work ─► base
 *
 *     calls    what torch asks of a group, as calls of Gyre
 *     work     what was started and has not ended
 *     base     the communicator, the store, tensors and devices, and torch's versions */
#include "base/communicator.cpp"
#include "base/device.cpp"
#include "base/failure.cpp"
#include "base/store.cpp"
#include "base/tensors.cpp"
#include "calls/calls.cpp"
#include "calls/coalesced.cpp"
#include "calls/group.cpp"
#include "calls/lists.cpp"
#include "calls/members.cpp"
#include "calls/messages.cpp"
#include "calls/profile.cpp"
#include "calls/reduction.cpp"
#include "calls/sparse.cpp"
#include "module.cpp"
#include "work/completion.cpp"
#include "work/device_work.cpp"
#include "work/task.cpp"
#include "work/work.cpp"
