"""How a node's part of a job can end, by error or in order, with the exit code of each."""

from __future__ import annotations

from typing import ClassVar, Final

from elastic.agent.state import State

# Text that another machine wrote, made safe to show on a terminal and in a log.


def printable(text: str) -> str:
    """The text on one line; terminal escapes and all else that cannot be seen are written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


# How a node's part of a job can end other than by success, with the exit code of each.

SUCCEEDED: Final = 0

EXIT_CODES: Final = {
    SUCCEEDED: "training finished, here or (for a node on standby) elsewhere",
    1: "training failed and its restarts are used up; on every node of the job",
    2: "wrong use: a missing script, an unknown option, unsafe settings, no torch",
    3: "the config is refused: no elasticity block, nodes that differ, a size that policy `fail` refuses",
    4: "the store cannot be reached, or was lost while the job ran",
    5: "too few nodes, or an inadmissible number of them, for the whole of `join_timeout`",
    130: "ended by SIGINT",
    138: "this host cannot go on, its disk is full, say; the others do: start the agent again",
    143: "ended by SIGTERM: this node left in order, after the next checkpoint; the others go on",
}
"""What each exit code of `dsconfig elastic run` means."""


class AgentError(Exception):
    """Ends this node's part of the job; the message is one line for the user."""

    code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # other nodes write parts of it


class TrainingFailedError(AgentError):
    """The script failed more often than `max_restarts` allows, on this node or another."""

    code = 1


class SettingsError(AgentError, ValueError):
    """An option or a combination of options that cannot be used."""

    code = 2


class RefusedError(AgentError):
    """The job's config is refused before any worker starts."""

    code = 3


class StoreLostError(AgentError):
    """The store does not answer."""

    code = 4


class HostError(AgentError):
    """This host lets its agent down; those of other hosts need not mind.

    Schedulers that go by exit codes start a replica again from 128 on, and 138 is no signal's that they send
    (Kubeflow's `pkg/util/train/train_util.go`, `IsRetryableExitCode`).
    """

    code = 138


class TooFewNodesError(AgentError):
    """No group could be formed in time."""

    code = 5


# How this node's part of a job ends though nothing went wrong on it.

LATE = " before this node came: there is nothing to do here, and another job needs another `--rdzv-id`"


class JobSucceeded(Exception):  # noqa: N818 - not an error
    """The job has ended well without needing this node (any more)."""


class Drained(Exception):  # noqa: N818 - not an error
    """This node was asked to leave, and may go now."""


def raise_if_failed(state: State, *, came_late: bool = False) -> None:
    """Raise, on every node alike, what ended a job that did not succeed."""
    outcome = state.outcome
    if outcome is None or outcome.kind == "succeeded":
        return
    if outcome.kind == "refused":
        raise RefusedError(outcome.text)  # the same words on every node, whenever it came
    raise TrainingFailedError(outcome.text + (LATE if came_late else ""))
