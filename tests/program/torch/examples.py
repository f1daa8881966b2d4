"""The programs of examples/torch, as users start them: over Gyre they print what they do over
gloo. Data sets are made on the spot."""

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

import torch

import rig

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/torch")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
COPIES = tempfile.TemporaryDirectory(prefix="gyre-torch-examples-")
ALONE = (*TORCHRUN, "--standalone", "--nproc-per-node", "2")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def start(*words, **variables):
    return subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=dict(os.environ, OMP_NUM_THREADS="1", **variables))


def printed(*jobs):
    """What processes print that work together."""
    told = [job.communicate(timeout=2 * rig.LIMIT) for job in jobs]
    for job, (_, errors) in zip(jobs, told):
        assert job.returncode == 0, errors
    return "".join(text for text, _ in told)


def program(name):
    """The program's place; for PyTorch 2.4 that of a copy with the import which is needed there."""
    if not rig.OLD:
        return os.path.join(FOLDER, name)
    with open(os.path.join(FOLDER, name)) as original:
        text = original.read()
    copy = os.path.join(COPIES.name, name)
    with open(copy, "w") as file:
        file.write(text.replace("import torch\n", "import torch\nimport gyre_torch\n", 1))
    return copy


def compare(run, *words, tolerance=0.0):
    """Runs a program over both; `words` are in what it prints, and losses fall."""
    ours, theirs = run("gyre"), run("gloo")
    numbers = [[float(number) for number in re.findall(r"\d+\.\d+", text)]
               for text in (ours, theirs)]
    assert all(word in ours for word in words), ours
    assert re.sub(r"\d+\.\d+", "", ours) == re.sub(r"\d+\.\d+", "", theirs), (ours, theirs)
    assert all(abs(mine - other) <= tolerance for mine, other in zip(*numbers)), (ours, theirs)
    assert numbers[0][-1] < numbers[0][0], ours


def wine():
    compare(lambda backend: printed(start(*ALONE, program("wine.py"), backend)),
            "epoch 19: loss 0.")


def write_digits(folder, number):
    """Files as MNIST's: images of noise around a pattern for each digit."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(number) % 10
    patterns = torch.rand(10, 28, 28, generator=generator) > 0.5
    images = (patterns[labels] * 160 + torch.randint(90, (number, 28, 28), generator=generator))
    with open(os.path.join(folder, "train-images-idx3-ubyte"), "wb") as file:
        file.write(struct.pack(">4i", 2051, number, 28, 28))
        file.write(images.to(torch.uint8).numpy().tobytes())
    with open(os.path.join(folder, "train-labels-idx1-ubyte"), "wb") as file:
        file.write(struct.pack(">2i", 2049, number) + labels.to(torch.uint8).numpy().tobytes())


def in_folder(step):
    folder = tempfile.mkdtemp(prefix="gyre-torch-examples-")
    try:
        return step(folder)
    finally:
        shutil.rmtree(folder)


def mnist_convnet():
    def run(folder, backend):
        return printed(start(sys.executable, program("mnist_convnet.py"), "--data", folder,
                             "--batch", "20", "--epochs", "2", backend,
                             MASTER_PORT=free_port()))

    def both(folder):
        write_digits(folder, 200)
        compare(lambda backend: run(folder, backend), "epoch 2, step 5 of 5")

    in_folder(both)


def mixed_precision():
    """Two epochs, and two more of what was saved."""
    def run(folder, backend):
        command = (*ALONE, program("mixed_precision.py"), "--half", "float16", "--saved",
                   os.path.join(folder, "saved"), backend, "--epochs")
        return printed(start(*command, "2")) + printed(start(*command, "4"))

    compare(lambda backend: in_folder(lambda folder: run(folder, backend)), "epoch 1", "epoch 3")


def slurm():
    """The variables are srun's for two nodes with a task each."""
    def run(folder, backend):
        port = free_port()
        jobs = [start(sys.executable, program("slurm.py"), "--folder", folder, "--epochs", "4",
                      "--save-every", "2", backend, SLURM_JOB_ID="4711", SLURM_NTASKS="2",
                      SLURM_PROCID=str(rank), SLURM_NODEID=str(rank), SLURM_LOCALID="0",
                      SLURM_JOB_NODELIST="localhost", SLURM_JOB_NUM_NODES="2", MASTER_PORT=port)
                for rank in range(2)]
        text = printed(*jobs)
        assert sorted(os.listdir(folder)) == ["model_2.pt", "model_4.pt"]
        weights = torch.load(os.path.join(folder, "model_4.pt"))
        assert weights["0.weight"].shape == (64, 13)
        return text

    compare(lambda backend: in_folder(lambda folder: run(folder, backend)), "epoch 3")


def uneven_nodes():
    def run(backend):
        place = f"127.0.0.1:{free_port()}"
        jobs = [start(*TORCHRUN, "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                      place, "--rdzv-id", "uneven", "--nproc-per-node", number,
                      program("uneven_nodes.py"), backend) for number in ("2", "1")]
        text = printed(*jobs)
        places = sorted(eval(found) for found in re.findall(r"\(\d, \d, \d\)", text))
        assert places in ([(0, 0, 2), (1, 1, 2), (2, 0, 1)], [(0, 0, 1), (1, 0, 2), (2, 1, 2)])
        return re.sub(r"rank, local.*\n", "", text)  # either node may be the first

    compare(run, "epoch 9: 11 steps", tolerance=2e-3)


if __name__ == "__main__":
    rig.main(wine, mnist_convnet, mixed_precision, slurm, uneven_nodes)
