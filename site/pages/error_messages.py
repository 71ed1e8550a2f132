"""Pages about known error messages, and their index with a box for pasting a traceback."""

from __future__ import annotations

from itertools import groupby

from dsconfig.rules import RULES
from dsconfig.rules.error_messages import ErrorMessage, known_error_messages
from pages import markdown
from pages.rules import APART

LIBRARIES = {
    "deepspeed": "DeepSpeed",
    "transformers": "Transformers",
    "accelerate": "Accelerate",
    "trl": "TRL",
    "peft": "PEFT",
    "bitsandbytes": "bitsandbytes",
    "flash-attn": "FlashAttention",
    "datasets": "Datasets",
    "vllm": "vLLM",
    "llamafactory": "LLaMA-Factory",
    "axolotl": "Axolotl",
    "ms-swift": "ms-swift",
    "lightning": "Lightning",
    "torch": "PyTorch, CUDA and NCCL",
    "pydantic": "pydantic",
    "python": "Python",
    "gpt-neox": "GPT-NeoX",
    "launch": "Launchers",
    "shell": "Shell",
}
"""Headings by library, in the order of the index."""

_SEARCH = "search:\n  boost: 0.1\n"
"""Rank messages below keys and rules in searches by topic; a search for the exact message still finds it first."""
_BOX = """<div id="explain-error" class="planner" markdown="0"><p>The box needs JavaScript. On the command line,
<code>dsconfig explain - &lt; log.txt</code> prints the same.</p></div>"""


def pages() -> dict[str, str]:
    """Return the index and the pages by path."""
    return {
        "messages/index.md": _index(),
        **{f"messages/{each.id}.md": _page(each) for each in known_error_messages()},
    }


def _display_text(entry: ErrorMessage) -> str:
    """Return the message with an ellipsis for each value."""
    return entry.text.replace("{}", "…")


def _index() -> str:
    description = "Paste a DeepSpeed traceback to get its cause and remedies, or look up an error message."
    order = list(LIBRARIES)
    parts = [
        "Paste a line or a whole traceback. The page runs `dsconfig explain` in your browser and sends no data.",
        _BOX,
        (
            f"dsconfig knows {len(known_error_messages())} messages of DeepSpeed and of the libraries and launchers "
            "used with it."
        ),
    ]
    ordered = sorted(known_error_messages(), key=lambda each: (order.index(each.library), each.text.lower()))
    for library, group in groupby(ordered, lambda each: each.library):
        # Each message has a page, so a search does not need the tables.
        parts.append(f"## {LIBRARIES[library]} {APART}")
        rows = [(f"[`{_cut(_display_text(each))}`]({each.id}.md)", each.error) for each in group]
        parts.append(markdown.table(("message", "exception"), rows))
    scripts = (f'<script src="../assets/{name}.js" defer></script>' for name in ("checker", "explain"))
    parts.append("\n".join(scripts))
    return markdown.page("Error messages", description, *parts)


def _cut(text: str) -> str:
    return text if len(text) <= 110 else f"{text[:109]}…"


def _page(entry: ErrorMessage) -> str:
    title = f"{entry.error}: {_cut(_display_text(entry))}"
    parts = [markdown.fence(f"{entry.error}: {_display_text(entry)}")]
    if entry.variants:
        others = "\n".join(each.replace("{}", "…") for each in entry.variants)
        parts += ["Other wordings:", markdown.fence(others)]
    if entry.symptom:
        parts.append("This message often follows from another error: look for the first one in the log.")
    parts += ["## Cause", entry.cause, "## What to do", markdown.bullets(entry.remedies)]
    facts = [f"Raised in `{entry.source}`."]
    if entry.versions:
        facts.append(f"Versions: `{entry.versions}`.")
    if entry.rules:
        facts.append(
            "Rules: " + ", ".join(f"[{c}](../rules/{c}.md) {RULES[c].name}" for c in entry.rules) + "."
        )
    if entry.guide:
        facts.append(f"[Guide](../guides/{entry.guide}.md).")
    parts.append(markdown.bullets(facts))
    description = f"{entry.error}: {_cut(_display_text(entry))} Cause and remedies."
    return markdown.page(title, description, *parts, more=_SEARCH)
