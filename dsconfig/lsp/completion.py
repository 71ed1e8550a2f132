"""Completion: keys that are not there yet, values that a key takes, blocks for sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.job.run_facts import DSCONFIG_KEY as OWN
from dsconfig.lsp.completion_item import PROPERTY, SNIPPET, Hand, Offer, blocks, candidates, value_offer
from dsconfig.lsp.cursor import Cursor, config_in, cursor, key_at, scope, section_at
from dsconfig.lsp.hover import key_text
from dsconfig.model.keyinfo import child_section

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.lsp.cursor import Scope
    from dsconfig.lsp.workspace import Judged, Workspace
    from dsconfig.model.keyinfo import KeyView, SectionView

_SNIPPET, _AS_IS, _ADJUST = 2, 1, 2
_HIDDEN = frozenset(("internal", "not_json", "unread"))
_MORE = re.compile(r"(\s*)[\"'\w$]")
_QUIET = re.compile(
    r"""//[^\r\n]*|\#[^\r\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\\r\n]|\\.)*"?|'(?:[^'\\\r\n]|\\.)*'?""", re.DOTALL
)
"""Comments and texts in quotes, in which braces are no braces, be they closed or not."""
_LARGEST = 1 << 16
"""Characters of a text in which braces are counted."""
_INDENT = re.compile(r"[ \t]*")


def answer(workspace: Workspace, params: JsonObject) -> JsonObject:
    """`textDocument/completion`."""
    judged = workspace.begun(params["textDocument"]["uri"])
    found: list[JsonObject] = []
    if judged is not None:
        lines = judged.text.lines
        at = cursor(judged.text.document, lines.offset(params["position"]))
        item = workspace.client.get("textDocument", {}).get("completion", {}).get("completionItem", {})
        if at is not None:
            before = judged.text.text[: at.start]
            indent = _INDENT.match(before, max(before.rfind("\r"), before.rfind("\n")) + 1)
            hand = Hand(
                judged.text.yaml,
                _is_bare(judged),
                bool(item.get("snippetSupport")),
                at.flow,
                indent[0] if indent else "",
            )
            around = _around(judged, at)
            if around is not None:
                found = [_item(judged, at, hand, offer, around) for offer in _offers(judged, at, hand)]
    return {"isIncomplete": False, "items": found}


def _around(judged: Judged, at: Cursor) -> tuple[str, str] | None:
    """What has to stand around a key for the whole to be an object; None where none may stand at all.

    A new JSON file has no braces yet; before or behind them there is nothing to be typed.
    """
    text = judged.text.text
    is_elsewhere = bool(at.path) or at.kind != "key" or len(text) > _LARGEST
    if judged.text.yaml or judged.text.name.endswith(".hjson") or is_elsewhere:
        return "", ""
    if "{" not in text:
        return "{\n  ", "\n}"
    before = _QUIET.sub("", text[: at.start])
    return ("", "") if before.count("{") > before.count("}") else None


def _item(judged: Judged, at: Cursor, hand: Hand, offer: Offer, around: tuple[str, str]) -> JsonObject:
    text = offer.text + _comma(judged, at, hand)
    if around[0]:
        text = around[0] + text.replace("\n", "\n  ") + around[1]
    text = text if text.startswith("\n") else at.gap + text
    found: JsonObject = {
        "label": offer.label,
        "kind": offer.kind,
        "filterText": f"{at.quote}{offer.label}{at.quote}",
        "sortText": f"{offer.rank}{offer.label}",
        "textEdit": {"range": judged.text.lines.range(*at.word), "newText": text},
    }
    if edits := _comma_before(judged, at, hand):
        found["additionalTextEdits"] = edits
    if hand.snippets:
        found |= {"insertTextFormat": _SNIPPET, "insertTextMode": _ADJUST}
    elif "\n" in text:
        found["insertTextMode"] = _AS_IS
    if offer.told:
        found["documentation"] = {"kind": "markdown", "value": offer.told}
    if offer.detail:
        found["detail"] = offer.detail
    return found


def _is_bare(judged: Judged) -> bool:
    """Whether keys of a text have no quotes, as its first one shows; one that is being typed says nothing."""
    document = judged.text.document
    if judged.text.yaml or document.root is None or not document.root.members:
        return judged.text.yaml or judged.text.name.endswith(".hjson")
    return document.text[document.root.members[0].key_span.start] not in "\"'"


