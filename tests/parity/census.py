"""Compares the model with the real keys of a release: `python -m tests.parity.census RELEASE`.

What a new release adds, removes and changes comes out of this, and what the model says wrongly of an old one.
`--check` fails on every difference that `EXPLAINED` does not name.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from dsconfig.memory.release_quirks import quirk_rows
from dsconfig.model.key_table import INFERENCE_ROOT
from tests.parity import environment
from tests.parity.generators import bases, keyspace
from tests.parity.generators.keyspace import Slot, Spec, Step, arms
from tests.parity.judges import worker

Change = Literal["adds", "removes", "changes"]
VALIDATOR = "a validator of the field is stricter or more lenient than its annotation"
MISNAMED = "DeepSpeed looks up the name of a constant instead of the key: no one can mean it"
EXPLAINED: dict[tuple[str, str], str] = {
    ("changes", r"fp16\.loss_scale"): VALIDATOR,
    ("changes", r"zero_optimization\.leaf_module\.(classes|names|name_suffixes)"): VALIDATOR,
    ("changes", r"zero_optimization\.zenflow\.(select_interval|select_strategy|update_interval)"): VALIDATOR,
    ("changes", r"tensor_parallel\.dtype"): "a torch.dtype, which no JSON value is",
    ("changes", r"init_inference\.moe"): "before 0.19.3, a validator of the field fails for true and false",
    ("changes", r"init_inference\.dtype"): "a torch.dtype, which a file has by name",
    ("removes", r"optimizer\.params\.(initial_accumulator_value|lr_decay)"): "torch's own Adagrad takes it",
    ("removes", r"datastates_ckpt\.host_cache_size"): "the datastates package reads it",
    ("adds", r"compression_training\.shared_parameters"): "looked up one level too high; the rules know",
    ("adds", r"zero_optimization\.ZERO_OPTIMIZATION_\w+"): MISNAMED,
}
"""(change, pattern of the whole path) → why the model says otherwise, and is right."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which a release and the model differ, seen from the model."""

    change: Change
    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.change:8} {self.path}: {self.detail}"

    @property
    def explanation(self) -> str | None:
        """Why it is not a mistake, where that is known."""
        for (change, pattern), reason in EXPLAINED.items():
            if change == self.change and re.fullmatch(pattern, self.path):
                return reason
        return None


def seeds(release: str) -> list[dict[str, Any]]:
    """Configs that make a release look into its sections."""
    modes = [{"sparse_attention": {"mode": mode}} for mode in bases.SPARSE_MODES]
    return [*bases.HOSTS.values(), *modes]


def probe(release: str) -> dict[str, Any]:
    """What the release says of its own keys; see `census_probe`."""
    (found,) = worker.answers(release, "census_probe.py", json.dumps({"seeds": seeds(release)}))
    return found


def differences(release: str) -> list[Difference]:
    """Everything in which the release and the model differ, by path."""
    found = probe(release)
    model = keyspace.modelled_as(release)
    everything = (
        *of_models(found["models"], keyspace.by_path(model)),
        *of_looked(found, model, release),
        *of_inference(found["inference"], model),
    )
    return sorted(everything, key=lambda one: (one.path, one.change))


INFERENCE = "init_inference"
"""First step of the paths in the config of `init_inference`."""


def of_inference(models: dict[str, dict[str, Any]], release: str) -> Iterator[Difference]:
    """Differences in the config of `init_inference`, whose `zero` is the section of training configs."""
    known = {(INFERENCE, *path): slot for path, slot in keyspace.by_path(release, INFERENCE_ROOT).items()}
    if models:
        known[INFERENCE,] = Slot((INFERENCE,), ("section", INFERENCE_ROOT), None)
    sections = {path: fields for path, fields in models.items() if path.split(".")[1:2] != ["zero"]}
    yield from of_models(sections, known)


def of_models(
    models: dict[str, dict[str, Any]], known: Mapping[tuple[Step, ...], Slot]
) -> Iterator[Difference]:
    """Differences between sections that the release builds with pydantic and the slots of the model."""
    for section, fields in models.items():
        here = tuple(section.split("."))
        if here not in known:
            yield Difference("adds", section, f"a section with {', '.join(sorted(fields))}")
            continue
        names = fields.keys() | {alias for field in fields.values() for alias in field["aliases"]}
        own = {str(path[-1]): slot for path, slot in known.items() if path[:-1] == here}
        for name in sorted(names - own.keys()):
            field = fields.get(name)
            detail = f"{shown(field['type'])}, default {field['default']!r}" if field else "an alias"
            yield Difference("adds", f"{section}.{name}", detail)
        for name in sorted(own.keys() - names):
            yield Difference("removes", f"{section}.{name}", "not a field of the release's model")
        for name in sorted(own.keys() & fields.keys()):
            yield from of_field(f"{section}.{name}", own[name], fields[name])


def of_field(path: str, slot: Slot, field: dict[str, Any]) -> Iterator[Difference]:
    """Differences in type, bounds, members and default of one field."""
    theirs, ours = shapes(field["type"]), shapes(slot.type)
    if ("any",) not in theirs and ("any",) not in ours and theirs != ours:
        yield Difference("changes", path, f"type {shown(field['type'])}, the model says {shown(slot.type)}")
    plain = not slot.section and not field["required"]
    if plain and field["default"] != slot.default:
        yield Difference("changes", path, f"default {field['default']!r}, the model says {slot.default!r}")


