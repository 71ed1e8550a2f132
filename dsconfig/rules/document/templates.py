"""Templates whose placeholders nobody filled."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.core.wording import one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.document._text_problems import READ, problems


@rule("DSC007", effect="rejected", source=READ, reads="template")
def unfilled_placeholder(ctx: Context) -> Iterator[Finding]:
    """A template's placeholder was never filled.

    A file with `CONFIG_BATCH_SIZE`, `${BATCH}` or `{{ batch }}` in it is the input of some script, not a
    config. Everything else that follows from the placeholders is left out, so that this is the one finding of
    its kind.

    Bad:

        {"train_batch_size": CONFIG_BATCH_SIZE}

    Good:

        {"train_batch_size": 8}
    """
    bare = list(problems(ctx, "placeholder"))
    quoted_ones = [event for event in ctx.walk.refused if _is_placeholder(event.value)]
    words = [*(problem.detail.rstrip(", ") for problem in bare), *(event.value for event in quoted_ones)]
    names = list(dict.fromkeys(words))
    if not names:
        return
    message = (
        f"the file is a template: {one_of([f'`{name}`' for name in names[:8]], 'and')}"
        f"{' …' if len(names) > 8 else ''} {'is' if len(names) == 1 else 'are'} not filled"
    )
    help_ = "fill the template first and check what comes out"
    yield ctx.spot(bare[0], message, help=help_) if bare else ctx.at(quoted_ones[0].path, message, help=help_)


_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}|\{\{[^{}]*\}\}|<[A-Z][A-Z0-9_]*>|[A-Z]+(?:_[A-Z0-9]+)+")


def _is_placeholder(value: object) -> bool:
    """A quoted placeholder: the whole of a string that stands where no string belongs."""
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None
