"""Exceptions that end a node's part in a job, with or without a failure, and their exit codes."""

from __future__ import annotations

from typing import ClassVar, Final

from elastic.agent.job_state import JobState
from elastic.agent.node_view import JobSummary

# Escaping of text from other machines.


def escape_unprintable(text: str) -> str:
    """Return `text` on one line, with terminal escapes and other unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


# Exit codes.

SUCCEEDED: Final = 0

EXIT_CODES: Final = {
    SUCCEEDED: "training finished, here or (for a node on standby) elsewhere",
    1: "training failed, and the restarts are used up; on every node of the job",
    2: "usage error: missing script, unknown option, unsafe settings, or no torch",
    3: "config rejected: no `elasticity` block, different settings on nodes, or a size that policy `fail` rejects",
    4: "the store is unreachable, or was lost while the job ran",
    5: "too few nodes, or an inadmissible number of nodes, until `join_timeout`",
    130: "ended by SIGINT",
    138: "this host failed, for example its disk is full; the other nodes continue: start the agent again",
    143: "ended by SIGTERM: this node left after the next checkpoint; the other nodes continue",
}
"""Meaning of each exit code of `dsconfig elastic run`."""


class AgentError(Exception):
    """Base class of errors that end this node's part in the job; the message is a single line."""

    code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        super().__init__(escape_unprintable(message))  # parts of it come from other nodes


class TrainingFailedError(AgentError):
    """Raised if the training script has failed, on any node, more often than `max_restarts` allows."""

    code = 1


class SettingsError(AgentError, ValueError):
    """Raised for an invalid option or combination of options."""

    code = 2


class RefusedError(AgentError):
    """Raised if the job's config or settings are rejected before any worker starts."""

    code = 3


class StoreLostError(AgentError):
    """Raised if the job's store does not answer."""

    code = 4


class HostError(AgentError):
    """Raised if this host fails; the agents of other hosts continue.

    The exit code is 138: Kubeflow restarts a replica for exit codes of 128 or more (`pkg/util/train/train_util.go`,
    `IsRetryableExitCode`), and schedulers do not send the signal that 138 stands for.
    """

    code = 138


class TooFewNodesError(AgentError):
    """Raised if no group of nodes has formed within `join_timeout`."""

    code = 5


# Orderly endings.

LATE = " before this node joined: nothing is left to do; use another `--rdzv-id` for another job"


class JobSucceeded(Exception):  # noqa: N818 - not an error
    """Signal that the job has succeeded and no longer needs this node."""


class Drained(Exception):  # noqa: N818 - not an error
    """Signal that this node was asked to leave the job and may do so now."""


def raise_if_failed(state: JobState | JobSummary, *, came_late: bool = False) -> None:
    """Raise the error of a failed or rejected job, which is the same on every node."""
    outcome = state.outcome
    if outcome is None or outcome.kind == "succeeded":
        return
    if outcome.kind == "refused":
        raise RefusedError(outcome.text)  # the same message on every node, whenever it joined
    raise TrainingFailedError(outcome.text + (LATE if came_late else ""))
