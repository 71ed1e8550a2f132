"""What is promised of every run: exit codes, output that parses, places inside the text."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any
from xml.etree import ElementTree as ET

from dsconfig.check.check import check_document
from dsconfig.core.diagnostic import Effect
from dsconfig.core.releases import resolve_target as releases
from dsconfig.document import Document, read_bytes, read_dict
from tests.fuzz.choices import Input
from tests.fuzz.targets import BrokenError, Result, run

CODES = {0, 1, 2}
PAINT = re.compile(r"\x1b\[[0-9;]*m")
LINE_END = re.compile(r"\r\n|\r|\n")


def require(true: object, promise: str) -> None:
    if not true:
        raise BrokenError(promise)


def hold(given: Input, result: Result) -> None:
    """Hold the result of a run against everything that is promised of its verb."""
    require(result.code in CODES, f"exit code {result.code}")
    require("Traceback" not in result.err and "internal error" not in result.err, _internal(result.err))
    errors = [line for line in result.err.splitlines() if line.startswith("dsconfig: error: ")]
    if result.code == 2:
        require(len(errors) == 1, f"exit code 2 and {len(errors)} lines of error")
    require(_clean(result.err, given), "a control character on stderr")
    if result.code == 2:
        return
    _files(given, result)
    verb = {"check": _check, "fix": _fix, "migrate": _migrate}.get(given.argv[0])
    (verb or {"resolve": _resolve, "show": _show, "compat": _compat}[given.argv[0]])(given, result)


def _internal(err: str) -> str:
    """The last line of each traceback, and where it was."""
    frames = re.findall(r'File "[^"]*/((?:dsconfig|elastic)/[^"]+)", line \d+, in (\w+)', err)
    errors = [line for line in err.splitlines() if re.match(r"\w+(\.\w+)*(Error|Exception)\b", line)]
    where = f"{frames[-1][0]}:{frames[-1][1]}" if frames else "?"
    return f"{errors[-1].partition(':')[0] if errors else 'an error'} in {where}"


def _clean(text: str, given: Input) -> bool:
    """Whether a terminal shows the text as it stands: nothing in it moves a cursor or turns a line."""
    if "always" in given.argv:
        text = PAINT.sub("", text)
    if text.replace("\n", "").isprintable():
        return True
    return all(
        c == "\n" or c.isprintable() or unicodedata.category(c) not in ("Cc", "Cf", "Cs") for c in text
    )


def _files(given: Input, result: Result) -> None:
    """Only what a verb was asked to write is written, and no draft is left."""
    names = {name for name, _ in given.files}
    written = {"out.json", "out.elasticity.json"} if "-o" in given.argv else set()
    require(
        set(result.files) <= names | written, f"files left: {sorted(set(result.files) - names - written)}"
    )
    fixes = (given.argv[0] == "fix" or "--fix" in given.argv) and "--diff" not in given.argv
    for name, content in given.files:
        require(result.files.get(name) == content or fixes, f"{name} was changed")


# -- check -------------------------------------------------------------------------------------------------


def _check(given: Input, result: Result) -> None:
    style = given.argv[given.argv.index("--output-format") + 1]
    texts = {name: _text(content) for name, content in given.files}
    texts["-"] = _text(given.content)
    if "--fix" in given.argv:
        _fixed(given, result)
        texts[given.name] = _text(result.files[given.name])
    _STYLES[style](result, texts, given)


def _text(content: bytes) -> list[str]:
    return LINE_END.split(content.decode(errors="replace"))


def _json(result: Result, texts: dict[str, list[str]], given: Input) -> None:
    found = [(file["path"], each) for file in _parsed(result.out)["files"] for each in file["diagnostics"]]
    worst = any(each["severity"] != "info" for _, each in found)
    require(result.code == (1 if worst else 0), f"exit code {result.code} and findings do not agree")
    for path, each in found:
        places = [each, *each["related"]]
        for place in places:
            _inside(texts[path], place["line"], place["column"], place["end_line"], place["end_column"])


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BrokenError("output is not JSON") from error


def _inside(lines: list[str], line: int | None, column: int, end_line: int, end_column: int) -> None:
    if line is None:
        return
    require(1 <= line <= end_line <= len(lines), "a line outside the text")
    require(line < end_line or column <= end_column, "an end before its start")
    for at, place in ((line, column), (end_line, end_column)):
        require(1 <= place <= len(lines[at - 1]) + 1, "a column outside the text")


def _sarif(result: Result, texts: dict[str, list[str]], given: Input) -> None:
    (log,) = _parsed(result.out)["runs"]
    rules = [rule["id"] for rule in log["tool"]["driver"]["rules"]]
    for each in log["results"]:
        require(rules[each["ruleIndex"]] == each["ruleId"], "a rule's index is another's")
        physical = [
            place["physicalLocation"] for place in each["locations"] + each.get("relatedLocations", [])
        ]
        regions = [(place["artifactLocation"], place["region"]) for place in physical if "region" in place]
        for fix in each.get("fixes", ()):
            for change in fix["artifactChanges"]:
                parts = change["replacements"]
                regions += [(change["artifactLocation"], part["deletedRegion"]) for part in parts]
        for artifact, region in regions:
            places = [region[name] for name in ("startLine", "startColumn", "endLine", "endColumn")]
            _inside(texts[artifact["uri"]], *places)


def _gitlab(result: Result, texts: dict[str, list[str]], given: Input) -> None:
    rows = _parsed(result.out)
    require(len({row["fingerprint"] for row in rows}) == len(rows), "two findings with one fingerprint")
    for row in rows:
        lines = texts[row["location"]["path"]]
        require(1 <= row["location"]["lines"]["begin"] <= len(lines), "a line outside the text")


def _junit(result: Result, texts: dict[str, list[str]], given: Input) -> None:
    try:
        ET.fromstring(result.out)
    except ET.ParseError as error:
        raise BrokenError("output is not XML") from error


def _github(result: Result, texts: dict[str, list[str]], given: Input) -> None:
    lines = result.out.splitlines(keepends=True)
    require(all(re.match(r"::(error|warning|notice) title=", line) for line in lines), "no workflow command")
    require(_clean(result.out, given), "a control character on stdout")


def _markdown(result: Result, texts: dict[str, list[str]], given: Input) -> None:
    require(result.out.startswith("<!-- dsconfig -->\n### DeepSpeed configs: "), "no Markdown report")
    require(_clean(result.out, given), "a control character on stdout")


def _concise(result: Result, texts: dict[str, list[str]], given: Input) -> None:
    require(_clean(result.out, given), "a control character on stdout")
    plain = PAINT.sub("", result.out)
    lines = plain.split("\n\n")[0].splitlines() if "--statistics" in given.argv else plain.splitlines()
    known = r"(\S+?:(\d+:\d+)?: (DSC\d{3} |.* \(DSC\d{3} )|start here: |\s*\d+ |Checked \d+ file|note: |- )"
    require(all(re.match(known, line) for line in lines), "a line that is no finding")


def _full(result: Result, texts: dict[str, list[str]], given: Input) -> None:
    require(_clean(result.out, given), "a control character on stdout")


_STYLES = {
    "json": _json,
    "sarif": _sarif,
    "gitlab": _gitlab,
    "junit": _junit,
    "github": _github,
    "markdown": _markdown,
    "concise": _concise,
    "full": _full,
}


# -- fix and migrate ---------------------------------------------------------------------------------------


def _fix(given: Input, result: Result) -> None:
    told = result.err if "--diff" in given.argv else result.out
    did = re.search(r"^(Fixed|Would fix) \d+ problem", told, re.MULTILINE) is not None
    if "--diff" in given.argv:
        require(did == bool(result.out), "a diff and what is told do not agree")
    else:
        require(did == (result.files[given.name] != given.content), "a change and what is told do not agree")
        _fixed(given, result)


def _fixed(given: Input, result: Result) -> None:
    """The new text reads at least as well, and a second run leaves it as it is."""
    new = result.files[given.name]
    if new == given.content:
        return
    before, after = _document(given, given.content), _document(given, new)
    require(after.is_readable() or not before.is_readable(), "fixed into a text that cannot be read")
    if "run again" not in result.out + result.err:
        require(run(given.argv).files[given.name] == new, "a second run fixes more")


def _document(given: Input, content: bytes) -> Document:
    return read_bytes(content, given.name, "yaml" if given.name.endswith("yaml") else "json")


def _migrate(given: Input, result: Result) -> None:
    new = result.files.get("out.json")
    if new is None:
        return
    before, after = _document(given, given.content), _document(given, new)
    require(after.is_readable() or not before.is_readable(), "migrated into a text that cannot be read")
    if result.code == 0:
        require(not _refused(after, given), "nothing left to decide, and the release refuses it")


def _refused(document: Document, given: Input, consumer: str | None = None) -> list[str]:
    """Codes of what the target refuses."""
    report = check_document(
        document,
        releases(given.target),
        world_size=given.world_size,
        consumer=given.consumer if consumer is None else consumer,
    )
    return [found.code for found in report if found.effect is Effect.REJECTED]


# -- resolve, show, compat ---------------------------------------------------------------------------------


def _resolve(given: Input, result: Result) -> None:
    if not result.out:
        require(result.code == 1 and result.err, "nothing resolved, and nothing said")
        return
    config = _parsed(result.out)
    require(isinstance(config, dict), "resolved into something else than an object")
    if given.name != "args.yaml" and not {"--tp", "--sp"} & set(given.argv) and result.code == 0:
        if share := re.search(r"(\d+) data-parallel of", result.err):  # other ranks share models
            given = given._replace(world_size=int(share[1]))
        codes = _refused(read_dict(config), given, "deepspeed")
        require(not codes, f"resolved into what the release refuses: {codes[:1]}")


def _show(given: Input, result: Result) -> None:
    if "json" not in given.argv:
        require(_clean(result.out, given), "a control character on stdout")
    elif result.code == 0:
        values = _parsed(result.out)["values"]
        require(
            all({"key", "value", "origin"} <= set(value) for value in values), "a value without its origin"
        )


def _compat(given: Input, result: Result) -> None:
    if "json" not in given.argv:
        require(_clean(result.out, given), "a control character on stdout")
        return
    rows = _parsed(result.out)["stretches"]
    listed = [release for row in rows for release in row["releases"]]
    require(tuple(listed) == releases(given.target).releases, "not every release is listed once")
    taken = rows[-1]["verdict"] == "ok"
    require(result.code == (0 if taken else 1), "the exit code and the table do not agree")
    release = listed[len(given.content) % len(listed)]
    verdict = next(row["verdict"] for row in rows if release in row["releases"])
    codes = _refused(_document(given, given.content), given._replace(target=release))
    require(bool(codes) == (verdict == "rejected"), f"`check` and `compat` do not agree: {codes[:1]}")
