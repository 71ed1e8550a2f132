"""Every rule, key, release and command has its place on the site, at the address that findings give."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import generate
import home_page
import pytest
import yaml
from pages import deepspeed_messages, key_entries, key_example, key_history, rules

import dsconfig
from dsconfig.cli import COMMANDS
from dsconfig.core.diagnostic import SITE, rule_url
from dsconfig.core.releases import RELEASES
from dsconfig.rules import RULES
from tests.readme import ADDRESS
from tests.site.conftest import ROOT, build

SETTINGS = (ROOT / "site" / "mkdocs.yml").read_text("utf-8")


class Page(HTMLParser):
    """What of a page the tests look at: its anchors, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.described = False
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in ("script", "img", "iframe") or (tag == "link" and given.get("rel") == "stylesheet"):
            self.loads.add(given.get("src", "") or given.get("href", ""))
        self.described |= given.get("name") == "description" and bool(given.get("content"))


def test_the_address_of_the_site_stands_in_one_place() -> None:
    assert f"\nsite_url: {SITE}\n" in SETTINGS, "dsconfig/core/diagnostic.py says where the site is"
    assert f"link: {ADDRESS}\n" in SETTINGS, "pyproject.toml says where the repository is"


def test_every_finding_leads_to_a_page(built: Path) -> None:
    for code, rule in RULES.items():
        path = built / rule_url(code).removeprefix(SITE) / "index.html"
        assert path.is_file(), code
        text = unescape(re.sub(r"<[^>]+>", "", path.read_text("utf-8")))
        assert f"{code} {rule.name}" in text
        for _, words in deepspeed_messages.messages(rule):
            assert words.splitlines()[0][:40] in text, code


def test_the_index_of_rules_has_each_subject_once_and_each_rule_in_order() -> None:
    text = rules.pages()["rules/index.md"]
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert headings == list(rules.SUBJECTS.values())
    assert headings[-1] == "Everything else"
    assert re.findall(r"\[(DSC\d+)\]", text) == sorted(RULES)


def test_every_key_has_an_entry(built: Path) -> None:
    pages = {
        name: Page(built / "keys" / name / "index.html")
        for name in set(map(key_entries.page_name, key_entries.entries()))
    }
    missing = [
        path for path in key_entries.entries() if path not in pages[key_entries.page_name(path)].anchors
    ]
    assert not missing


def test_nearly_every_key_has_an_example() -> None:
    idle = {"unread", "internal", "not_json"}
    keys = [path for path, infos in key_entries.entries().items() if not infos[0].flags & idle]
    without = [path for path in keys if key_example.example(path) is None]
    assert len(without) < len(keys) / 20, without


def test_every_release_and_command_has_its_heading(built: Path) -> None:
    for release in RELEASES:
        series = release.rpartition(".")[0]
        assert release.replace(".", "") in Page(built / "releases" / series / "index.html").anchors
    assert {f"dsconfig-{verb}" for verb in COMMANDS} <= Page(built / "cli" / "index.html").anchors


def test_pages_describe_themselves_and_load_nothing_from_elsewhere(built: Path) -> None:
    paths = [path for path in built.rglob("*.html") if path.name != "404.html"]
    assert len(paths) > len(RULES)
    for path in paths:
        page = Page(path)
        assert page.described, path
        assert not [each for each in page.loads if "//" in each], path


def test_every_page_has_a_card_for_link_previews(built: Path) -> None:
    card = (built / "assets" / "card.png").read_bytes()
    assert struct.unpack(">8s4x4sII", card[:24]) == (b"\x89PNG\r\n\x1a\n", b"IHDR", 1200, 630)
    assert len(card) < 200_000
    for path in built.rglob("*.html"):
        if path.name != "404.html":
            text = path.read_text("utf-8")
            facts = dict(
                re.findall(r'<meta (?:property|name)="((?:og|twitter):[\w:]+)" content="([^"]*)">', text)
            )
            assert facts["og:image"] == facts["twitter:image"] == f"{SITE}assets/card.png", path
            folder = path.parent.relative_to(built).as_posix()
            assert facts["og:url"] == f"{SITE}{'' if folder == '.' else f'{folder}/'}"
            assert facts["og:title"], path
            assert facts["og:description"], path


def test_every_page_has_a_policy_that_names_its_scripts(built: Path) -> None:
    paths = [path for path in built.rglob("*.html") if path.parts[-2:] != ("playground", "index.html")]
    for path in paths:
        text = path.read_text("utf-8")
        (content,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
        policy = {name: sources for name, *sources in (part.split() for part in content.split(";"))}
        assert policy["default-src"] == policy["base-uri"] == ["'none'"]
        assert not {"'unsafe-inline'", "'unsafe-eval'", "data:", "blob:", "*"} & set(policy["script-src"]), (
            path
        )
        allowed = {source for sources in policy.values() for source in sources}
        assert not [source for source in allowed if not source.startswith("'") and source != "data:"], path
        assert text.index("Content-Security-Policy") < text.index("<script"), "it holds from there on"
        for attributes, script in re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL):
            if "src=" not in attributes and "application/json" not in attributes:
                digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
                assert f"'sha256-{digest}'" in policy["script-src"], path
        assert not re.search(r"<[a-z][^<>]*\son[a-z]+\s*=", text), path


