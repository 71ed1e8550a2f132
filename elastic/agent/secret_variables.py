"""Secrets in the environment, which workers must not inherit."""

from __future__ import annotations

import os

TOKEN, ETCD_USER = "DSCONFIG_ELASTIC_TOKEN", "ETCDCTL_USER"
_SECRETS = (TOKEN, ETCD_USER, "ETCDCTL_PASSWORD")
_withheld: dict[str, str] = {}


def read_secret(name: str) -> str | None:
    """Value of the variable, also after `withhold`."""
    return os.environ.get(name, _withheld.get(name))


def withhold_secrets() -> None:
    """Remove the secrets from this process's environment, which torch copies for each worker.

    They are kept here, since the agent reconnects to its store later. Processes of the same user still find the initial
    environment in `/proc`; `--token FILE` avoids that.
    """
    for name in _SECRETS:
        if (value := os.environ.pop(name, None)) is not None:
            _withheld[name] = value