def _comma(judged: Judged, at: Cursor, hand: Hand) -> str:
    """The comma before the next entry, where one is wanted."""
    more = _MORE.match(judged.text.text, at.end)
    if more is None or at.has_value or at.is_open:
        return ""
    return "," if _separates(hand, more[1]) else ""


def _comma_before(judged: Judged, at: Cursor, hand: Hand) -> list[JsonObject]:
    """The edit that adds the comma behind the entry before, where one is wanted and there is none."""
    before = judged.text.text[: at.start].rstrip()
    if at.kind != "key" or before[-1:] in ("{", "[", ",", "", "/"):
        return []
    if not _separates(hand, judged.text.text[len(before) : at.start]):
        return []
    return [{"range": judged.text.lines.range(len(before), len(before)), "newText": ","}]


def _separates(hand: Hand, gap: str) -> bool:
    """Whether a comma has to stand in a gap between two entries."""
    if hand.yaml or not hand.bare:
        return hand.flow
    return "\n" not in gap and "\r" not in gap


def _offers(judged: Judged, at: Cursor, hand: Hand) -> Iterator[Offer]:
    data = at.document.value()
    seen = scope(judged)
    inside = None if seen is None else seen.inside(at.path)
    if seen is None:
        from dsconfig.lsp.completion_item import accelerate_offers

        yield from accelerate_offers(data, at, hand)
    elif inside is not None and inside[:1] == (OWN,):
        from dsconfig.lsp.completion_item import dsconfig_offers as of_own_block

        yield from of_own_block(inside[1:], at, hand)
    elif inside is not None and at.kind == "key":
        section = section_at(inside, config_in(data, seen.base), seen.release)
        if section is not None:
            yield from _keys(at, hand, seen, section)
    elif inside:
        yield from _values(config_in(data, seen.base), inside, at, hand, seen)


def _keys(at: Cursor, hand: Hand, seen: Scope, section: SectionView) -> Iterator[Offer]:
    there = {section.keys[word].info.name for word in at.data if word in section.keys}
    for word, key in section.keys.items():
        info = key.info
        is_old = info.deprecated <= seen.release
        if word != info.name or info.name in there or info.flags & _HIDDEN or is_old:
            continue
        yield Offer(
            word,
            hand.entry(word, at, _first(key, hand, seen)),
            PROPERTY,
            key_text(word, key, seen.release_name),
            info.unit or "",
            _rank(section, key, at.data),
        )
    if section.name == "Config" and OWN not in at.data:
        told_of = "What the config says of itself to `dsconfig`."
        yield Offer(OWN, hand.entry(OWN, at, hand.beneath()), PROPERTY, told_of, rank=8)


def _first(key: KeyView, hand: Hand, seen: Scope) -> str:
    """What follows a key that is completed: its likeliest value, to be typed over."""
    if child_section(key.type) is not None:
        return hand.beneath()
    found = candidates(key, seen)
    best = next((each for each in found if each.value == "auto"), None) or next(
        (each for each in found if each.is_default), found[0] if found else None
    )
    if best is None:
        return hand.hole(key.type[0])
    return hand.place(best.value)


def _rank(section: SectionView, key: KeyView, data: Json) -> int:
    """Where a key stands among the others: what the config at hand does not read comes last."""
    if section.name == "ZeroOptimization" and isinstance(stage := data.get("stage"), int):
        from dsconfig.model.keyinfo import ZERO_STAGES

        if stage not in ZERO_STAGES.get(key.info.name, (stage,)):
            return 7
    return 4 if key.info.required else 5


def _values(data: Json, path: tuple[str | int, ...], at: Cursor, hand: Hand, seen: Scope) -> Iterator[Offer]:
    while path and isinstance(path[-1], int):
        path = path[:-1]
    key = key_at(path, data, seen.release)
    section = section_at(path[:-1], data, seen.release)
    if key is None or section is None:
        return
    for rank, each in enumerate(candidates(key, seen)):
        yield value_offer(each, at, hand, min(rank, 9))
    for each in blocks(section, key, seen):
        yield Offer(each.label, hand.block(each.value), SNIPPET, detail="block")
