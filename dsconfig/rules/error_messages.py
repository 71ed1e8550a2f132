"""Known error messages about configs and launches, with causes and remedies, and a search for them in tracebacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache, cached_property
from math import log
from pkgutil import get_data
from typing import NamedTuple

FILE = "error_messages.json"
"""Name of the data file next to this module; the worker of the editors imports the package from a zip archive."""
LONGEST = 200_000
"""Maximum number of characters searched, from the end of a pasted text, where Python prints the exception."""
LEAST_SCORE = 0.66
"""Lowest score at which a similar message is shown, tuned on the texts of `tests/rules/test_error_messages.py`."""
_LEAST_WEIGHT = 12.0
"""Minimum information (in nats) of the shared words: about three or four rare words."""
_CLEARLY_SIMILAR = 0.8
"""Lowest score at which a similar cause precedes a symptom that matches exactly."""
_CLOSE = 0.08
"""Maximum difference from the best score at which another entry is shown too."""
_FEWEST_WORDS = 6
_GENERIC = frozenset(
    {
        "AttributeError",
        "FileNotFoundError",
        "ImportError",
        "IndexError",
        "ModuleNotFoundError",
        "OSError",
        "SystemExit",
        "TypeError",
        "ZeroDivisionError",
        "error",
    }
)
"""Exceptions whose messages come from Python and differ only in a name, so they must match exactly."""
_PYTHON_TEXT = re.compile(
    r"has no attribute '|^cannot import name|^No module named|got an unexpected keyword argument"
    r"|No such file or directory|cannot open shared object file|maximum recursion depth exceeded"
)
"""Wording of Python and the loader that is the same for every name, whatever the exception of the entry is."""
_DISTINCTIVE_NUMBER = re.compile(r"(?:[(\[]|(?<!\w)-)\d")
"""Number that distinguishes a message from others, such as size 0 of a sharded weight or an exit code."""
_LONG_PART = 40
"""Minimum length of a text between two placeholders that identifies a message on its own."""
_PART_SCORE = 0.95
_SHORTEST_BEGINNING = 30
"""Minimum length of the beginning of a message that identifies it when the rest was cut off."""
_SHORTEST_END = 6
"""Minimum length of the last literal part of such a beginning."""
_SHORT_TEXT = 24
"""Minimum number of fixed characters of a message that begins with a value and may match anywhere.

