"""Documents for contributors and users: links, paths, commands and lengths."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import terminal_picture
from tests.heavy import HEAVY
from tests.readme import DOCS, ROOT

DOCUMENTS = (*sorted(ROOT.glob("*.md")), *sorted((DOCS / "contributing").glob("*.md")))
LONGEST = {"README.md": 220, "CHANGELOG.md": 40, "ARCHITECTURE.md": 200, "CONTRIBUTING.md": 150}
"""Lines."""
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
TREE = re.compile(r"(?:dsconfig|elastic|schema|site|editors|tests|examples|demo|\.github)/[\w./-]*")
GENERATED = ("site/_build", "editors/dist", "tests/cases/data/DSC999")
MODULE = re.compile(r"python -m ((?:tests|schema)[\w.]*\w)")
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
GENERATED_PAGES = (
    "advisories/",
    "cli/",
    "consumers/",
    "keys/",
    "playground/",
    "readers/",
    "releases/",
    "rules/",
    "schema/",
    "settings/",
)
"""Folders of the site that `site/generate.py` writes."""


def anchors(text: str) -> set[str]:
    """Return the anchors of a document's headings, as GitHub and MkDocs build them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(path: Path) -> Iterator[str]:
    """Yield the relative links of a document."""
    for link in LINK.findall(FENCE.sub("", path.read_text("utf-8"))):
        if "://" not in link and not link.startswith("mailto:"):
            yield link


@pytest.mark.parametrize("name", LONGEST)
def test_a_document_is_short(name: str) -> None:
    assert len((ROOT / name).read_text("utf-8").splitlines()) <= LONGEST[name]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings(path: Path) -> None:
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if target.is_relative_to(DOCS) and target.relative_to(DOCS).as_posix().startswith(GENERATED_PAGES):
            continue
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text("utf-8")), link


@pytest.mark.parametrize("path", sorted({*DOCUMENTS} - {ROOT / "README.md"}), ids=lambda path: path.name)
def test_named_paths_exist(path: Path) -> None:
    for code in CODE.findall(FENCE.sub("", path.read_text("utf-8"))):
        if TREE.fullmatch(code) and not code.startswith(GENERATED):
            assert (ROOT / code).exists(), code


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_named_commands_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    targets = set(TARGET.findall((ROOT / "Makefile").read_text("utf-8")))
    for command in (*CODE.findall(text), *re.findall(r"^(make .*)$", text, re.MULTILINE)):
        if command.startswith("make "):
            words = re.sub(r'"[^"]*"|#.*', "", command).split()[1:]
            assert {word for word in words if "=" not in word} <= targets, command
    for module in MODULE.findall(text):
        assert importlib.util.find_spec(module) is not None, module


def test_heavy_tests_exist() -> None:
    assert [name for name in HEAVY if not (ROOT / name).exists()] == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_pictures_of_the_terminal_are_up_to_date() -> None:
    for path, text in terminal_picture.pictures().items():
        assert path.read_text("utf-8") == text, "run `make readme`"


def test_every_contributing_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "site" / "mkdocs.yml").read_text("utf-8")
    for path in (DOCS / "contributing").glob("*.md"):
        assert f"contributing/{path.name}\n" in navigation
