"""An `optimizer` or `scheduler` section without a `type`."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.rules._built_class import names_a_class
from dsconfig.rules._move_fix import renamed


def type_left_out(ctx: Context, section: str, *, names: tuple[str, ...], example: str) -> Iterator[Finding]:
    """What a section without `type` does: nothing. `names` are keys that may stand in its place."""
    written = ctx.data.get(section)
    if not isinstance(written, dict) or not written or written.get("type") is not None:
        return
    null = "type" in written
    wrong = (key for key in names if names_a_class(section.capitalize(), written.get(key)))
    other = None if null else next(wrong, None)
    yield ctx.at(
        f"{section}.type" if null else section,
        f"`{section}` has no effect: {'its `type` is `null`' if null else 'it has no `type`'}, so DeepSpeed "
        f"builds no {section}",
        help=f"rename `{other}` to `type`" if other else f'add `"type": "{example}"`, or remove the section',
        part="value" if null else "key",
        fix=renamed(ctx, (section, other), "type", written[other], title=f"rename `{other}` to `type`")
        if other
        else None,
    ).lacking(ctx.place(f"{section}.type"))
