"""The `dsconfig` rendezvous backend for stock torchrun: read the config, and hand over to `elastic.launch`.

    torchrun --nnodes 1:4 --nproc-per-node 8 --rdzv-backend dsconfig --rdzv-endpoint HOST:PORT \\
        --rdzv-conf ds_config=ds.json,nproc_per_node=8 -m elastic.worker train.py

torchrun does not pass the number of processes per node to the rendezvous, so `nproc_per_node` repeats it. A setting
may also be an environment variable such as `DSCONFIG_RDZV_DS_CONFIG`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from dsconfig.cli.handoff.elastic_job import plan_elastic_job, read_config
from dsconfig.render.terminal_style import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousParameters

    from elastic.agent.job_settings import ElasticJob


def rendezvous_creator() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """Return the function that torch registers for this entry point."""
    return create_rendezvous_handler


def create_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """Create the rendezvous handler; for unusable parameters, end the process with a one-line error."""
    from elastic.agent.errors import AgentError
    from elastic.launch import create_handler

    try:
        job = _job_from_parameters(params)
    except AgentError as error:
        print(f"dsconfig: error: {escape_unprintable(str(error))}", file=sys.stderr)
        raise SystemExit(error.code) from None
    return create_handler(job, params)


def _job_from_parameters(params: RendezvousParameters) -> ElasticJob:
    from elastic.agent.errors import SettingsError
    from elastic.agent.job_settings import ElasticJob

    def rendezvous_setting(key: str, default: str | None = None) -> Any:
        return params.get(key, os.environ.get(f"DSCONFIG_RDZV_{key.upper()}", default))

    path, processes = rendezvous_setting("ds_config"), rendezvous_setting("nproc_per_node", "1")
    if path is None:
        raise SettingsError("the rendezvous has no config: pass `--rdzv-conf ds_config=FILE`")
    if not str(processes).isdecimal():
        raise SettingsError(f"`nproc_per_node` must be a whole number, not {processes!r}")
    limit = rendezvous_setting("max_restarts", "none")
    config = read_config(str(path))
    return ElasticJob(
        config,
        plan_elastic_job(config, str(path)),
        params.min_nodes,
        params.max_nodes,
        int(processes),
        rendezvous_setting("policy", "standby"),
        int(limit) if str(limit).isdecimal() else None,
    )
