"""Lets DeepSpeed releases of 2021 to 2023 import beside today's torch and numpy.

Python imports a module of this name on PYTHONPATH by itself: it also reaches the `setup.py` runs of pip.
"""

import collections.abc
import importlib.machinery
import logging
import os
import sys
import types


def _numpy() -> None:
    import numpy as np

    if not hasattr(np, "BUFSIZE"):  # autotuning/autotuner.py imports it, up to 0.10
        np.BUFSIZE = 8192  # type: ignore[attr-defined]


def _torch() -> None:
    from torch.distributed.elastic.agent.server import api

    six = types.ModuleType("torch._six")  # gone since torch 2.0; runtime/utils.py reads it up to 0.8
    six.__dict__.update(inf=float("inf"), string_classes=(str, bytes), container_abcs=collections.abc)
    sys.modules["torch._six"] = six
    for name, value in (("log", logging.getLogger("elastic")), ("_get_socket_with_port", lambda: None)):
        if not hasattr(api, name):  # elasticity/elastic_agent.py imports both
            setattr(api, name, value)


def _tensorboard() -> None:
    board = types.ModuleType("tensorboardX")  # imported by the engine up to 0.6
    board.__dict__["SummaryWriter"] = object
    board.__spec__ = importlib.machinery.ModuleSpec("tensorboardX", None)  # accelerate asks for it
    sys.modules["tensorboardX"] = board


if os.environ.get("DSCONFIG_PARITY_SHIM"):
    try:
        _numpy()
        _torch()
        _tensorboard()
    except ImportError:  # the environment is still being built
        pass
