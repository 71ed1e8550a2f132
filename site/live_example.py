"""An example config with the answers of dsconfig, computed when the site is built, for playground and home page.

The page shows them at once as HTML. Its script gets the same answers as data, so that the editor works before Python
has started in the browser. `tests/site/browser/playground.mjs` verifies that the script renders the same text.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from html import escape
from tempfile import TemporaryDirectory
from typing import Any

from dsconfig.lsp.language_server import LanguageServer

_FILE = "ds_config.json"
_DOCUMENT = {"uri": f"file:///project/{_FILE}"}
_SEVERITIES = {1: "error", 2: "warning", 3: "info"}
_COLUMNS = re.compile(r"^(\S+) {2,}(\S.*?) {2,}(\S.*)$")
_MOST_FIXES = 4


@dataclass(frozen=True)
class Answers:
    """Answers to what the script asks about its first text: `check`, `fixes` and `command("show")` of engine.ts."""

    items: list[dict[str, Any]]
    """Diagnostics as the language server sends them."""
    fixes: list[dict[str, Any]]
    """Title, text edits and codes of each fix."""
    show: dict[str, Any]
    """Exit code, stdout and stderr of `dsconfig show`."""

    def as_attribute(self) -> str:
        """The value of an HTML attribute."""
        return _attribute(json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":")))


@cache
def compute_answers(
    text: str, *, target: str = "", world_size: int | None = None, consumer: str = ""
) -> Answers:
    """Ask the language server and the command line about a config."""
    server = LanguageServer()
    capabilities = {"textDocument": {"diagnostic": {}}, "general": {"positionEncodings": ["utf-16"]}}
    options = {"commands": "return", "watches": True}
    server.handle_request("initialize", {"capabilities": capabilities, "initializationOptions": options})
    server.handle_notification("initialized", {})
    job = {"target": target, "worldSize": world_size, "consumer": consumer}
    server.handle_notification("workspace/didChangeConfiguration", {"settings": {"dsconfig": job}})
    item = {**_DOCUMENT, "languageId": "deepspeed-json", "version": 1, "text": text}
    server.handle_notification("textDocument/didOpen", {"textDocument": item})
    report: Any = server.handle_request("textDocument/diagnostic", {"textDocument": _DOCUMENT})
    end = {"line": len(text.splitlines()), "character": 0}
    asked = {
        "textDocument": _DOCUMENT,
        "range": {"start": {"line": 0, "character": 0}, "end": end},
        "context": {"diagnostics": [], "only": ["quickfix"]},
    }
    actions: Any = server.handle_request("textDocument/codeAction", asked) or []
    fixes = [
        {
            "title": action["title"],
            "edits": action.get("edit", {}).get("changes", {}).get(_DOCUMENT["uri"], []),
            "codes": [each["code"] for each in action.get("diagnostics", [])],
        }
        for action in actions
    ]
    return Answers(report["items"], fixes, _show(text, target, world_size, consumer))


def _show(text: str, target: str, world_size: int | None, consumer: str) -> dict[str, Any]:
    job = [f"--target={target}"] if target else []
    job += [f"--world-size={world_size}"] if world_size else []
    job += [f"--consumer={consumer}"] if consumer else []
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dsconfig", "show", *job, _FILE]
        with open(f"{folder}/{_FILE}", "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False
        )
    return {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def text_attribute(text: str) -> str:
    """The value of the HTML attribute with the text that the editor opens with."""
    return _attribute(text)


def code(text: str, answers: Answers) -> str:
    """The text as HTML, its lines marked by severity."""
    lines = "".join(_line(number, line, answers) for number, line in enumerate(text.splitlines()))
    # A line break would be an empty line in Markdown, which ends the block.
    return f'<pre tabindex="0" aria-label="Example config"><code>{lines}</code></pre>'.replace("\n", "&#10;")


def _line(number: int, line: str, answers: Answers) -> str:
    text = line.lstrip()
    severities = [each["severity"] for each in answers.items if each["range"]["start"]["line"] == number]
    mark = _SEVERITIES[min(severities)] if severities else ""
    indent = " " * (len(line) - len(text))
    return f'<span class="line">{indent}<span class="{mark}">{escape(text)}</span></span>\n'


def summary(answers: Answers) -> str:
    """Numbers of errors, warnings and infos."""
    counts = [
        (sum(each["severity"] == number for each in answers.items), word)
        for number, word in _SEVERITIES.items()
    ]
    words = [
        f"{count} {word}{'' if count == 1 or word == 'info' else 's'}" for count, word in counts if count
    ]
    return " · ".join(words) or "no problems answers"


def diagnostics(answers: Answers, site: str) -> str:
    """The list of diagnostics as HTML.

    Args:
        answers: the answers about the text.
        site: relative URL of the home page.
    """
    return "".join(_item(each, answers, site) for each in answers.items)


def _item(each: dict[str, Any], answers: Answers, site: str) -> str:
    message, *more = each["message"].split("\n")
    helps = "".join(f'<p class="help">{_inline(line)}</p>' for line in more)
    severity, code = _SEVERITIES[each["severity"]], each["code"]
    fixes = "".join(
        f'<button type="button">{escape(title)}</button>' for title in _titles(each, answers.fixes)
    )
    line = each["range"]["start"]["line"] + 1
    rule = f'<a class="rule" href="{site}rules/{code}/">{code} {each["data"]["name"]}</a>'
    return (
        f'<li class="{severity}"><b>{severity}</b><button type="button">line {line}</button>'
        f"<div>{_inline(message)}{helps}{rule}</div>{fixes}</li>"
    )


def _titles(each: dict[str, Any], fixes: list[dict[str, Any]]) -> Iterator[str]:
    """Titles of the fixes of a diagnostic: of those for its rule, the ones in its lines if there are any."""
    first, last = each["range"]["start"]["line"], each["range"]["end"]["line"]
    same = [fix for fix in fixes if fix["edits"] and each["code"] in fix["codes"]]
    near = [
        fix
        for fix in same
        if any(
            edit["range"]["start"]["line"] <= last and edit["range"]["end"]["line"] >= first
            for edit in fix["edits"]
        )
    ]
    for fix in (near or same)[:_MOST_FIXES]:
        if not fix["title"].startswith("Ignore "):
            yield fix["title"].replace("`", "")


def effective_values(answers: Answers) -> str:
    """The table of effective values as HTML: key, value and origin."""
    parts, rows = [], list[str]()
    for line in [*f"{answers.show['stdout']}\n{answers.show['stderr']}".splitlines(), ""]:
        if row := _COLUMNS.match(line):
            rows.append(_row(*row.groups()))
            continue
        if rows:
            heads = "".join(f'<th scope="col">{name}</th>' for name in ("Key", "Value", "Origin"))
            parts.append(
                f'<table class="values"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
            )
            rows = []
        if line.strip():
            parts.append(f"<p>{_inline(line)}</p>")
    return "".join(parts)


def _row(key: str, value: str, origin: str) -> str:
    kind = "default" if re.match(r"default\b", origin) else ""
    name = "".join(f"{escape(part)}<wbr>" for part in re.split(r"(?<=[._])", key))
    return (
        f'<tr class="{kind}"><td><code>{name}</code></td><td><code>{escape(value)}</code></td>'
        f"<td>{_inline(origin)}</td></tr>"
    )


def _inline(text: str) -> str:
    """A message as HTML: what it has in backticks is code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces))


def _attribute(text: str) -> str:
    return escape(text, quote=True).replace("\n", "&#10;")
