"""Secrets in the environment: the agent reads them, and its workers do not inherit them."""

from __future__ import annotations

import os

TOKEN, ETCD_USER = "DSCONFIG_ELASTIC_TOKEN", "ETCDCTL_USER"
_SECRETS = (TOKEN, ETCD_USER, "ETCDCTL_PASSWORD")
_withheld: dict[str, str] = {}


def secret(name: str) -> str | None:
    """The variable's value, also after `withhold`."""
    return os.environ.get(name, _withheld.get(name))


def withhold() -> None:
    """Take the secrets out of this process's environment, which torch copies for each worker.

    The agent connects to its store again later, so that they are kept here. A process of the same user still
    finds in `/proc` what the agent was started with; a file, `--token FILE`, keeps the token out of there.
    """
    for name in _SECRETS:
        if (value := os.environ.pop(name, None)) is not None:
            _withheld[name] = value
