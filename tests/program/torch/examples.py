"""The programs of examples/torch, as users start them: over Gyre they print what they do over
gloo."""

import os
import subprocess
import sys

import rig

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/torch")


def printed(program, backend):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         os.path.join(FOLDER, program), backend],
        capture_output=True, text=True, timeout=3 * rig.LIMIT, env=dict(os.environ,
                                                                        OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stderr
    return done.stdout


def wine():
    ours = printed("wine.py", "gyre")
    assert "epoch 19: loss 0." in ours, ours
    assert ours == printed("wine.py", "gloo")


if __name__ == "__main__":
    rig.main(wine)
