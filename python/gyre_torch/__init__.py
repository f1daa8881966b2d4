"""Gyre as a backend of torch.distributed: ``init_process_group("gyre")``.

torch finds this package by its entry point ``torch.backends``, so that no import is needed. Where
TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns that off, ``import gyre_torch`` does the same.
"""

import atexit
import multiprocessing.util
import os
import sys

_leaver = None  # the process that has exit handlers of this module


def _extension():
    """The extension, which fits only the torch that it was built for."""
    import torch

    try:
        from . import _C
    except ImportError as error:
        raise RuntimeError(f"gyre: gyre_torch was not built for torch {torch.__version__}: {error}")
    if not torch.__version__.startswith(_C.torch_version):
        raise RuntimeError(
            f"gyre: gyre_torch was built for torch {_C.torch_version}, and this is "
            f"{torch.__version__}; build it again: pip install --no-build-isolation ./python"
        )
    return _C


def _join(options, _backend_options):
    """Makes the group of one process; torch calls this for each group that it makes."""
    extension = _extension()
    _leave_at_end()
    _share_buckets()
    return extension.join(
        store=options.store,
        rank=options.group_rank,
        size=options.group_size,
        name=options.group_id or "default",
        timeout=options.timeout,
        formed=not getattr(options, "enable_reconfigure", False),
        ranks=options.global_ranks_in_group,
    )


def _leave_at_end():
    """Has the process say goodbye to its peers before it ends. A child that multiprocessing has
    forked runs no exit handlers but those of multiprocessing itself."""
    global _leaver
    if _leaver != os.getpid():
        atexit.register(_leave)
        multiprocessing.util.Finalize(None, _leave, exitpriority=0)
    _leaver = os.getpid()


def _share_buckets():
    """Has DistributedDataParallel put its buckets into memory that the ranks share, which torch
    does only where this variable says so. With a GPU torch's default stays, for the variable holds
    for the groups of all backends."""
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")


def _leave():
    """Ends all groups. After an exception that nobody has caught the peers are told of it, for
    they may wait for this rank."""
    from . import _C

    error = getattr(sys, "last_value", None)
    _C.close_all(reason=f"uncaught {type(error).__name__}: {error}" if error else "")


def _register():
    """Makes the name "gyre" known to torch.distributed; torch calls this when it is imported."""
    import torch
    import torch.distributed as dist

    devices = ["cpu", "cuda"] if torch.version.cuda else ["cpu"]
    if dist.is_available() and not hasattr(dist.Backend, "GYRE"):
        dist.Backend.register_backend("gyre", _join, extended_api=True, devices=devices)


_register()
