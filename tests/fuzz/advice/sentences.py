"""The sentence forms of helps: what each alternative of a help tells its reader to do.

A help is `do this, and that, or do something else; why`. What no form reads is returned as `Unread`, and what
speaks of something other than the config (the release, the ranks, the script) as `Beyond`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

ALL = "*"
"""In place of a name: every key that the message names."""


class Remove(NamedTuple):
    """Take keys out; no names: the key at which the finding stands."""

    names: tuple[str, ...] = ()


class Put(NamedTuple):
    """Give a key a value, in words; no name: the key at which the finding stands."""

    name: str
    value: str


class Rename(NamedTuple):
    """Call a key otherwise; no old name: the key at which the finding stands."""

    old: str
    new: str


class Swap(NamedTuple):
    """Exchange two values."""

    one: str
    other: str


class Move(NamedTuple):
    """Put what stands at the finding elsewhere."""

    to: str


class Ranks(NamedTuple):
    """Start the job on so many GPUs; None: on another number of them, and the config is judged by itself."""

    count: int | None


class Beyond(NamedTuple):
    """Nothing to do to the config."""

    text: str


class Unread(NamedTuple):
    """No form that is known."""

    text: str


Step: TypeAlias = "Remove | Put | Rename | Swap | Move | Ranks | Beyond | Unread"
Way: TypeAlias = tuple[Step, ...]
"""Steps that are done together."""

_VERBS = (
    "add|change|check|choose|combine|consider|correct|describe|did you mean|disable|do|enable|fill|give|hand"
    "|keep|leave|let|list|load|move|name|nest|offload|pad|pass|perhaps|put|raise|remove|rename|replace|rewrite"
    "|round|run|save|say|set|step|swap|switch|turn|upgrade|use|widen|write"
)
_LITERAL = re.compile(r'`([^`]*)`|"([^"]*)"')
_HOLE = re.compile(r"@(\d+)@")
_WHY = re.compile(
    r"(?:; |: |\? |, (?:unless|which|whose|if only|even though|so that|as|without|usual|about|the default|all"
    r"|or (?:the|a class))\b|, in any case"
    r"| (?:for (?!example)|so that|instead of|to (?:train|leave|disable|offload|switch|use|what)|that"
    r"|without)\b).*"
)
_KIND = re.compile(r"@(\d+)@ \((an? [^)]*|@\d+@ or @\d+@)\)")
_ELSEWHERE = re.compile(r"set (@\d+@) to (@\d+@) instead")
_ASIDE = re.compile(r" \([^)]*\)")
_OR = re.compile(rf",? or (?=(?:{_VERBS})\b)|, (?=(?:{_VERBS})\b)")
_AND = re.compile(rf",? and (?=(?:{_VERBS})\b)")
_BEYOND = re.compile(
    r"upgrade|change the(?! number of GPUs)|change @\d+@$|use another optimizer$|hand |pass "
    r"|keep it|leave it|fill the template|save |step it|pad |load the file|check |nest |put "
    r"|correct |disable |list |raise @\d+@(?! to)|use a (?:divisor|multiple)|run on a multiple"
    r"|move @\d+@ into a |give the Trainer|describe |choose |name one\b|rewrite it|say it anew|do\b|DeepSpeed "
    r"|offload to"
    r"|move (?:it|@\d+@) to the technique|set the value explicitly"
    r"|write (?:what is meant|the batch sizes|the same|\d+ entr)"
    r"|use (?:the universal|an older version |DeepSpeed |Accelerate |Transformers |PyTorch )"
)
_IN_PYTHON = re.compile(r"use `(?:[\w.]+\(|pin_memory` in)")
"""Replacement of a key by a call, or by a key of several sections."""


def ways(help: str) -> Iterator[Way]:
    """What a reader may do, one way after another."""
    literals: list[str] = []

    def hole(found: re.Match[str]) -> str:
        literals.append(found[0])
        return f"@{len(literals) - 1}@"

    masked = _LITERAL.sub(hole, help)
    asked, mark, answer = masked.partition("? It is ")
    if mark and asked.startswith("did you mean"):
        masked = answer.partition(": ")[2]
    masked = _ELSEWHERE.sub(r"say \2 at \1", masked)
    for number, kind in _KIND.findall(masked):
        literals[int(number)] += f" ({_filled(kind, literals)})"
    for choice in _OR.split(_WHY.sub("", _ASIDE.sub("", masked))):
        steps = [list(_steps(clause.strip(" ,.?"), literals)) for clause in _AND.split(choice)]
        yield from _products(steps)


def _products(steps: list[list[Way]]) -> Iterator[Way]:
    done: list[Way] = [()]
    for each in steps:
        done = [(*before, *after) for before in done for after in each]
    yield from done


def _steps(clause: str, literals: list[str]) -> Iterator[Way]:
    text = _filled(clause, literals)
    is_beyond = _BEYOND.match(clause) or _IN_PYTHON.match(text)
    for form, read in _FORMS:
        found = None if is_beyond else form.fullmatch(clause)
        if found:
            yield from read([_filled(part or "", literals) for part in found.groups()])
            return
    yield ((Beyond(text) if is_beyond else Unread(text)),)


def _filled(text: str, literals: list[str]) -> str:
    return _HOLE.sub(lambda hole: literals[int(hole[1])], text)


def words(text: str) -> list[str]:
    """The literals of a list such as `a`, `b` or `c`, with their quotes but without backticks."""
    return [found[1] if found[1] is not None else found[0] for found in _LITERAL.finditer(text)]


def _listed(value: str) -> list[str]:
    """The values of `1, 2 or 3`: literals or bare numbers; else the phrase as a whole."""
    bare = re.sub(r"^(one of|for example|such as|ZeRO stage|stage) ", "", value)
    parts = re.split(r", or |, | or ", bare)
    if all(re.fullmatch(r'`[^`]*`|"[^"]*"|-?[\d.]+(e-?\d+)?|null', part) for part in parts):
        return [part.strip("`") for part in parts]
    return [value]


def _put(name: str, value: str) -> Iterator[Way]:
    for each in _listed(value):
        yield (Put(name, each),)


_NAMED = re.compile(r"( or |, or |, )?`([^`]*)`(?: \(([^()]*)\))?")


def _added(text: str) -> Iterator[Way]:
    """`"key": value`, or names of keys."""
    steps: list[Step] = []
    others: list[Step] = []
    paired = ""
    for before, word, kind in _NAMED.findall(text):
        pair = re.fullmatch(r'"(\w+)": (.*)', word)
        if paired and not pair and before:
            others.append(Put(paired, word))
        else:
            paired = pair[1] if pair else ""
            steps.append(Put(pair[1], pair[2]) if pair else Put(word, kind))
    yield tuple(steps)
    for other in others:
        yield (other,)


def _written(value: str) -> Iterator[Way]:
    """`write` takes a value, or an entry."""
    found = words(value)
    if len(found) == 1 and re.fullmatch(r'"\w+": .*', found[0]) and value == f"`{found[0]}`":
        yield from _added(value)
    else:
        yield from _put("", value)


def _renamed(text: str) -> Iterator[Way]:
    for word in words(text):
        yield (Rename("", word),)


def _moved(text: str) -> Iterator[Way]:
    for word in words(text):
        yield (Move(word),)


_LIST = r"@\d+@(?:(?:, | and | or |, or )@\d+@)*"
_COUNTS = r"(\d+)(?:(?:, | or )\d+)*(?: …)?"
_FORMS = [
    (re.compile(form), read)
    for form, read in (
        (
            r"change the number of GPUs to (\d+)(?:(?:, | or )\d+)*",
            lambda parts: [(Ranks(int(parts[0])),)],
        ),
        (
            rf"(?:(?:change the|use another|another) number of|(?:use|run on) {_COUNTS}) (?:GPUs?|ranks)",
            lambda parts: [(Ranks(int(parts[0]) if parts[0] else None),)],
        ),
        (
            r"switch elasticity off",
            lambda _: [(Put("elasticity.enabled", "false"),)],
        ),
        (
            r"widen the range of GPUs",
            lambda _: [(Put("elasticity.min_gpus", "1"), Put("elasticity.max_gpus", "10000"))],
        ),
        (r"remove them", lambda _: [(Remove((ALL,)),)]),
        (
            r"remove (?:it|the key(?: to have no value)?|the section|the group|one of .*|what .*)",
            lambda _: [(Remove(),)],
        ),
        (r"keep (?:@\d+@ alone|only @\d+@|one(?: of (?:the two|them))?)", lambda _: [(Remove(),)]),
        (rf"remove ({_LIST})", lambda parts: [(Remove(tuple(words(parts[0]))),)]),
        (r"set (@\d+@)(?: and (@\d+@))?", lambda parts: _added(" ".join(parts))),
        (r"(?:set|raise) (@\d+@) to (.+)", lambda parts: _put(parts[0].strip("`"), parts[1])),
        (r"set (@\d+@) or (@\d+@) to (@\d+@)", lambda p: [(Put(each.strip("`"), p[2]),) for each in p[:2]]),
        (r"(?:set|raise|round) it(?:, for example)? to (.+)", lambda parts: _put("", parts[0])),
        (r"round it, for example to (.+)", lambda parts: _put("", parts[0])),
        (r"switch it off", lambda _: _put("", "false")),
        (r"swap (@\d+@) and (@\d+@)", lambda p: [(Swap(p[0].strip("`"), p[1].strip("`")),)]),
        (rf"add ({_LIST})(?:(?: to the| with its|,) .*)?", lambda parts: _added(parts[0])),
        (rf"move it (?:in)?to ({_LIST})(?:, at the top level)?", lambda parts: _moved(parts[0])),
        (r"write (@\d+@) as an object", lambda parts: _put(parts[0].strip("`"), "an object")),
        (r"use (@\d+@) instead", lambda parts: _moved(parts[0])),
        (r"say (@\d+@) at (@\d+@)", lambda p: [(Remove(), Put(p[1].strip("`"), p[0]))]),
        (r"rename (@\d+@) to (@\d+@)", lambda p: [(Rename(p[0].strip("`"), p[1].strip("`")),)]),
        (r"rename it to (@\d+@)", lambda parts: _renamed(parts[0])),
        (rf"did you mean ({_LIST})", lambda parts: _renamed(parts[0])),
        (
            r"use (?:ZeRO )?stage (\d(?:(?:, | or )\d)*)(?: or higher)?(?: with (@\d+@))?",
            lambda parts: _staged(*parts),
        ),
        (r"enable (@\d+@)", lambda parts: [(Put(parts[0].strip("`") + ".enabled", "true"),)]),
        (r"(?:perhaps|consider) (@\d+@)", lambda parts: _put("", parts[0])),
        (r"use another \w+, such as (.+)", lambda parts: _put("", parts[0])),
        (r"(?:write|use|give|replace it with) (.+)", lambda parts: _written(parts[0])),
    )
]


def _staged(stages: str, beside: str) -> Iterator[Way]:
    more = (Put(beside.strip("`"), ""),) if beside else ()
    for stage in re.findall(r"\d", stages):
        yield (Put("zero_optimization.stage", stage), *more)
