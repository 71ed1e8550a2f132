"""The keys, a page for each section of the top level: all that the model and the rules know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from dsconfig import model
from dsconfig.core.releases import NEVER
from dsconfig.core.wording import quoted
from dsconfig.document.json_format import pretty_config
from dsconfig.memory.memory_ledger import TERMS
from dsconfig.model.iter_fields import prose
from dsconfig.model.key_page import describe, members, span
from dsconfig.model.keyinfo import KeyInfo
from dsconfig.rules import RULES
from pages import example, markdown, places


def pages() -> dict[str, str]:
    """The index and the pages by their paths."""
    by_page: dict[str, list[str]] = defaultdict(list)
    for path in places.entries():
        by_page[places.home(path)].append(path)
    made = {f"keys/{name}.md": _page(name, paths) for name, paths in by_page.items()}
    return {"keys/index.md": _index(by_page), **made}


def _index(by_page: dict[str, list[str]]) -> str:
    told = "Every key of every DeepSpeed release: type, default, unit, who fills auto, rules, an example."
    rows = [
        (
            f"[`{name}`]({name}.md)" if name != places.TOP else f"[at the top level]({name}.md)",
            str(len(paths)),
            _first(name),
        )
        for name, paths in by_page.items()
    ]
    head = (
        f"{len(places.entries())} keys, of all releases. `dsconfig explain KEY` shows the same on a terminal."
    )
    return markdown.page(
        "Keys", told, head, markdown.table(("section", "keys", "what it is"), rows), more=LOW
    )


HIGH = "search:\n  boost: 1.3\n"
"""Who types the name of a key wants its entry before the rules that speak of it."""
LOW = "search:\n  boost: 0.3\n"


def _first(name: str) -> str:
    """The first sentence that is said of a section."""
    if name == places.TOP:
        return "Batch, clipping, logging and all else that stands in no section."
    said = _prose(name)
    releases = _until(name)
    return f"{said.partition('. ')[0].rstrip('.')}{releases}"


def _prose(path: str) -> str:
    """The description of a key."""
    info = places.entries()[path][0]
    return prose(getattr(model, info.section)).get(info.name, "")


def _until(path: str) -> str:
    last = max(each.last for info in places.entries()[path] for each in info.spans)
    return "" if last == NEVER else f" (up to {span(0, last).rpartition(' ')[2]})"


def _page(name: str, paths: list[str]) -> str:
    top = name == places.TOP
    title = "Keys at the top level" if top else f"`{name}` {{ #{name} }}"
    names = ", ".join(path.rpartition(".")[2] for path in paths[:12])
    more = " …" if len(paths) > 12 else ""
    told = f"{_first(name)}. Keys of DeepSpeed: {names}{more}. Defaults by release, types, rules."
    return markdown.page(title, told, *(_entry(path, name) for path in paths), more=HIGH)


def _entry(path: str, name: str) -> str:
    """What is known of one key; the heading of the section that the page is about is the page's."""
    level = 3 if path.count(".") > 1 else 2
    infos = places.entries()[path]
    text = (describe(path) or "").partition("\n")[2]
    parts = [
        "" if path == name else f"{'#' * level} `{path}` {{ #{path} }}",
        text,
        *_members(path),
        *_defaults(infos),
        *_rules(path),
        *_memory(path),
    ]
    return "\n\n".join(part.strip("\n") for part in [*parts, *_example(path)] if part.strip())


def _members(path: str) -> Iterator[str]:
    """The keys of a section."""
    rows = [(places.link(f"{path}.{name}", ""), said) for name, said in members(path).items()]
    yield markdown.table(("key", "what it is"), rows)


def _defaults(infos: list[KeyInfo]) -> Iterator[str]:
    """The default by release, where it changed."""
    for info in infos:
        if info.defaults and len(infos) == 1:
            first, rows = info.spans[0].first, []
            for last, value in (*info.defaults, (info.spans[-1].last, info.default)):
                if last >= first:
                    rows.append((span(first, last), quoted(value) if value is not None else "none"))
                    first = last + 1
            yield markdown.table(("DeepSpeed", "default"), rows)


def _rules(path: str) -> Iterator[str]:
    codes = places.of_key(path)
    if codes:
        yield "Rules:"
        yield markdown.bullets(
            f"[{code} {RULES[code].name}](../rules/{code}.md): {RULES[code].title}" for code in codes
        )


def _memory(path: str) -> Iterator[str]:
    """What of the memory of training the key governs."""
    rows = [(name, f"`{meaning.formula}`") for name, meaning in TERMS.items() if meaning.key == path]
    if rows:
        yield "Memory that it governs ([how to read this](../guides/memory.md)):"
        yield markdown.table(("what is held", "bytes"), rows)


def _example(path: str) -> Iterator[str]:
    found = example.of(path)
    if found:
        release, config = found
        yield markdown.fence(pretty_config(config), "json", f"an example for DeepSpeed {release}")
