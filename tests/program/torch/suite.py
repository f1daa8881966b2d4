"""torch's own tests of backends, as its wheel ships them, over Gyre or over gloo.

    suite.py [--backend gloo] [--ranks N] [--out FILE] [NAMES]

Most of them ask for gloo by its name. So the name stands for Gyre here: what is registered as
"gloo" makes a group of Gyre, and each case that gloo passes can judge it. Prints a line for each
case, and how many passed, were skipped and failed. Not a part of suite torch, for it takes an hour
on two cores; tests/program/torch/README.md has its table."""

import argparse
import os
import sys
import tempfile
import unittest

WORDS = argparse.ArgumentParser()
WORDS.add_argument("--backend", default="gyre")
WORDS.add_argument("--ranks", default="2")
WORDS.add_argument("--out", default="/dev/stdout")
WORDS.add_argument("names", nargs="*")
CHOICE = WORDS.parse_args()

os.environ.update(BACKEND="gloo", WORLD_SIZE=CHOICE.ranks, MASTER_ADDR="127.0.0.1",
                  TEMP_DIR=tempfile.mkdtemp(prefix="gyre-torch-suite-"))
os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "60")

import torch
import torch.distributed as dist
from torch.testing._internal.distributed import distributed_test

torch.set_num_threads(1)
if CHOICE.backend != "gloo":
    dist.Backend._plugins["GLOO"] = dist.Backend._plugins[CHOICE.backend.upper()]
    distributed_test.PROFILING_SUPPORTED_BACKENDS.remove("gloo")  # events have Gyre's name
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.remove("gloo")


class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


class Lines(unittest.TextTestResult):
    """One line for each case: its name, its end, and the last line of what is told."""

    def tell(self, test, end, text=""):
        last = (text.strip().splitlines() or [""])[-1][:200]
        with open(CHOICE.out, "a") as out:
            print(test._testMethodName, end, last, sep="\t", file=out, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, "skipped", reason)

    def addError(self, test, error):
        super().addError(test, error)
        self.tell(test, "failed", self._exc_info_to_string(error, test))

    addFailure = addError


def main():
    loader = unittest.TestLoader()
    names = CHOICE.names or loader.getTestCaseNames(Suite)
    cases = unittest.TestSuite(Suite(name) for name in names)
    result = unittest.TextTestRunner(resultclass=Lines, stream=open(os.devnull, "w")).run(cases)
    failed = len(result.errors) + len(result.failures)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, "
          f"{len(result.skipped)} skipped of {result.testsRun}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
