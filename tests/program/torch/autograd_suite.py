"""torch's tests of DDP under distributed autograd, over Gyre or over gloo.

    Suite = autograd_suite.load("gyre")     # a list of unittest.TestCase

They ask for gloo by its name, in processes that also call each other's functions. So the name
stands for Gyre here."""

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.testing._internal import common_distributed
from torch.testing._internal.distributed import ddp_under_dist_autograd_test as cases
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (
    TensorPipeRpcAgentTestFixture)


def load(backend):
    torch.set_num_threads(1)
    if backend != "gloo":
        dist.Backend._plugins["GLOO"] = dist.Backend._plugins[backend.upper()]

    class Processes(common_distributed.MultiProcessTestCase, TensorPipeRpcAgentTestFixture):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    class UnderAutograd(Processes, cases.DdpUnderDistAutogradTest):
        @property
        def world_size(self):
            return cases.WORLD_SIZE

    class Comparison(Processes, cases.DdpComparisonTest):
        @property
        def world_size(self):
            return cases.NUM_TRAINERS

    return [UnderAutograd, Comparison]