A shorter one, such as `8 is not divisible by 3`, matches only from its start.
"""
_GAP = 300
"""Maximum length of the value that a placeholder stands for."""


class ErrorMessage(NamedTuple):
    """An error message of DeepSpeed or of a program used with it, with its cause and remedies.

    `text` is the message in the newest source, with `{}` for each value; `variants` are its texts in other
    releases, and messages with the same cause and remedies.
    `error` is the name of the exception, or `warning`. `symptom` marks messages that result from another error, which
    the user has to look for.
    """

    id: str
    library: str
    error: str
    text: str
    source: str
    cause: str
    remedies: tuple[str, ...]
    rules: tuple[str, ...] = ()
    guide: str | None = None
    versions: str | None = None
    symptom: bool = False
    variants: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """`text` and its variants."""
        return (self.text, *self.variants)


class ErrorMessageMatch(NamedTuple):
    """A known message found in a text, exactly (score 1) or in similar words (below 1)."""

    entry: ErrorMessage
    score: float
    line: str
    """Part of the text that matched."""


@cache
def known_error_messages() -> tuple[ErrorMessage, ...]:
    """Load all known error messages."""
    rows = json.loads(get_data(__package__, FILE) or b"[]")
    lists = ("remedies", "rules", "variants")
    return tuple(ErrorMessage(**row | {name: tuple(row.get(name, ())) for name in lists}) for row in rows)


def find_error_messages(text: str) -> list[ErrorMessageMatch]:
    """Return the known messages in a pasted line or traceback, most likely first.

    An exact match precedes similar words, and a cause precedes a symptom. Several similar messages are returned only if
    their scores are close.
    """
    text = text[-LONGEST:]
    lines = list(_message_lines(text))
    joined = " ".join(lines)
    exact = {each.match.entry: each for each in _exact_matches(joined)}
    if whole := _join_cut_lines(text):
        exact |= {each.match.entry: each for each in _exact_matches(" ".join(_message_lines(whole)))}
    causes = [each for each in exact.values() if not each.match.entry.symptom]
    if causes:
        return [each.match for each in sorted(causes, key=lambda each: -each.literals)]
    similar = [*_partial_matches(joined), *_truncated_matches(lines)]
    similar = similar or sorted(_similar_matches(lines), key=lambda each: -each.score)
    # Launchers and wrappers report a failure after its cause, so the first symptom is the closest to it.
    symptoms = [each.match for each in sorted(exact.values(), key=lambda each: each.start)]
    least = _CLEARLY_SIMILAR if symptoms else LEAST_SCORE
    closest = [each for each in similar if each.score >= max(least, similar[0].score - _CLOSE)][:3]
    return [*(each for each in closest if not each.entry.symptom), *symptoms] if symptoms else closest


class _ExactMatch(NamedTuple):
    """A message whose text occurs in a pasted text, with the number of its literal characters and its position."""

    literals: int
    start: int
    match: ErrorMessageMatch


def _exact_matches(text: str) -> Iterator[_ExactMatch]:
    """Yield the known messages that occur in the pasted text."""
    lower = text.lower()
    for entry in known_error_messages():
        for variant in entry.texts:
            # Compiling a thousand expressions takes longer than all else, and few messages have their word in the text.
            if _longest_word(variant) not in lower:
                continue
            if occurrence := _compile_message(variant).search(text):
                literals = len(variant.replace("{}", ""))
                yield _ExactMatch(literals, occurrence.start(), ErrorMessageMatch(entry, 1.0, occurrence[0]))
                break


@cache
def _longest_word(text: str) -> str:
    """Return the longest literal word of a message, in lower case."""
    return max(_LITERAL_WORD.findall(text.lower()), key=len, default="")


def _partial_matches(text: str) -> Iterator[ErrorMessageMatch]:
    """Yield the known messages of which a long literal part occurs in the pasted text."""
    lower = text.lower()
    for each in known_error_messages():
        texts = [
            part.strip().lower()
            for variant in each.texts
            if not _is_generic(each, variant)
            for part in variant.split("{}")
        ]
        part = next((part for part in texts if len(part) >= _LONG_PART and part in lower), None)
        if part is not None:
            yield ErrorMessageMatch(each, _PART_SCORE, part)


def _truncated_matches(lines: Sequence[str]) -> Iterator[ErrorMessageMatch]:
    """Yield the known message that starts with the last line of the text, if there is only one."""
    last = lines[-1] if lines else ""
    message = _NAMED.sub("", _QUOTE.sub("'", last.rstrip(".\u2026 ")), count=1).strip().lower()
    if len(message) < _SHORTEST_BEGINNING:
        return
    entries = {
        each for each in known_error_messages() if any(_begins_with(text, message) for text in each.texts)
    }
    if len(entries) == 1:
        yield ErrorMessageMatch(entries.pop(), _PART_SCORE, last)


def _begins_with(text: str, beginning: str) -> bool:
    """Return whether a message with some values for its placeholders can begin with a text in lower case."""
    rest = beginning
    for number, part in enumerate(_QUOTE.sub("'", text).lower().split("{}")):
        at = rest.find(part) if number else 0
        if rest[at : at + len(part)] == part and at >= 0:
            rest = rest[at + len(part) :]
            continue
        ends = (rest[start:] for start in range(len(rest))) if number else iter((rest,))
        end = next((end for end in ends if part.startswith(end)), "")
        return len(beginning) - len(rest) + len(end) >= _SHORTEST_BEGINNING and len(end) >= _SHORTEST_END
    return False


# Launchers prefix each line with the rank, loggers with time and level, Ray with the worker.
_PREFIX = re.compile(
    r"^(?:\s*(?:\[?(?:rank|default)?\s*\d+\]?:|\[(?!Errno)(?:[^\]]{0,80}\d[^\]]{0,80}|[A-Z]+)\]:?"
    r"|\([^)]{0,80}pid=[^)]{0,80}\)|[\w.-]+:\s(?=\[\d{4}-)"
    r"|\d{4}-\d\d-\d\d[ T][\d:.,]+|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b:?|[EWI]\d{4} [\d:.]+))+\s*"
)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'"})
"""Straight quotes for the curly ones that chat programs and web pages put into a message."""
_QUOTE = re.compile("['\"`]")
"""Quotes of a message, which releases and web pages substitute for one another."""
_FRAME = re.compile(r'^\s*File "[^"]*", line \d+')
_ENTITY = re.compile(r"&(?:#\d+|#x[0-9a-f]+|quot|apos|lt|gt|amp);", re.IGNORECASE)
_LITERAL_WORD = re.compile(r"[a-z0-9_]+")
_NARROWEST = 40
"""Minimum width of a terminal that cuts lines."""


def _message_lines(text: str) -> Iterator[str]:
    """Yield the lines of a pasted text without colors, log prefixes and traceback frames."""
    if _ENTITY.search(text):
        from html import unescape

        text = unescape(text)
    if text.count("\\n") > text.count("\n"):
        # A log in JSON has the whole traceback in one string.
        text = text.replace("\\n", "\n").replace('\\"', '"')
    for line in _ESCAPE.sub("", text).translate(_QUOTES).splitlines():
        # rich draws a frame around tracebacks.
        bare = " ".join(_PREFIX.sub("", line).strip("\u2502 ").split())
        if bare and not _FRAME.match(line):
            yield bare


def _join_cut_lines(text: str) -> str:
    """Undo the line breaks of a terminal, which cuts longer lines at its width, also within words.

    Return "" if no line is as long as the longest one and followed by another.
    """
    lines = _ESCAPE.sub("", text).splitlines()
    width = max(map(len, lines), default=0)
    if width < _NARROWEST or all(len(line) < width for line in lines[:-1]):
        return ""
    return "".join(line if len(line) == width else f"{line}\n" for line in lines)


@cache
def _compile_message(text: str) -> re.Pattern[str]:
    """Compile a message to a regular expression in which placeholders match any text."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in text.split("{}")]
    ends = [(part[:1].isspace(), part[-1:].isspace()) for part in text.split("{}")]
    pieces: list[str] = []
    for number, (part, (before, after)) in enumerate(zip(parts, ends, strict=True)):
        if number:
            pieces.append(rf".{{0,{_GAP}}}?")
        pieces.append((r"\s*" if before and part else "") + part + (r"\s*" if after and part else ""))
    pattern = "".join(pieces).removeprefix(rf".{{0,{_GAP}}}?").removesuffix(rf".{{0,{_GAP}}}?")
    if text.startswith("{}") and len(text.replace("{}", "")) < _SHORT_TEXT:
        pattern = r"(?:^|: |\})\S*" + pattern
    return re.compile(_QUOTE.sub("['\"`]", pattern), re.IGNORECASE | re.DOTALL)


