"""The pages of keys, one per section of the top level."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from dsconfig.document.pretty_print import format_config
from dsconfig.memory.memory_ledger import TERMS
from dsconfig.model.key_description import key_page, key_page_below_root, key_summary, section_members
from dsconfig.model.key_table import INFERENCE_ROOT, iter_keys
from dsconfig.rules import RULES
from pages import key_entries, key_example, markdown

HIGH = "search:\n  boost: 1.4\n"
"""A search for the name of a key lists its entry before the rules about it."""
LOW = "search:\n  boost: 0.3\n"


def pages() -> dict[str, str]:
    """The index and the pages by their paths."""
    by_page: dict[str, list[str]] = defaultdict(list)
    for path in key_entries.entries():
        by_page[key_entries.page_name(path)].append(path)
    sections = {f"keys/{name}.md": _page(name, paths) for name, paths in by_page.items()}
    return {
        "keys/index.md": _index(by_page),
        **sections,
        "keys/inference-config.md": _inference_page(),
    }


def _index(by_page: dict[str, list[str]]) -> str:
    description = 'Every key of every DeepSpeed release: type, default, unit, "auto", rules, an example.'
    rows = [
        (
            f"[`{name}`]({name}.md)" if name != key_entries.TOP_LEVEL else f"[top level]({name}.md)",
            str(len(paths)),
            _summary(name),
        )
        for name, paths in by_page.items()
    ]
    head = f"{len(key_entries.entries())} keys of all releases. `dsconfig explain KEY` shows the same in a terminal."
    head = f"{head} [Inference configs](inference-config.md) have keys of their own."
    table = markdown.table(("section", "keys", "description"), rows)
    return markdown.page("Keys", description, head, table, more=LOW)


def _summary(name: str) -> str:
    if name == key_entries.TOP_LEVEL:
        return "Batch size, clipping, logging and other keys outside of sections."
    return key_summary(key_entries.entries()[name])


def _page(name: str, paths: list[str]) -> str:
    is_top = name == key_entries.TOP_LEVEL
    title = "Keys at the top level" if is_top else f"`{name}` {{ #{name} }}"
    names = ", ".join(path.rpartition(".")[2] for path in paths[:12])
    more = " …" if len(paths) > 12 else ""
    description = f"{_summary(name)}. Keys of DeepSpeed: {names}{more}. Types, defaults by release, rules."
    return markdown.page(title, description, *(_entry(path, name) for path in paths), more=HIGH)


def _inference_page() -> str:
    """The keys of inference configs, except those of ZeRO, which training configs have, too."""
    paths = list(dict.fromkeys(".".join(steps) for steps, _ in iter_keys(root=INFERENCE_ROOT)))
    entries = [
        "\n\n".join(
            (
                f"{'#' * (2 + path.count('.'))} `{path}` {{ #{path} }}",
                (key_page_below_root(path, INFERENCE_ROOT) or "").partition("\n")[2].strip("\n"),
            )
        )
        for path in paths
        if not path.startswith("zero.")
    ]
    description = (
        "Keys of an inference config, which deepspeed.init_inference reads: types, defaults, releases."
    )
    head = (
        "The keys of a config that `deepspeed.init_inference` reads, in DeepSpeed 0.7.6 and later. "
        "Its section `zero` has the keys of [`zero_optimization`](zero_optimization.md)."
    )
    return markdown.page("Keys of inference configs", description, head, *entries, more=LOW)


def _entry(path: str, name: str) -> str:
    """The entry of one key; the section that a page is about has no heading besides the title."""
    level = 3 if path.count(".") > 1 else 2
    text = (key_page(path) or "").partition("\n")[2]
    parts = [
        "" if path == name else f"{'#' * level} `{path}` {{ #{path}{_label(path, name)} }}",
        text,
        *_members(path),
        *_rules(path),
        *_memory(path),
    ]
    return "\n\n".join(part.strip("\n") for part in [*parts, *_example(path)] if part.strip())


def _label(path: str, name: str) -> str:
    """The attribute with the entry of a key in the table of contents: its path below the section of the page."""
    # Two asterisks would be emphasis, which ends the attributes.
    return "" if "*" in path else f' data-toc-label="{path.removeprefix(f"{name}.")}"'


def _members(path: str) -> Iterator[str]:
    """The keys of a section."""
    rows = [
        (key_entries.link(f"{path}.{name}", "", name), text) for name, text in section_members(path).items()
    ]
    yield markdown.table(("key", "description"), rows)


def _rules(path: str) -> Iterator[str]:
    codes = key_entries.rules_of_key(path)
    if codes:
        yield "Rules:"
        yield markdown.bullets(
            f"[{code} {RULES[code].name}](../rules/{code}.md): {RULES[code].title}" for code in codes
        )


def _memory(path: str) -> Iterator[str]:
    """The parts of the memory estimate that depend on the key."""
    rows = [(name, f"`{meaning.formula}`") for name, meaning in TERMS.items() if meaning.key == path]
    if rows:
        yield "Memory that depends on the key ([explanation](../guides/memory.md)):"
        yield markdown.table(("memory", "bytes"), rows)


def _example(path: str) -> Iterator[str]:
    example = key_example.example(path)
    if example:
        release, config = example
        yield markdown.fence(format_config(config), "json", f"Example for DeepSpeed {release}")