def shapes(spec: Spec | Sequence[Any]) -> frozenset[tuple[Any, ...]]:
    """A type's arms in a form in which equal ones are equal, without the word "auto"."""
    found: set[tuple[Any, ...]] = set()
    for arm in arms(tuple(spec)):
        match tuple(arm):
            case ("int", ge, gt, le, lt):
                low = gt + 1 if gt is not None else ge
                found.add(("int", low, lt - 1 if lt is not None else le))
            case ("float", *bounds):
                found.add(("float", *bounds))
            case ("enum", *members):
                left = frozenset(member for member in members if member != "auto")
                found |= {("enum", left)} if left else set()
            case (kind, *_):
                found.add(("section",) if kind == "map" else (kind,))
    return frozenset(found)


def shown(spec: Spec | Sequence[Any]) -> str:
    """A type as people write it."""
    match tuple(spec):
        case ("union", *several):
            return " | ".join(map(shown, several))
        case ("enum", *members):
            return "one of " + ", ".join(map(repr, members))
        case (("int" | "float") as kind, *bounds):
            limits = [f"{s} {b}" for s, b in zip(("≥", ">", "≤", "<"), bounds, strict=True) if b is not None]
            return " ".join([kind, *limits])
        case ("list" as kind, *item):
            return f"{kind} of {shown(item[0])}" if item else kind
        case (kind, *_):
            return str(kind)
    return str(spec)


def of_looked(found: dict[str, Any], model: str, release: str) -> Iterator[Difference]:
    """Differences in the sections that the release looks into by hand."""
    known = keyspace.by_path(model)
    now = environment.order(release)
    looked = {tuple(0 if step == "0" else step for step in path) for path in found["looked"]}
    refused = {slot.path for slot in keyspace.slots() if refused_in(slot, now)}
    for path in sorted(looked - known.keys() - refused, key=str):
        above = known.get(path[:-1])
        if above is None and len(path) > 1:
            continue  # its section is reported already
        if above is None or "section" in keyspace.kinds(above.type):
            yield Difference("adds", ".".join(map(str, path)), "looked up when the config is read")
    words = source_words(release)
    for path, slot in known.items():
        section = ".".join(map(str, path[:-1]))
        if section in found["models"] or path in looked or isinstance(path[-1], int):
            continue
        if path[-1] != "group_one" and slot.name not in words:
            yield Difference(
                "removes", ".".join(map(str, path)), "the word is nowhere in the release's sources"
            )


def refused_in(slot: Slot, release: tuple[int, ...]) -> bool:
    """Whether the release raises when the key is there at all."""
    major, minor, patch = (*release, 0, 0)[:3]
    return slot.refused <= major * 1_000_000 + minor * 1_000 + patch


@cache
def source_words(release: str) -> frozenset[str]:
    """Every word in the Python sources of the release."""
    words: set[str] = set()
    for path in (environment.home() / "ds" / release / "deepspeed").rglob("*.py"):
        words.update(re.findall(r"\w+", path.read_text("utf-8", "replace")))
    return frozenset(words)


def changed_engines(release: str, before: str) -> Iterator[str]:
    """Symbols that memory estimates follow and that a release changed, with the quirks read in them.

    Each may need a row in `dsconfig/memory/release_quirks.py`; engines of both releases say so
    (`python -m tests.parity.memory --release RELEASE`).
    """
    names: dict[str, list[str]] = {}
    for row in quirk_rows():
        names.setdefault(row.source, []).append(row.name)
    for source, quirks in names.items():
        old, new = (symbol_text(each, source) for each in (before, release))
        if old != new:
            change = "is new" if old is None else "is gone" if new is None else "changed"
            yield f"{source} {change} since {before}: {', '.join(quirks)}"


def symbol_text(release: str, source: str) -> str | None:
    """Code of a class or function, written `FILE:CLASS.FUNCTION`; the file where the last name is neither."""
    name, _, symbol = source.partition(":")
    path = environment.home() / "ds" / release / "deepspeed" / name
    if not path.exists():
        return None
    node: ast.AST = ast.parse(path.read_text("utf-8", "replace"))
    for part in filter(None, symbol.split(".")):
        kinds = (ast.ClassDef, ast.FunctionDef)
        inner = (each for each in ast.walk(node) if isinstance(each, kinds) and each.name == part)
        node = next(inner, node)
    return ast.unparse(node)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the differences; with `--check`, 1 where one is not explained."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.census", description=__doc__)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help="default: all of the environment")
    parser.add_argument("--check", action="store_true", help="fail on differences that are not explained")
    parser.add_argument("--explained", action="store_true", help="print the explained differences too")
    options = parser.parse_args(arguments)
    available = environment.available()
    failed = False
    for release in options.releases or available:
        if release not in available:
            print(f"run `python -m tests.parity.environment {release}` first", file=sys.stderr)
            return 2
        found = differences(release)
        open_ = [one for one in found if one.explanation is None]
        failed |= bool(open_)
        explained = len(found) - len(open_)
        print(f"DeepSpeed {release}: {len(open_)} differences from the model, {explained} explained")
        for one in found if options.explained else open_:
            print(f"  {one}" + (f" ({one.explanation})" if one.explanation else ""))
        older = [each for each in available if environment.order(each) < environment.order(release)]
        if options.releases and older:
            newest = max(older, key=environment.order)
            print(*(f"  memory: {line}" for line in changed_engines(release, newest)), sep="\n")
    return 1 if options.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
