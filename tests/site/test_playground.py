"""The playground is part of the site where npm built it; where it did not, a page says so."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from pages import playground

import dsconfig
from dsconfig.rules import RULES
from tests.site.conftest import ROOT

SOURCES = ROOT / "editors" / "playground"


def test_a_build_without_it_says_so(tmp_path: Path) -> None:
    (page,) = playground.files(tmp_path / "none").values()
    assert b"has no playground" in page
    assert b"<script" not in page


def test_every_file_of_it_is_served(tmp_path: Path) -> None:
    made = {"page.js": b"code", "pyodide.asm.wasm": b"\0asm\xff"}
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "index.html").write_bytes((SOURCES / "index.html").read_bytes())
    files = playground.files(tmp_path)
    page = files.pop("playground/index.md").decode()
    assert files == {f"playground/{name}": content for name, content in made.items()}
    block = page.partition('<div class="playground"')[2].partition("\n</div>\n\n")[0]
    assert '\n<p class="note">Everything runs in your browser' in block, (
        "an empty line would end the block of HTML"
    )
    assert "title>" not in page, "without the head of the page alone"


def test_the_page_is_built_with_the_result_of_its_first_example() -> None:
    page = playground.page((SOURCES / "index.html").read_text("utf-8"))
    first = json.loads((SOURCES / "examples.json").read_text("utf-8"))[0]
    report = dsconfig.check("\n".join(first["text"]) + "\n")
    assert len(report) >= 2
    for each in report:
        assert f'href="../rules/{each.code}/"' in page
        assert each.fix is None or f">{each.fix.title.replace('`', '')}</button>" in unescape(page)
    assert "starting dsconfig" not in page
    rows = re.findall(r"<tr class=\"\w*\"><td><code>(.*?)</code></td><td><code>(.*?)</code>", page)
    values = {re.sub("<wbr>", "", key): value for key, value in rows}
    assert values["train_batch_size"] == "64"
    assert values["zero_optimization.stage"] == "3"


def test_the_site_leads_to_it(built: Path) -> None:
    assert (built / "playground" / "index.html").is_file()
    home = (built / "index.html").read_text("utf-8")
    assert len(re.findall(r'href="playground/"', home)) >= 2, "the navigation and a door"
    rule = (built / "rules" / "DSC203" / "index.html").read_text("utf-8")
    assert 'href="../../playground/"' in rule


def test_its_links_lead_into_the_site(built: Path) -> None:
    """They are relative: the site may be served below any address."""
    (link,) = re.findall(r"href: `\$\{SITE\}([^`]*)`", (SOURCES / "page.ts").read_text("utf-8"))
    for code in RULES:
        to = built / link.replace("${found.code}", code)
        assert (to.resolve() / "index.html").is_file(), code


def test_pages_that_run_the_command_take_what_the_playground_has() -> None:
    script = (ROOT / "site" / "docs" / "assets" / "checker.js").read_text("utf-8")
    build = (SOURCES / "build.mjs").read_text("utf-8")
    parts = re.findall(r'at\("([\w.]+)"\)', script)
    assert set(parts) == {"worker.js", "pyodide.asm.wasm", "python.archive"}
    assert all(f'"{name}"' in build for name in parts)
    assert '"memory"' in (ROOT / "editors" / "worker" / "pack.py").read_text("utf-8")


class _Page(HTMLParser):
    """What a policy looks at: the tags in their order, their attributes, and text in scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.inline += data.strip()


def _page() -> tuple[_Page, dict[str, list[str]]]:
    page = _Page()
    page.feed((SOURCES / "index.html").read_text("utf-8"))
    (content,) = [
        attrs["content"] or ""
        for tag, attrs in page.tags
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    parts = [part.split() for part in content.split(";")]
    return page, {name: sources for name, *sources in parts}


def test_its_policy_lets_nothing_in_from_elsewhere() -> None:
    page, policy = _page()
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == ["'self'", "'wasm-unsafe-eval'"], "Pyodide compiles WebAssembly"
    assert policy["base-uri"] == policy["form-action"] == ["'none'"]
    allowed = {source for sources in policy.values() for source in sources}
    nonce = re.search(r'cspNonce\.of\("(\w+)"\)', (SOURCES / "page.ts").read_text("utf-8"))
    assert nonce is not None
    assert allowed == {"'none'", "'self'", "'wasm-unsafe-eval'", f"'nonce-{nonce[1]}'", "data:"}
    assert [name for name, sources in policy.items() if "data:" in sources] == ["img-src"]
    order = [tag if "http-equiv" not in attrs else "policy" for tag, attrs in page.tags]
    assert order.index("policy") < min(map(order.index, ("link", "script"))), "it holds from there on"


def test_nothing_in_the_page_violates_its_policy() -> None:
    page, _ = _page()
    assert page.inline == "", "no inline script or style"
    for tag, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on") or name in ("style", "nonce")], tag
        for name in ("src", "href") if tag in ("script", "link", "img") else ():
            assert not re.match(r"[a-z]+:(?!,)|//", attrs.get(name) or ""), (tag, attrs)
    for script in (*SOURCES.glob("*.ts"), SOURCES / "offline.js"):
        text = script.read_text("utf-8")
        banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\"style\"|https?://"
        assert not re.search(banned, text), script.name
