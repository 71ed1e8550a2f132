"""MkDocs hook that writes the live example and the numbers of the home page, from what dsconfig says at build time."""

from __future__ import annotations

from html import escape
from typing import Any

import dsconfig
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.releases import RELEASES
from dsconfig.model.key_table import iter_keys
from dsconfig.rules import RULES

TARGET, WORLD_SIZE = "0.19.8", 8
EXAMPLE = """\
{
  "train_batch_size": 100,
  "train_micro_batch_size_per_gpu": 4,
  "bf16": { "enabled": true },
  "zero_optimization": {
    "stage": 3,
    "offload_optimiser": { "device": "cpu" },
    "stage3_max_live_parameters": "1e9"
  },
  "gradient_cliping": 1.0
}
"""


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Fill in the marks of the home page."""
    if page.file.src_uri != "index.md":
        return markdown
    return markdown.replace("<!-- example -->", example()).replace("<!-- numbers -->", numbers())


def example() -> str:
    """The example and its diagnostics as the playground shows them; `assets/home.js` makes it live."""
    report = dsconfig.check(EXAMPLE, target=TARGET, world_size=WORLD_SIZE)
    items = "".join(_item(each) for each in report)
    lines = "".join(
        _line(number, line, report.diagnostics) for number, line in enumerate(EXAMPLE.splitlines(), 1)
    )
    # A line break would be an empty line in Markdown, which ends the block.
    code = f'<pre tabindex="0" aria-label="Example config"><code>{lines}</code></pre>'.replace("\n", "&#10;")
    hidden = "".join(
        f'<input type="hidden" id="{name}" value="{value}">'
        for name, value in {
            "format": "json",
            "target": TARGET,
            "size": WORLD_SIZE,
            "reader": "deepspeed",
        }.items()
    )
    text = escape(EXAMPLE, quote=True).replace("\n", "&#10;")
    return (
        f'<div class="playground" data-part data-text="{text}" markdown="0">{hidden}<div class="panes">'
        f'<section class="left" aria-label="Config"><div id="editor">{code}</div>'
        '<p class="note"><button type="button" id="edit">Edit it here</button> or open it in the '
        '<a id="whole" href="playground/">playground</a>. It runs in your browser; no data is sent.</p></section>'
        f'<section class="right" aria-label="Diagnostics"><p id="summary" role="status">{_summary(report.diagnostics)}'
        f'</p><ul id="found" aria-label="Diagnostics">{items}</ul></section></div></div>'
    )


def _line(number: int, line: str, diagnostics: tuple[Diagnostic, ...]) -> str:
    """A line of the example, marked if it has a diagnostic."""
    text = line.lstrip()
    return f'{" " * (len(line) - len(text))}<span class="{_severity(number, diagnostics)}">{escape(text)}</span>\n'


def _severity(number: int, diagnostics: tuple[Diagnostic, ...]) -> str:
    found = [each.severity for each in diagnostics if each.location and each.location.line == number]
    return "error" if "error" in found else "warning" if found else ""


def _summary(diagnostics: tuple[Diagnostic, ...]) -> str:
    counts = [
        (word, sum(each.severity == word for each in diagnostics)) for word in ("error", "warning", "info")
    ]
    return " · ".join(
        f"{count} {word}{'' if count == 1 or word == 'info' else 's'}" for word, count in counts if count
    )


def _item(each: Diagnostic) -> str:
    line = f"line {each.location.line}" if each.location else "file"
    help_line = f'<p class="help">help: {_inline(each.help)}</p>' if each.help else ""
    fix = f'<button type="button">{escape(each.fix.title.replace("`", ""))}</button>' if each.fix else ""
    return (
        f'<li class="{each.severity}"><button type="button">{line}</button><div>{_inline(each.message)}{help_line}'
        f'<a class="rule" href="rules/{each.code}/">{each.code} {each.name}</a></div>{fix}</li>'
    )


def _inline(text: str) -> str:
    """A message as HTML: what it has in backticks is code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces))


def numbers() -> str:
    """Counts of the rules, keys and releases that the checker knows."""
    facts = {
        f"{len(RULES)}": "rules, each with a page and checked examples",
        f"{sum(1 for _ in iter_keys())}": "keys with type, default, unit and releases",
        f"{len(RELEASES)}": f"releases, {RELEASES[0]} to {RELEASES[-1]}",
        "0": "imports of torch or DeepSpeed: it runs on a laptop",
    }
    items = "".join(f"<li><b>{number}</b> {text}</li>" for number, text in facts.items())
    return f'<ul class="numbers" markdown="0">{items}</ul>'
