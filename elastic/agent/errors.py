"""How a node's part of a job can end other than by success, with the exit code of each."""

from __future__ import annotations

from typing import ClassVar, Final

from elastic.printable import printable

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
