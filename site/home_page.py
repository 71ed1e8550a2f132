"""MkDocs hook that writes the live example and the numbers of the home page, from what dsconfig says at build time."""

from __future__ import annotations

from typing import Any

import live_example

from dsconfig.core.releases import RELEASES
from dsconfig.model.key_table import iter_keys
from dsconfig.rules import RULES

TARGET, WORLD_SIZE, CONSUMER = "0.19.8", 8, "deepspeed"
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
    answers = live_example.compute_answers(EXAMPLE, target=TARGET, world_size=WORLD_SIZE, consumer=CONSUMER)
    hidden = "".join(
        f'<input type="hidden" id="{name}" value="{value}">'
        for name, value in {
            "format": "json",
            "target": TARGET,
            "size": WORLD_SIZE,
            "reader": CONSUMER,
        }.items()
    )
    return (
        f'<div class="playground" data-part data-text="{live_example.text_attribute(EXAMPLE)}" '
        f'data-answers="{answers.as_attribute()}" markdown="0">{hidden}<div class="panes">'
        f'<section class="left" aria-label="Config"><div id="editor">{live_example.code(EXAMPLE, answers)}</div>'
        '<p class="note"><button type="button" id="edit">Edit it here</button> or open it in the '
        '<a id="whole" href="playground/">playground</a>. It runs in your browser; no data is sent.</p></section>'
        '<section class="right" aria-label="Diagnostics"><p id="summary" role="status">'
        f'{live_example.summary(answers)}</p><ul id="found" aria-label="Diagnostics">'
        f"{live_example.diagnostics(answers, '')}</ul></section></div></div>"
    )


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
