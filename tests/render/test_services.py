"""The formats that code hosts and build servers read."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from dsconfig.check.check import check_document
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic, Effect
from dsconfig.core.releases import resolve_target
from dsconfig.document import read_text
from dsconfig.fix.apply_fixes import fix_document
from dsconfig.render import renderer
from dsconfig.render.terminal_style import TerminalStyle

from . import samples

TEXT = """{
  "train_batch_size": 8,
  "fp16": {"enabled": "true"}, // é
  "zero_optimization": {
    "stage": 2,
    "cpu_offload": true
  },
  "no_such_key_here": 1
}
"""


def report(text: str = TEXT, name: str = "configs/ds zero.json") -> Report:
    return check_document(read_text(text, name), resolve_target("0.19.8"))


def shown(form: str, *reports: Report | samples.Report) -> str:
    return "".join(renderer(form)(reports, resolve_target("0.19.8"), TerminalStyle()))


# -- GitHub and GitLab -------------------------------------------------------------------------------------


def test_github_annotations() -> None:
    first, *_ = shown("github", report()).splitlines()
    assert first.startswith(
        "::warning title=DSC113 coerced-value (altered),file=configs/ds zero.json,"
        "line=3,endLine=3,col=23,endColumn=29::`fp16.enabled` is a string"
    )
    assert first.endswith("%0Ahelp: use `true`")


def test_github_escapes_what_would_end_a_property() -> None:
    report = samples.found('{"a": 1}', '"a"')
    odd = report._replace(name="a:b,c%.json\nd")
    assert "file=a%3Ab%2Cc%25.json\\nd," in shown("github", odd)
    several = samples.found('{\n"a": {\n}}', '{\n"a": {\n}}')
    assert "col=" not in shown("github", several)


def test_gitlab_code_quality() -> None:
    issues = json.loads(shown("gitlab", report()))
    assert {key for issue in issues for key in issue} == {
        "description",
        "check_name",
        "fingerprint",
        "severity",
        "location",
    }
    assert issues[0]["location"] == {"path": "configs/ds zero.json", "lines": {"begin": 3, "end": 3}}
    assert {issue["severity"] for issue in issues} <= {"info", "minor", "major", "critical", "blocker"}
    assert json.loads(shown("gitlab")) == []


def test_fingerprints_stay_when_lines_move_and_are_never_shared() -> None:
    one = [issue["fingerprint"] for issue in json.loads(shown("gitlab", report()))]
    moved = [issue["fingerprint"] for issue in json.loads(shown("gitlab", report("\n\n" + TEXT)))]
    assert one == moved
    twice = [issue["fingerprint"] for issue in json.loads(shown("gitlab", report(), report()))]
    assert len(set(twice)) == len(twice) == 2 * len(one)


# -- JUnit -------------------------------------------------------------------------------------------------


def test_junit() -> None:
    clean = report('{"train_batch_size": 8}', "clean.json")
    root = ET.fromstring(shown("junit", report(), clean))
    first, second = root
    assert (first.get("name"), second.get("name")) == ("configs/ds zero.json", "clean.json")
    assert (second.get("tests"), second.get("failures")) == ("1", "0")
    assert len(first) == len(report()) == int(first.get("tests", 0))
    failures = root.findall(".//failure")
    assert len(failures) == int(root.get("failures", 0)) == sum(d.severity != "info" for d in report())
    assert "configs/ds zero.json:3:23: " in (failures[0].text or "")


def test_junit_has_no_character_that_xml_forbids() -> None:
    odd = samples.found('{"a": 1}', '"a"')
    (diagnostic,) = odd.diagnostics
    nasty = Diagnostic(diagnostic.code, diagnostic.name, Effect.IGNORED, "a\x00\x1b\ud800<&\"'é")
    out = shown("junit", odd._replace(name="\x0b.json", diagnostics=(nasty,)))
    assert out.isascii()
    ET.fromstring(out)


# -- SARIF -------------------------------------------------------------------------------------------------

# Of each object of the standard (SARIF 2.1.0, section 3) that is written here: its properties, those that
# must be there with a bang.
SARIF: dict[str, str] = {
    "log": "$schema version! runs!",
    "run": "tool! invocations columnKind originalUriBaseIds properties results",
    "invocation": "executionSuccessful! toolExecutionNotifications",
    "notification": "message! level locations",
    "tool": "driver!",
    "driver": "name! version rules",
    "rule": "id! name helpUri shortDescription fullDescription help defaultConfiguration properties",
    "result": (
        "ruleId ruleIndex level message! locations relatedLocations partialFingerprints fixes properties"
    ),
    "location": "physicalLocation logicalLocations message",
    "physicalLocation": "artifactLocation region",
    "artifactLocation": "uri uriBaseId",
    "region": "startLine startColumn endLine endColumn",
    "fix": "description artifactChanges!",
    "artifactChange": "artifactLocation! replacements!",
    "replacement": "deletedRegion! insertedContent",
}


def fits(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    words = SARIF[kind].split()
    assert set(value) <= {word.rstrip("!") for word in words}, (kind, value)
    assert {word[:-1] for word in words if word.endswith("!")} <= set(value), (kind, value)
    return value


def fits_location(value: dict[str, Any]) -> None:
    physical = fits("physicalLocation", fits("location", value)["physicalLocation"])
    uri = fits("artifactLocation", physical["artifactLocation"])["uri"]
    assert re.fullmatch(r"[\w./%~+-]+|file:///[\w./%~+-]+", uri), uri
    if "region" in physical:
        region = fits("region", physical["region"])
        assert all(isinstance(number, int) and number >= 1 for number in region.values())
        assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])


def sarif(*reports: Report | samples.Report) -> dict[str, Any]:
    """The run of the log, its structure checked."""
    log: dict[str, Any] = fits("log", json.loads(shown("sarif", *reports)))
    (run,) = log["runs"]
    driver = fits("driver", fits("tool", fits("run", run)["tool"])["driver"])
    rules = [fits("rule", rule) for rule in driver["rules"]]
    assert len({rule["id"] for rule in rules}) == len(rules)
    (invocation,) = run["invocations"]
    for trouble in fits("invocation", invocation)["toolExecutionNotifications"]:
        for place in fits("notification", trouble)["locations"]:
            fits_location(place)
    for result in run["results"]:
        fits("result", result)
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        for location in (*result["locations"], *result.get("relatedLocations", ())):
            fits_location(location)
        for fix in result.get("fixes", ()):
            for change in fits("fix", fix)["artifactChanges"]:
                for each in fits("artifactChange", change)["replacements"]:
                    fits("region", fits("replacement", each)["deletedRegion"])
    checked: dict[str, Any] = run
    return checked


def test_sarif_holds_rules_places_and_fixes() -> None:
    run = sarif(report())
    (rule, *_) = run["tool"]["driver"]["rules"]
    assert (rule["id"], rule["name"]) == ("DSC113", "CoercedValue")
    assert rule["shortDescription"]["text"].endswith(".")
    assert "Bad" not in rule["fullDescription"]["text"]
    (result, *_) = run["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"] == {
        "uri": "configs/ds%20zero.json",
        "uriBaseId": "SRCROOT",
    }
    assert location["logicalLocations"] == [{"fullyQualifiedName": "fp16.enabled", "kind": "member"}]
    prints = [result["partialFingerprints"]["dsconfig/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)


def test_sarif_fixes_are_those_that_fix_makes() -> None:
    run = sarif(report(TEXT))
    whole = fix_document(
        read_text(TEXT), lambda document: check_document(document, resolve_target("0.19.8")), unsafe=True
    )
    text = TEXT
    replacements = [
        each
        for result in run["results"]
        for fix in result.get("fixes", ())
        for each in fix["artifactChanges"][0]["replacements"]
    ]
    starts = [0, *(match.end() for match in re.finditer("\n", TEXT))]

    def offset(region: dict[str, int], end: str) -> int:
        return starts[region[f"{end}Line"] - 1] + region[f"{end}Column"] - 1

    for each in sorted(replacements, key=lambda r: -offset(r["deletedRegion"], "start")):
        first, last = offset(each["deletedRegion"], "start"), offset(each["deletedRegion"], "end")
        text = text[:first] + each["insertedContent"]["text"] + text[last:]
    assert text == whole.text


def test_sarif_of_hostile_findings() -> None:
    odd = samples.found('{"a": 1}', '"a"')
    sarif(odd, odd._replace(name="a\udcffж#?.json"), odd._replace(name="/elsewhere/a.json", document=None))
    assert sarif()["results"] == []


@pytest.mark.parametrize("form", ["sarif", "github", "gitlab", "junit"])
def test_files_are_named_from_the_working_directory(form: str, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    inside = shown(form, report(name=os.fspath(tmp_path / "sub" / "a.json")))
    assert os.fspath(tmp_path) not in inside
    assert "sub/a.json" in inside


# -- Markdown ----------------------------------------------------------------------------------------------


def test_markdown_is_a_list_by_file() -> None:
    clean = report('{"train_batch_size": 8}', "clean.json")
    lines = shown("markdown", clean, report()).splitlines()
    assert lines[:6] == [
        "<!-- dsconfig -->",
        "### DeepSpeed configs: 3 warnings, 1 info",
        "",
        "Checked 2 files against DeepSpeed 0.19.8 (--target).",
        "",
        "#### `configs/ds zero.json`",
    ]
    (item,) = (index for index, line in enumerate(lines) if "DSC106" in line)
    url = Diagnostic("DSC106", "", Effect.DEPRECATED, "").url
    assert lines[item] == (
        f"- **warning** in line 6, [DSC106 deprecated-key]({url}) (deprecated): "
        "`cpu_offload` has been deprecated since DeepSpeed 0.3.15"
    )
    assert lines[item + 1].startswith("  - help: ")
    assert any(line.startswith("  - fix: ") for line in lines)
    assert "no problems found" in shown("markdown", clean)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("plain `a | b` and `@me`", "plain `a | b` and `@me`"),
        ("<b> [a](b) *c* | d", r"\<b\> \[a\](b) \*c\* \| d"),
        ("a ` <img> @me", r"a \` \<img\> @<!-- -->me"),
        ("see #12, https://x.y, www.x.y", "see #<!-- -->12, https:<!-- -->//x.y, www<!-- -->.x.y"),
        ("one\n# two", "one # two"),
    ],
)
def test_markdown_keeps_code_and_escapes_everything_else(text: str, markdown: str) -> None:
    found = samples.found("{}", "{}")
    found = found._replace(diagnostics=(found.diagnostics[0]._replace(message=text),))
    assert f": {markdown}\n" in shown("markdown", found)
    odd = found._replace(name="a`b``c.json")
    assert "#### ``` a`b``c.json ```\n" in shown("markdown", odd)


def test_a_long_report_in_markdown_fits_into_a_comment() -> None:
    one = report()
    many = one.copy_with(diagnostics=one.diagnostics * 200)
    out = shown("markdown", many)
    assert len(out) < 65_536
    listed = out.count("\n- **")
    assert f"\n{800 - listed} more problems left out: run `dsconfig check` to see all of them.\n" in out
    assert "| 200 | [DSC106](" in out
