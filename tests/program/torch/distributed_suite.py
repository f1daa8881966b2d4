"""torch.testing._internal.distributed.distributed_test, told of a backend that it does not name.

    Suite = distributed_suite.load("gyre", ranks=2)     # a unittest.TestCase

The module asks two names. One decides, when it is imported, which cases are skipped: there the
backend passes for gloo and for MPI. The other is what the cases give to init_process_group. It is
the backend's own, and cases that do something else for gloo than for NCCL do it for this one.

Cases that torch skips in groups of less than 8 ranks, unless MPI runs them, run from 3 ranks on,
which is what they need. Gloo itself runs by the same rules, but for MPI's own cases, because it
lacks their calls."""

import importlib.util
import os
import sys
import tempfile

MODULE = "torch.testing._internal.distributed.distributed_test"
QUESTION = 'BACKEND = os.environ["BACKEND"]\n'


class PassesFor(str):
    """A name that equals other names, too. Sets find it by the first of them."""

    def __new__(cls, *names):
        name = super().__new__(cls, names[0])
        name.names = names
        return name

    def __eq__(self, other):
        return other in self.names

    def __ne__(self, other):
        return other not in self.names

    __hash__ = str.__hash__


def _import_as(name):
    """The module, with `name` for what it asks the environment."""
    spec = importlib.util.find_spec(MODULE)
    source = spec.loader.get_source(MODULE)
    assert source.count(QUESTION) == 1, "torch asks for its backend in another way"
    module = importlib.util.module_from_spec(spec)
    module.QUESTIONED = name
    sys.modules[MODULE] = module
    exec(compile(source.replace(QUESTION, "BACKEND = QUESTIONED\n"), spec.origin, "exec"),
         module.__dict__)
    return module


def load(backend, ranks):
    place = tempfile.mkdtemp(prefix="gyre-torch-suite-")
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      TEMP_DIR=place, INIT_METHOD=f"file://{place}/meeting")
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "120")
    import torch

    torch.set_num_threads(1)
    suite = _import_as(PassesFor("gloo", "mpi") if backend != "gloo" else "gloo")
    suite.BACKEND = PassesFor(backend, "gloo")
    if ranks > 2:
        os.environ["BACKEND"] = "mpi"  # which has no least number of ranks
    suite.Barrier.sync.__func__.__defaults__ = None, 60  # seconds; 10 are few for a busy machine

    class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Suite
