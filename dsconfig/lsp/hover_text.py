"""What is told of a key, as Markdown: what it does, takes and defaults to, since when, who fills it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.releases import NEVER, name
from dsconfig.core.wording import expected, quoted
from dsconfig.model.key_prose import prose_of

if TYPE_CHECKING:
    from dsconfig.model.release_view import KeyView


def told(word: str, key: KeyView, release: str) -> str:
    """All that is known of a key in the eyes of a release, as Markdown."""
    info = key.info
    said = [prose_of(info)]
    if word != info.name:
        said.insert(0, f"Another name of `{info.name}`.")
    facts = "\n".join(f"- {title}: {text}" for title, text in _facts(key, release) if text)
    return "\n\n".join(part for part in (" ".join(filter(None, said)), facts) if part)


def _facts(key: KeyView, release: str) -> Iterator[tuple[str, str]]:
    info = key.info
    yield "Takes", expected(key.type) + (f", in {info.unit}" if info.unit else "")
    default = "" if key.default is None else quoted(key.default)
    yield f"Default of {release}", "required" if info.required else default
    for last, value in info.defaults:
        if value != key.default:
            yield f"Default up to {name(last)}", quoted(value)
    yield "Releases", ", ".join(span(*each) for each in info.spans)
    yield "Deprecated", f"since {name(info.deprecated)}" if info.deprecated < NEVER else ""
    yield "Use instead", f"`{info.replaced_by}`" if info.replaced_by else ""
    yield "Also written", ", ".join(f"`{alias}` ({span(*known)})" for alias, known in info.aliases)
    yield '"auto"', f"filled by {' and '.join(map(str.capitalize, info.fills))}" if info.fills else ""


def span(first: int, last: int) -> str:
    """Releases in words: `0.9.0 and later`."""
    return f"{name(first)} and later" if last == NEVER else f"{name(first)} to {name(last)}"
