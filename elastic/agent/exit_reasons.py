"""How this node's part of a job ends though nothing went wrong on it."""

from __future__ import annotations

from elastic.agent.errors import RefusedError, TrainingFailedError
from elastic.agent.state import State

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
