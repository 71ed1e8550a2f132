"""Writes a config as a file's text: as JSON, as the Hjson that DeepSpeed's reader understands, or broken."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

PLAIN_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
RESERVED = {"true", "false", "null"}


def plain(config: Any, rng: Random) -> str:
    """Strict JSON in one of its many layouts."""
    indent: int | str | None = rng.choice((None, 0, 2, 4, 4, "\t"))
    text = json.dumps(config, indent=indent, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.3:
        text = rewrite_numbers(text, rng)
    if rng.random() < 0.15:
        text = text.replace("\n", "\r\n")
    return text + rng.choice(("", "\n", "\n\n", " \t"))


def rewrite_numbers(text: str, rng: Random) -> str:
    """Some integers as `1e3` or `4.0`, which Hjson reads as integers and JSON as floats."""

    def other(match: re.Match[str]) -> str:
        digits = match[2]
        forms = [digits, f"{digits}.0", f"{digits}e0", f"{digits}E+0"]
        if digits.endswith("000"):
            forms += [f"{digits[:-3]}e3", f"{digits[:-3]}.0e3"]
        return match[1] + rng.choice(forms)

    return re.sub(r"(: )(\d+)(?=[,\n}\r])", other, text)


def hjson(config: Any, rng: Random) -> str:
    """The same config with what only Hjson takes: comments, bare words, single quotes, loose commas."""
    writer = _Writer(rng)
    text = writer.value(config, 0)
    if isinstance(config, dict) and config and rng.random() < 0.25:
        text = text.strip()[1:-1]  # root braces may be left out
    return (
        rng.choice(("", "\ufeff", "// DeepSpeed\n", "# run 7\n", "/* a\n b */ "))
        + text
        + rng.choice(("", "\n"))
    )


class _Writer:
    """Writes values; every choice of style is made anew at each place."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.commas = rng.choice(("all", "all", "trailing", "none"))

    def value(self, value: Any, depth: int) -> str:
        if isinstance(value, dict):
            items = [
                f"{self.key(name)}{self.colon()}{self.value(item, depth + 1)}" for name, item in value.items()
            ]
            return self.block("{", items, "}", depth)
        if isinstance(value, list):
            return self.block("[", [self.value(item, depth + 1) for item in value], "]", depth)
        if isinstance(value, str):
            return self.string(value)
        return json.dumps(value)

    def block(self, opening: str, items: list[str], closing: str, depth: int) -> str:
        pad = "  " * (depth + 1)
        lines = []
        for number, item in enumerate(items):
            last = number == len(items) - 1
            bare = item.endswith("\0")
            comma = (self.commas == "all" and not last) or self.commas == "trailing"
            note = "" if bare else self.rng.choice(("",) * 9 + (" # note", " // note", " /* note */"))
            lines.append(f"{pad}{item.removesuffix(chr(0))}{',' if comma and not bare else ''}{note}\n")
        return f"{opening}\n{''.join(lines)}{'  ' * depth}{closing}" if items else opening + closing

    def key(self, name: str) -> str:
        if PLAIN_WORD.fullmatch(name) and self.rng.random() < 0.5:
            return name
        return self.quoted(name)

    def colon(self) -> str:
        return self.rng.choice((": ", ":", " : ", ": "))

    def string(self, text: str) -> str:
        """A bare string ends only with its line: NUL marks it for `block`."""
        if PLAIN_WORD.fullmatch(text) and text not in RESERVED and self.rng.random() < 0.3:
            return text + "\0"
        return self.quoted(text)

    def quoted(self, text: str) -> str:
        if "'" not in text and "\\" not in text and text.isprintable() and self.rng.random() < 0.2:
            return f"'{text}'"
        return json.dumps(text, ensure_ascii=self.rng.random() < 0.5)


def duplicated(text: str, rng: Random) -> str:
    """Strict JSON text in which one key of some object stands twice."""
    found = list(re.finditer(r'"[^"\\]*": ', text))
    if not found:
        return '{"steps_per_print": 1, "steps_per_print": 2}'
    match = rng.choice(found)
    return (
        f"{text[: match.start()]}{match[0]}{rng.choice(('1', 'null', '{}', 'true'))}, {text[match.start() :]}"
    )


def _cut(text: str, rng: Random) -> str:
    return text[: rng.randrange(len(text))] if text else text


def _drop(characters: str) -> Callable[[str, Random], str]:
    def dropped(text: str, rng: Random) -> str:
        places = [i for i, c in enumerate(text) if c in characters]
        place = rng.choice(places) if places else 0
        return text[:place] + text[place + 1 :]

    return dropped


def _insert(*pieces: str) -> Callable[[str, Random], str]:
    def inserted(text: str, rng: Random) -> str:
        places = [i + 1 for i, c in enumerate(text) if c in "{,:}["] or [0]
        place = rng.choice(places)
        return text[:place] + rng.choice(pieces) + text[place:]

    return inserted


def _literal(text: str, rng: Random) -> str:
    """A number or boolean as Python, YAML or C would write it."""
    forms = (
        "True",
        "False",
        "None",
        "0x10",
        "5_000",
        "+5",
        ".5",
        "5.",
        "01",
        "1e",
        "1e5x",
        "--1",
        "yes",
        "1,000",
        "1f",
    )
    return re.sub(r"(?<=: )(\d+|true|false)(?=[,\n}])", lambda m: rng.choice((m[0], *forms)), text, count=3)


def _whole(*texts: str) -> Callable[[str, Random], str]:
    return lambda _, rng: rng.choice(texts)


BROKEN: Mapping[str, Callable[[str, Random], str]] = MappingProxyType(
    {
        "duplicate-key": duplicated,
        "cut-off": _cut,
        "quote-missing": _drop('"'),
        "brace-missing": _drop("{}[]"),
        "comma-missing": _drop(","),
        "colon-missing": _drop(":"),
        "comma-twice": _insert(","),
        "brace-twice": _insert("{", "}", "]"),
        "comment": _insert(" // note\n", " # note\n", " /* note */ ", " /* open ", "\n# note\n"),
        "control-character": _insert("\0", "\x01", "\x7f", "\u00a0", "\u2028", "\ufeff", "\f", "\v"),
        "odd-literal": _literal,
        "single-quotes": lambda text, _: text.replace('"', "'"),
        "odd-ending": lambda text, rng: (
            text + rng.choice(("}", "{}", "x", " // end", "\n# end\n", "\0", ",", "\u2028"))
        ),
        "odd-start": lambda text, rng: (
            rng.choice(("\ufeff", "\ufeff\ufeff", "x ", "\n\n", "#!json\n", "= ", "{")) + text
        ),
        "whole": _whole(
            "",
            " \n",
            "[]",
            "[1]",
            "1",
            "null",
            "true",
            '"auto"',
            "{}",
            "{",
            "}",
            "train_batch_size: 8",
            "\udcff\udcfe",
        ),
        "bad-encoding": _insert("\udcff", "\udce9", "\udcc3("),
    }
)
"""Ways to spoil a text; several leave it readable to Hjson, and some to JSON."""
