"""The playground is part of the site where npm built it; where it did not, a page says so."""

from __future__ import annotations

import re
from pathlib import Path

from pages import playground

from dsconfig.rules import RULES
from tests.site.conftest import ROOT

SOURCES = ROOT / "editors" / "playground"


def test_a_build_without_it_says_so(tmp_path: Path) -> None:
    (page,) = playground.files(tmp_path / "none").values()
    assert b"has no playground" in page
    assert b"<script" not in page


def test_every_file_of_it_is_served(tmp_path: Path) -> None:
    made = {"index.html": b"page", "page.js": b"code", "pyodide.asm.wasm": b"\0asm\xff"}
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
    assert playground.files(tmp_path) == {f"playground/{name}": content for name, content in made.items()}


def test_the_site_leads_to_it(built: Path) -> None:
    assert (built / "playground" / "index.html").is_file()
    home = (built / "index.html").read_text("utf-8")
    assert len(re.findall(r'href="playground/"', home)) >= 2, "the navigation and a door"
    rule = (built / "rules" / "DSC203" / "index.html").read_text("utf-8")
    assert 'href="../../playground/"' in rule


def test_its_links_lead_into_the_site(built: Path) -> None:
    """They are relative: the site may be served below any address."""
    (link,) = re.findall(r"href: `([^`]*)`", (SOURCES / "page.ts").read_text("utf-8"))
    for code in RULES:
        to = built / "playground" / link.replace("${found.code}", code)
        assert (to.resolve() / "index.html").is_file(), code
    for link in re.findall(
        r'<a href="([^"]*)"', (SOURCES / "index.html").read_text("utf-8") + playground.NONE
    ):
        assert ((built / "playground" / link).resolve() / "index.html").is_file(), link


def test_the_memory_planner_takes_what_the_playground_has() -> None:
    script = (ROOT / "site" / "docs" / "assets" / "memory.js").read_text("utf-8")
    build = (SOURCES / "build.mjs").read_text("utf-8")
    parts = re.findall(r'at\("([\w.]+)"\)', script)
    assert set(parts) == {"worker.js", "pyodide.asm.wasm", "python.archive"}
    assert all(f'"{name}"' in build for name in parts)
    assert '"memory"' in (ROOT / "editors" / "worker" / "pack.py").read_text("utf-8")
