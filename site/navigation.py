"""MkDocs hook that lists the pages of rules and sections in the navigation, so that each has a sidebar."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any


def on_config(config: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the pages that `generate.py` wrote below the entries of their indexes."""
    docs = Path(config["docs_dir"])
    sections = sorted(path.stem for path in (docs / "keys").glob("*.md") if path.stem != "index")
    pages: dict[str, list[Any]] = {
        "Rules": list(_rules((docs / "rules" / "index.md").read_text("utf-8"))),
        "Keys": [{name: f"keys/{name}.md"} for name in sections],
    }
    for entry in config["nav"]:
        for title, page in entry.items():
            if title in pages:
                entry[title] = [page, *pages[title]]
    return config


def _rules(index: str) -> Iterator[dict[str, list[str]]]:
    """The pages of the index of rules, by its headings."""
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        codes = dict.fromkeys(re.findall(r"\((DSC\d{3})\.md", body))
        if codes:
            yield {re.sub(r" *\{.*", "", title).strip(): [f"rules/{code}.md" for code in codes]}
