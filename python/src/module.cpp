/* The functions of gyre_torch._C. Tested by tests/program/torch/groups.py. */
#include "base/gil.h"
#include "calls/group.h"

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

namespace py = pybind11;

using gyre_torch::Communicator;
using gyre_torch::Group;

static c10::intrusive_ptr<c10d::Backend> join(const c10::intrusive_ptr<c10d::Store> &store,
                                              int rank, int size, const std::string &name,
                                              std::chrono::milliseconds timeout,
                                              const std::vector<int64_t> &ranks, bool formed)
{
    return c10::make_intrusive<Group>(store, rank, size, name, timeout, ranks, formed);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    module.doc() = "Gyre as a backend of torch.distributed.";
    module.attr("gyre_version") = gyre_version();
    module.attr("torch_version") = TORCH_VERSION;
    py::class_<Group, c10d::Backend, c10::intrusive_ptr<Group>>(module, "Group")
        .def(
            "perform_nocolor_split", [](const Group &, const py::object &) {},
            "What a rank calls that will not be in a subgroup: others need nothing from it.");
    module.def(
        "join", &join, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("name"),
        py::arg("timeout"), py::arg("ranks"), py::arg("formed") = true,
        py::call_guard<py::gil_scoped_release>(),
        "Makes a group of the ranks that meet in the store under a name; or, not formed, one "
        "whose ranks reconfigure() names.");
    module.def("close_all", &Communicator::close_all, py::arg("reason"),
               py::call_guard<py::gil_scoped_release>(),
               "Ends all groups of this process; with a reason, by aborting them.");
}