def test_no_link_within_the_site_is_dead(built: Path) -> None:
    pages = {path.resolve(): Page(path) for path in built.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for link in page.links:
            to, _, anchor = link.partition("#")
            if "//" not in to and not to.startswith(("mailto:", "javascript:")):
                end = (path.parent / unquote(to)).resolve() if to else path
                end = end / "index.html" if end.is_dir() else end
                assert end.is_file(), f"{path}: {link}"
                assert not anchor or end not in pages or unquote(anchor) in pages[end].anchors, (
                    f"{path}: {link}"
                )


@pytest.mark.parametrize("link", ["no-such-page.md", "#no-such-heading"])
def test_a_dead_link_fails_the_build(link: str, tmp_path: Path) -> None:
    validation = SETTINGS.partition("\nvalidation:\n")[2].partition("\n\n")[0]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\nvalidation:\n{validation}\n", "utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# One\n\n[Two]({link})\n", "utf-8")
    done = build(tmp_path / "mkdocs.yml")
    assert done.returncode == 1, done.stderr
    assert link in done.stderr
    assert "mkdocs build --strict" in (ROOT / "Makefile").read_text("utf-8")


def test_a_page_that_nothing_makes_any_more_goes(docs: Path) -> None:
    stale = docs / "rules" / "DSC000.md"
    stale.write_text("gone\n", encoding="utf-8")
    kept = docs / "rules" / "DSC203.md"
    kept.write_text("old\n", encoding="utf-8")
    generate.write(docs)
    assert not stale.exists()
    assert "batch-size-not-divisible" in kept.read_text("utf-8")


def test_generated_folders_are_not_kept() -> None:
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert {f"site/docs/{name}/" for name in generate.FOLDERS} <= set(ignored)


@pytest.mark.parametrize(
    ("path", "old", "new", "said_of_it"),
    [
        ("elasticity", "0.14.5", "0.19.8", ["removed, rejected by name"]),
        ("gradient_clipping", "0.19.2", "0.19.3", ["default `1.0`, was `0.0`"]),
        ("zero_optimization.stage", "0.14.5", "0.19.8", []),
        ("zero_optimization.leaf_module", "0.17.6", "0.18.0", ["added"]),
    ],
)
def test_what_changes_between_two_releases(path: str, old: str, new: str, said_of_it: list[str]) -> None:
    assert list(key_history.changes(path, RELEASES.index(old), RELEASES.index(new))) == said_of_it


def test_the_navigation_names_pages_that_are_there(docs: Path) -> None:
    named = re.findall(r"[\w/.-]+\.md", SETTINGS.partition("\nnav:")[2])
    assert [name for name in named if not (docs / name).is_file()] == []
    assert yaml.safe_load(SETTINGS.partition("\nmarkdown_extensions")[0])["strict"] is True


def test_the_home_page_shows_what_dsconfig_says(built: Path) -> None:
    text = (built / "index.html").read_text("utf-8")
    report = dsconfig.check(home_page.EXAMPLE, target=home_page.TARGET, world_size=home_page.WORLD_SIZE)
    assert len(report) >= 3
    assert {each.severity for each in report} >= {"error", "warning"}
    for each in report:
        assert f'href="rules/{each.code}/"' in text
    assert f"<b>{len(RULES)}</b> rules" in text
    assert f"<b>{len(RELEASES)}</b> releases" in text
    assert "<!-- example" not in text


@pytest.mark.parametrize(("page", "other"), [("rules/DSC203", "../DSC204/"), ("keys/fp16", "../bf16/")])
def test_pages_of_rules_and_keys_have_a_sidebar(built: Path, page: str, other: str) -> None:
    sidebar = (built / page / "index.html").read_text("utf-8").partition("md-sidebar--primary")[2]
    assert f'href="{other}"' in sidebar.partition("md-sidebar--secondary")[0]


def test_sentences_of_reports_wrap_and_marks_keep_their_columns(built: Path) -> None:
    text = (built / "rules" / "DSC203" / "index.html").read_text("utf-8")
    report = text.partition("dsconfig check --target")[2].partition("</code>")[0]
    assert '<span class="sentence">error[DSC203] batch-size-not-divisible' in report
    assert re.search(
        r'<span class="columns">1 \| \{.*\n</span><span class="columns">  \| +\^+\n</span>', report
    )
    assert '<span class="sentence">  = help:' in report
    guide = (built / "guides" / "memory" / "index.html").read_text("utf-8")
    assert re.search(r'<span class="columns">.*no checkpointing', guide), "the table of stages"


def test_the_table_of_contents_of_a_section_leaves_its_name_out(built: Path) -> None:
    text = (built / "keys" / "zero_optimization" / "index.html").read_text("utf-8")
    contents = text.partition("md-sidebar--secondary")[2].partition("</nav>")[0]
    (label,) = re.findall(
        r'href="#zero_optimization\.offload_param\.device"[^>]*>(.*?)</a>', contents, re.DOTALL
    )
    assert re.sub(r"<[^>]+>", "", label).strip() == "offload_param.device"
