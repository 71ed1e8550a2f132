"""Compare the verdicts on Python programs with DeepSpeed's, and fix the programs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dsconfig import check, fix
from tests.parity.generators.case import Case
from tests.parity.judges import compare
from tests.parity.judges.judging import Verdict


def check_and_fix_programs(
    release: str,
    programs: Iterable[tuple[Case, str]],
    verdicts: Mapping[str, Verdict],
    folder: Path,
    consumer: str = "deepspeed",
) -> tuple[list[compare.Outcome], list[str]]:
    """Both verdicts on each case and its program, and the programs that a fix broke.

    An inference config has no world size, so it is fixed without one.
    """
    outcomes, broken = [], []
    for number, (case, text) in enumerate(programs):
        path = folder / f"program_{number}.py"
        path.write_text(text)

        def check_program(_: object, path: Path = path, **options: Any) -> object:
            return check(path, **options)

        outcomes.append(compare.outcome(release, case, verdicts[case.id], check_program, consumer))
        world_size = case.world_size if consumer == "deepspeed" else None
        try:
            ast.parse(fix(path, target=release, world_size=world_size, unsafe=True).text)
        except SyntaxError as error:
            broken.append(f"{path.name}: {error}")
        path.unlink()
    return outcomes, broken