_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|\d\w*")
_NUMBER = re.compile(r"\d")


def _message_words(text: str) -> list[str]:
    """Return the words of a message, without numbers."""
    return [word for word in _WORD.findall(text.lower()) if not _NUMBER.match(word) and len(word) > 1]


def _is_generic(entry: ErrorMessage, text: str) -> bool:
    """Return whether other messages differ from this one only in a name, so that only an exact match counts."""
    return entry.error in _GENERIC or _PYTHON_TEXT.search(text) is not None


class _WordStatistics:
    """Word frequencies in all messages; in comparisons, rare words count more."""

    @cached_property
    def words(self) -> list[tuple[ErrorMessage, list[str]]]:
        """Known messages and their words, except messages with too few words."""
        texts = [
            (each, text)
            for each in known_error_messages()
            for text in each.texts
            if not _is_generic(each, text)
        ]
        words = [(each, _message_words(text)) for each, text in texts if not _DISTINCTIVE_NUMBER.search(text)]
        return [(each, text_words) for each, text_words in words if len(text_words) >= _FEWEST_WORDS]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of messages that contain each word."""
        counts: dict[str, int] = {}
        for _, words in self.words:
            for word in set(words):
                counts[word] = counts.get(word, 0) + 1
        return counts

    def weight(self, words: list[str]) -> float:
        """Return the information content of words in nats."""
        total = len(self.words)
        return sum(log(total / self.counts.get(word, 1)) for word in words)


_INDEX = _WordStatistics()
_NAMED = re.compile(r"^[\w.]*(?:Error|Exception|Warning|Mismatch)\b.{0,40}?:")


def _similar_matches(lines: list[str]) -> Iterator[ErrorMessageMatch]:
    """Yield messages with similar words, for a text that is truncated, reworded or only partly copied."""
    candidates = [line for line in lines if _NAMED.match(line)] or lines
    best: dict[str, ErrorMessageMatch] = {}
    for line in dict.fromkeys([*candidates[-20:], *([" ".join(lines)] if len(lines) <= 5 else [])]):
        words = _message_words(line)[:120]
        weight = _INDEX.weight(words)
        for entry, entry_words in _INDEX.words:
            matcher = SequenceMatcher(None, entry_words, words, autojunk=False)
            common = _INDEX.weight([entry_words[at] for at in _matching_positions(matcher)])
            if common < _LEAST_WEIGHT:
                continue
            recall, precision = common / _INDEX.weight(entry_words), common / weight
            same = common / (common + _replaced_weight(matcher, entry_words, words))
            score = 0.99 * same * (max(recall, precision) + (recall * precision) ** 0.5) / 2
            if score >= LEAST_SCORE and (entry.id not in best or score > best[entry.id].score):
                best[entry.id] = ErrorMessageMatch(entry, score, line)
    yield from best.values()


def _matching_positions(matcher: SequenceMatcher[str]) -> Iterator[int]:
    """Yield the positions of words that occur in the same order in both sequences."""
    for start, _, count in matcher.get_matching_blocks():
        yield from range(start, start + count)


def _replaced_weight(matcher: SequenceMatcher[str], entry_words: list[str], words: list[str]) -> float:
    """Return the information, in nats, of the message's words that the text replaces by others.

    A truncated text lacks words, and a text with values has additional words. But a text with other words in the same
    positions is a different message of the same form, such as "sequence parallel group" for "expert parallel group".
    """
    total = 0.0
    blocks = matcher.get_matching_blocks()
    for at, (start, line_start, _) in enumerate(blocks):
        previous, line_previous, count = blocks[at - 1] if at else (0, 0, 0)
        left, line_left = entry_words[previous + count : start], words[line_previous + count : line_start]
        length = min(len(left), len(line_left))
        # At the ends only the words next to the common part are compared: a log has other text before and after.
        at_end = start == len(entry_words)
        pair = (
            (left[:length], line_left[:length])
            if at_end
            else (left[len(left) - length :], line_left[len(line_left) - length :])
        )
        total += min(_INDEX.weight(pair[0]), _INDEX.weight(pair[1]))
    return total
