"""Writes a config as YAML, in one of the manners in which people do."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}


def yaml(config: Any, rng: Random) -> str:
    """A mapping in block style, small things in flow style here and there."""
    writer = _Writer(rng)
    text = "\n".join(writer.lines(config, "")) if config else "{}"
    if rng.random() < 0.15:
        text = text.replace("\n", "\r\n")
    return rng.choice(("", "# DeepSpeed\n", "---\n")) + text + rng.choice(("", "\n", "\n\n"))


class _Writer:
    """One indentation and one kind of quotes for a text; flow or block is chosen at each place."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.unit = rng.choice(("  ", "  ", "    "))
        self.quote = rng.choice(("", "", "'", '"'))
        self.flow = rng.choice((0.0, 0.2, 0.8))

    def lines(self, config: dict[str, Any], indent: str) -> list[str]:
        """The entries of a mapping, one below the other."""
        lines: list[str] = []
        for name, value in config.items():
            key = f"{indent}{self.word(name)}:"
            if isinstance(value, dict) and value and self.rng.random() >= self.flow:
                lines += [key, *self.lines(value, indent + self.unit)]
            elif isinstance(value, list) and value and self.rng.random() < 0.3:
                lines += [key, *(f"{indent}{self.unit}- {self.inline(item)}" for item in value)]
            else:
                lines.append(f"{key} {self.inline(value)}{self.note()}")
        return lines

    def inline(self, value: Any) -> str:
        """A value on one line."""
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self.word(key)}: {self.inline(item)}' for key, item in value.items())}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(self.inline, value))}]"
        if isinstance(value, str):
            return self.word(value)
        text = json.dumps(value)
        return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text

    def word(self, text: str) -> str:
        """A key or a string."""
        if _PLAIN.fullmatch(text) and text.lower() not in _WORDS and self.quote != '"':
            return f"{self.quote}{text}{self.quote}"
        return json.dumps(text, ensure_ascii=False)

    def note(self) -> str:
        """A comment, now and then."""
        return self.rng.choice(("",) * 9 + (" # note",))
