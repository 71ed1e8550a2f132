"""Whatever is completed, wherever: the text can be read afterwards, and nothing around it has changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import hjson
import pytest
import yaml

from dsconfig.core.releases import LATEST, NUMBERS
from dsconfig.lsp.language_server import LanguageServer
from dsconfig.model.key_table import ROOT, child_section, section_view_of_release, types_of_section
from tests.lsp.client import SNIPPETS, edited, position

RELEASE = NUMBERS[LATEST]
BESIDE = {"_above": 1, "_below": 2}
"""Entries that stand around what is typed."""
BRACES = {
    "alone": "{|}",
    "a line": "{\n  |\n}",
    "after": '{"_above": 1, |}',
    "without the comma": '{\n  "_above": 1\n  |\n}',
    "before": '{\n  |\n  "_below": 2\n}',
    "close before": '{|"_below": 2}',
    "half": "{\n  e|\n}",
    "half, in a quote": '{\n  "e|\n}',
    "half, in a quote, before": '{\n  "e|\n  "_below": 2\n}',
    "in quotes": '{"|"}',
    "half, in quotes, after": '{"_above": 1, "e|"}',
    "with a value": '{"e|": 1}',
    "between": '{"_above": 1, | "_below": 2}',
    "between, without commas": '{"_above": 1 | , "_below": 2}',
}
NO_YAML = {"without the comma", "between, without commas"}
"""Where PyYAML reads nothing."""
LINES = {
    "alone": "|\n",
    "at the end": "|",
    "after": "_above: 1\n|\n",
    "before": "|\n_below: 2\n",
    "between": "_above: 1\n|\n_below: 2\n",
    "half": "e|\n",
    "half, before": "e|\n_below: 2\n",
    "half, after": "_above: 1\ne|",
    "in quotes": '"e|"\n',
    "in single quotes": "'|'\n",
    "with a value": "e|: 1\n",
}
VALUES = {
    "json": (
        '{"K": |}', '{\n  "K": |\n "_below": 2\n}', '{"K": "|", "_below": 2}', '{"K": t|}', '{"K": "a|\n}',
    ),
    "flow": ("{K: |}", "{K: |, _below: 2}", '{K: "|"}', "{\n  K: t|,\n  _below: 2\n}"),
    "yaml": ("K: |\n", "K:|\n", "K: |\n_below: 2\n", 'K: "|"\n', "K: '|'\n", "K: t|", "K: |"),
    "hjson": ("K: |", "K: |\n_below: 2", "K: t|", 'K: "|"', '"K": |\n_below: 2'),
}  # fmt: skip
READ = {
    "json": json.loads,
    "hjson": hjson.loads,
    "yaml": lambda text: yaml.load(text, yaml.CSafeLoader),
    "flow": lambda text: yaml.load(text, yaml.CSafeLoader),
}


class Section(NamedTuple):
    """A section of the config, and what has to stand in it, or around it."""

    path: tuple[str, ...]
    beside: Mapping[str, Any]
    name: str


def sections() -> Iterator[Section]:
    """Every section, and the params of every optimizer and scheduler."""
    todo = [Section((), {}, ROOT)]
    while todo:
        yield (here := todo.pop())
        for word, key in section_view_of_release(here.name, RELEASE).keys.items():
            inner = child_section(key.type)
            if inner is not None and len(here.path) < 5:
                todo.append(Section((*here.path, word), {}, inner))
    for word in ("optimizer", "scheduler"):
        for name, kind in types_of_section(word.capitalize()).items():
            if kind.params and RELEASE in kind.releases:
                yield Section((word, "params"), {"type": name}, kind.params)


def written(form: str, section: Section, inside: str) -> str:
    """A config with a section in it."""
    if form in ("json", "flow"):
        text = inside
        for depth in reversed(range(len(section.path))):
            last = depth == len(section.path) - 1
            beside = "".join(
                f"{json.dumps(word)}: {json.dumps(each)}, " for word, each in section.beside.items()
            )
            text = f"{{{beside if last else ''}{json.dumps(section.path[depth])}: {text}}}"
        return text
    opening, closing = (" {", "}") if form == "hjson" else ("", "")
    lines = [opening.strip()] if opening else []
    step = len(lines)
    for depth, word in enumerate(section.path):
        if depth == len(section.path) - 1:
            lines += [
                "  " * (depth + step) + f"{key}: {json.dumps(each)}" for key, each in section.beside.items()
            ]
        lines.append("  " * (depth + step) + f"{word}:{opening}")
    depth = len(section.path) + step
    lines += ["  " * depth + line if line else "" for line in inside.split("\n")]
    lines += ["  " * each + closing for each in reversed(range(depth)) if closing]
    return "\n".join(lines)


class Typist:
    """An editor in this process."""

    def __init__(self, snippets: bool) -> None:
        self.service = LanguageServer()
        self.service.handle_request("initialize", {"capabilities": SNIPPETS if snippets else {}})

    def offered(self, name: str, text: str) -> tuple[str, list[dict[str, Any]]]:
        """The text without the bar, and what is offered at it."""
        at = text.index("|")
        text = text[:at] + text[at + 1 :]
        uri = f"file:///nowhere/{name}"
        item = {"uri": uri, "languageId": name.rpartition(".")[2], "version": 1, "text": text}
        self.service.notify("textDocument/didOpen", {"textDocument": item})
        params = {"textDocument": {"uri": uri}, "position": position(text, at)}
        items = self.service.handle_request("textDocument/completion", params)["items"]
        self.service.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        list(self.service.pending_messages())
        return text, items


@pytest.fixture(scope="module", params=[True, False], ids=["snippets", "plain"])
def typist(request: pytest.FixtureRequest) -> Typist:
    return Typist(request.param)


def accepted(text: str, item: dict[str, Any]) -> str:
    """The text after a choice, with null typed wherever a value is to be typed."""
    edit = dict(item["textEdit"])
    if item.get("insertTextFormat") == 2:
        line = text.split("\n")[edit["range"]["start"]["line"]]
        indent = line[: len(line) - len(line.lstrip())]
        edit["newText"] = filled(edit["newText"]).replace("\n", f"\n{indent}")
    return edited(text, [edit, *item.get("additionalTextEdits", [])])


def filled(snippet: str) -> str:
    text = re.sub(r"\$\{\d+:((?:[^\\}]|\\.)*)\}", r"\1", snippet)
    text = re.sub(r"""([{\["'])\$1(?=[]}"'])""", r"\1", text)
    text = re.sub(r"(?<!\\)\$\d", "null", text)
    text = re.sub(r"(?<!\\)\$([A-Za-z_]\w*)", r"\1", text)  # an unknown variable leaves its name
    return re.sub(r"\\([\\$}])", r"\1", text)


def inside(data: Any, path: Sequence[str]) -> Any:
    for word in path:
        data = data[word]
    return data


def unharmed(data: Mapping[str, Any], text: str) -> bool:
    """Whether what stood around is as it was."""
    return all(data.get(word) == each for word, each in BESIDE.items() if word in text)


@pytest.mark.parametrize("form", READ)
def test_any_key_completed_anywhere(typist: Typist, form: str) -> None:
    forms = BRACES if form in ("json", "flow") else LINES
    places = [name for name in forms if form != "flow" or name not in NO_YAML]
    for number, section in enumerate(sections()):
        for turn in range(4):
            place = places[(number + turn * 3) % len(places)]
            source = written(form, section, forms[place])
            text, items = typist.offered(f"ds_config.{'yaml' if form == 'flow' else form}", source)
            assert items, source
            for item in items:
                new = accepted(text, item)
                description = f"{item['label']}, {place}: {text!r} -> {new!r}"
                data = inside(READ[form](new), section.path)
                assert item["label"] in data, description
                assert unharmed(data, source), description
                assert "value" not in place or data[item["label"]] == 1, description


@pytest.mark.parametrize("form", READ)
def test_any_value_completed_anywhere(typist: Typist, form: str) -> None:
    number = 0
    for section in sections():
        for word in section_view_of_release(section.name, RELEASE).keys:
            number += 1
            if section.beside and word == "type":
                continue
            source = written(form, section, VALUES[form][number % len(VALUES[form])].replace("K", word))
            text, items = typist.offered(f"ds_config.{'yaml' if form == 'flow' else form}", source)
            for item in items:
                new = accepted(text, item)
                data = inside(READ[form](new), section.path)
                assert word in data, new
                assert unharmed(data, source), new


@pytest.mark.parametrize("source", ["|", '"|', "ze|", "// mine\n|\n"])
def test_any_key_begins_a_new_file(typist: Typist, source: str) -> None:
    text, items = typist.offered("ds_config.json", source)
    assert len(items) > 30
    for item in items:
        new = accepted(text, item)
        assert json.loads(new.replace("// mine", "")).keys() == {item["label"]}, new


@pytest.mark.parametrize("source", ["|{}", '{"bf16": {}}\n|\n', '{"x": "}"} |'])
def test_nothing_is_offered_beside_the_braces(typist: Typist, source: str) -> None:
    assert typist.offered("ds_config.json", source)[1] == []


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_our_block_and_launch_files(typist: Typist, form: str) -> None:
    block = Section(("$dsconfig",), {}, "")
    launch = '{"distributed_type": "DEEPSPEED", "deepspeed_config": {|}}'
    for name, source, path in (
        (f"ds_config.{form}", written(form, block, "{|}" if form == "json" else "|"), block.path),
        (f"accelerate_config.{form}", "{|}" if form == "json" else "|", ()),
        (f"launch.{form}", launch, ("deepspeed_config",)),
    ):
        text, items = typist.offered(name, source)
        assert len(items) >= 5, source
        for item in items:
            assert item["label"] in inside(READ[form](accepted(text, item)), path)
