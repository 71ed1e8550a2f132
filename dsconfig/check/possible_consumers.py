"""What is wrong whoever reads a config, where its program leaves open who does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.check.merge_releases import diagnostics, merged

if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.evaluation.context import Source
    from dsconfig.job.detect_consumer import Reader


def wrong_for_all(
    found: list[Diagnostic], source: Source, reader: Reader, releases: tuple[str, ...]
) -> tuple[list[Diagnostic], tuple[str, ...]]:
    """The diagnostics for the assumed reader that hold for every other candidate too, and notes on that.

    Two readers may reject the same value in different words, so that an error of one at a path stands for an
    error of the other there.
    """
    if not reader.others:
        return found, ()
    kept = found
    for other in reader.others:
        theirs = diagnostics(
            source.document, merged(source._replace(consumer=other, given=None), releases)[0]
        )
        same = {(each.code, each.path) for each in theirs}
        errors = {each.path for each in theirs if each.severity == "error"}
        kept = [
            each
            for each in kept
            if (each.code, each.path) in same or (each.severity == "error" and each.path in errors)
        ]
    others = " or ".join(reader.others)
    left = len(found) - len(kept)
    told = f"{source.document.name}: {reader.name} is assumed to read it, but {others} may ({reader.why})"
    if left:
        is_left = "1 problem for it alone is" if left == 1 else f"{left} problems for it alone are"
        told = f"{told}; {is_left} left out: --consumer {reader.name} shows {'it' if left == 1 else 'them'}"
    return kept, (told,)
