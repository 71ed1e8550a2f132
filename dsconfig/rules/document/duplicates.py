"""Keys that are written twice."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._suggest_section import named
from dsconfig.rules.document._text_problems import problems


@rule(
    "DSC003",
    effect="rejected",
    source="runtime/config_utils.py:dict_raise_error_on_duplicate_keys",
    reads="text",
)
def duplicate_key(ctx: Context) -> Iterator[Finding]:
    """A key is written twice in one object.

    DeepSpeed refuses a file with duplicates. Where Transformers, Accelerate, Lightning or a script load it,
    the last one wins silently.

    Bad:

        {"train_batch_size": 8, "train_batch_size": 16}

    Good:

        {"train_batch_size": 16}
    """
    found = list(problems(ctx, "duplicate-key"))
    if not found:
        return
    refused = ctx.from_file
    from dsconfig.rules.document._duplicates import duplicates

    for problem, count, fix in duplicates(ctx.document, found, refused=refused):
        yield ctx.spot(
            problem,
            f"{named(problem.path)} is written {'twice' if count == 2 else f'{count} times'}: "
            + ("DeepSpeed refuses the file" if refused else "the last one counts"),
            help="keep one of them",
            effect="rejected" if refused else "altered",
            fix=fix,
        )
