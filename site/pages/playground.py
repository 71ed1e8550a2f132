"""The playground that `make playground` built, as a page of the site, or a page that says that it was not built."""

from __future__ import annotations

import json
import re
from pathlib import Path

import live_example

EDITORS = Path(__file__).resolve().parents[2] / "editors"
BUILT = EDITORS / "dist" / "playground"
_CONTENT = re.compile(r"<!-- content -->\n(.*)<!-- end of content -->", re.DOTALL)
_HEAD = """\
---
title: Playground
description: >-
  Check a DeepSpeed config in the browser: diagnostics for each release, fixes, effective values and the resolved
  config. No data is sent.
hide: [navigation, toc, footer]
search: { exclude: true }
---

"""
_STYLE = """\
<link rel="stylesheet" href="page.css">

"""
_TAIL = """
<script type="module" src="page.js"></script>
"""
NONE = """\
# This build of the site has no playground

It was built on a machine without npm, which the playground requires. Run `make docs` on a machine with npm to include
it. On the command line, `dsconfig check` reports the same diagnostics: see [First check](../guides/first-check.md).
"""


def files(built: Path = BUILT) -> dict[str, bytes]:
    """The content of every file of the playground, by its path below `docs`."""
    if not (built / "index.html").is_file():
        return {"playground/index.md": (_HEAD + NONE).encode()}
    parts = {f"playground/{path.name}": path.read_bytes() for path in built.iterdir() if path.is_file()}
    alone = parts.pop("playground/index.html").decode()
    return {**parts, "playground/index.md": page(alone).encode()}


def page(alone: str) -> str:
    """Page of the site with the content of the page that `make playground` writes."""
    content = _CONTENT.search(alone)
    assert content is not None, "index.html has no content between its marks"
    # A line that is empty would end the block of HTML.
    body = "\n".join(line.strip() for line in content[1].splitlines() if line.strip())
    return f"{_HEAD}{_STYLE}{with_example(body)}\n{_TAIL}"


def with_example(body: str) -> str:
    """The first example and its answers, so that the page shows a result before its script has loaded."""
    first = json.loads((EDITORS / "playground" / "examples.json").read_text("utf-8"))[0]
    text = "\n".join(first["text"]) + "\n"
    answers = live_example.compute_answers(text)
    for empty, filled in (
        ('<div class="playground">', f'<div class="playground" data-answers="{answers.as_attribute()}">'),
        ('<div id="editor"></div>', f'<div id="editor">{live_example.code(text, answers)}</div>'),
        ("starting dsconfig…</p>", f"{live_example.summary(answers)}</p>"),
        (
            'aria-label="Diagnostics"></ul>',
            f'aria-label="Diagnostics">{live_example.diagnostics(answers, "../")}</ul>',
        ),
        ('aria-label="Output"></div>', f'aria-label="Output">{live_example.effective_values(answers)}</div>'),
    ):
        assert body.count(empty) == 1, f"index.html has no place for the example: {empty}"
        body = body.replace(empty, filled)
    return body
