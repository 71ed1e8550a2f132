"""The migration of a config that stands in a launch file, as one of the launch file."""

from __future__ import annotations

import re
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from dsconfig.fix.migration_blockers import Stop

if TYPE_CHECKING:
    from dsconfig.fix.migrate import Migration
    from dsconfig.launch.located_config import Embedding


def lifted(done: Migration, place: Embedding) -> Migration:
    """What became of the config, in the launch file's own lines."""
    text = place.put_back(done.text)
    changes = tuple(replace(each, line=place.line(each.line)) for each in done.changes)
    decisions = tuple(replace(each, line=place.line(each.line)) for each in done.decisions)
    if text is None and done.stopped is None:
        done = replace(done, stopped=Stop("what comes out cannot be written back into the launch file"))
    if done.stopped is not None:  # the commands among the hints are for the file
        inner = re.compile(rf"'{re.escape(place.launch.name)}: [^']*'")
        hints = tuple(inner.sub(lambda _: quote(place.launch.name), each) for each in done.stopped.hints)
        done = replace(done, stopped=replace(done.stopped, hints=hints))
    text = place.launch.text if text is None or done.stopped is not None else text
    return replace(done, text=text, changes=changes, decisions=decisions)
