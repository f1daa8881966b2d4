"""torch's own tests of backends, as its wheel ships them, over Gyre or over gloo.

    suite.py [--backend gloo] [--ranks N] [--out FILE] [NAMES]
    suite.py --autograd [--backend gloo] [--out FILE] [NAMES]       DDP under distributed autograd

The tests name the backends that they are for, and skip those that they do not know. Here they know
Gyre: what they run for gloo, and what they run for MPI only, they run for Gyre (distributed_suite).
What they skip even so needs accelerators, is switched off by torch for every backend, or wants
another number of ranks.

Prints a line for each case, and how many passed, were skipped and failed. Not a part of suite
torch, for it takes an hour on two cores; tests/program/torch/README.md has its table."""

import argparse
import os
import sys
import unittest

WORDS = argparse.ArgumentParser()
WORDS.add_argument("--autograd", action="store_true")
WORDS.add_argument("--backend", default="gyre")
WORDS.add_argument("--ranks", default="2", type=int)
WORDS.add_argument("--out", default="/dev/stdout")
WORDS.add_argument("names", nargs="*")
CHOICE = WORDS.parse_args()

if CHOICE.autograd:
    import autograd_suite

    SUITES = autograd_suite.load(CHOICE.backend)
else:
    import distributed_suite

    SUITES = [distributed_suite.load(CHOICE.backend, CHOICE.ranks)]


def reason_in(text):
    """The line that says what went wrong: the last one that names an error, or simply the last."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error: " in line]
    return ((errors or lines)[-1:] or [""])[0][:300]


class Lines(unittest.TextTestResult):
    """One line for each case: its name, its end, and why."""

    def tell(self, test, end, text=""):
        with open(CHOICE.out, "a") as out:
            print(test._testMethodName, end, reason_in(text), sep="\t", file=out, flush=True)

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
    cases = unittest.TestSuite(
        suite(name) for suite in SUITES for name in loader.getTestCaseNames(suite)
        if name in (CHOICE.names or [name]))
    result = unittest.TextTestRunner(resultclass=Lines, stream=open(os.devnull, "w")).run(cases)
    failed = len(result.errors) + len(result.failures)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, "
          f"{len(result.skipped)} skipped of {result.testsRun}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
