"""What a release itself says of its keys, inside the parity environment's venv: JSON in, JSON out.

    in   {"seeds": [config, …]}   configs in which as many sections as possible are looked into
    out  {"models": {section: {key: {"type", "default", "required", "aliases"}}},
          "inference": {section: {key: …}},
          "looked": [[step, …], …]}

`models` are the sections built on pydantic, by introspection, and `inference` those of `init_inference`. `looked` are
the keys looked up in the others: these are given as dictionaries that note it, again and again, each time with one
more of them made a section.
"""

import contextlib
import enum
import json
import sys
import types
import typing
from typing import Any

MARK = "__census__"
BOUNDS = ("ge", "gt", "le", "lt")
PLAIN = {bool: "bool", str: "str", type(None): "null", Any: "any", object: "any", dict: "map", list: "list"}


class Noting(dict):  # type: ignore[type-arg]
    """A dictionary that notes which keys are asked for."""

    def __init__(self, value: Any, path: "tuple[str, ...]", notes: "set[tuple[str, ...]]") -> None:
        super().__init__({key: noting(item, (*path, str(key)), notes) for key, item in value.items()})
        self.path, self.notes = path, notes

    def note(self, key: Any) -> Any:
        if isinstance(key, str) and key != MARK:
            self.notes.add((*self.path, key))
        return key

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.note(key))

    def __contains__(self, key: Any) -> bool:
        return super().__contains__(self.note(key))

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(self.note(key), default)

    def pop(self, key: Any, *default: Any) -> Any:
        return super().pop(self.note(key), *default)

    def keys(self) -> Any:
        return Keys(self)

    def copy(self) -> "Noting":
        return Noting(dict(self.items()), self.path, self.notes)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> "Noting":
        return self.copy()


class Keys:
    """The keys of a `Noting`, which note `in` too."""

    def __init__(self, owner: Noting) -> None:
        self.owner = owner

    def __contains__(self, key: Any) -> bool:
        return key in self.owner

    def __iter__(self) -> Any:
        return iter(self.owner)

    def __len__(self) -> int:
        return len(self.owner)


def noting(value: Any, path: "tuple[str, ...]", notes: "set[tuple[str, ...]]") -> Any:
    """The value with every dictionary in it noting."""
    if isinstance(value, dict):
        return Noting(value, path, notes)
    return [noting(item, (*path, "0"), notes) for item in value] if isinstance(value, list) else value


class Census:
    """One release under observation."""

    def __init__(self) -> None:
        from judge import Judge  # type: ignore[import-not-found]  # beside this file, in the judging venv

        self.judge = Judge()
        self.notes: set[tuple[str, ...]] = set()
        self.roots: dict[str, Any] = {}
        from deepspeed.runtime import config_utils

        base = getattr(config_utils, "DeepSpeedConfigModel", None)
        if base is not None:  # since 0.7; its own base is the BaseModel of whichever pydantic it uses
            self.watch(base.__mro__[1])

    def watch(self, base: Any) -> None:
        """Notes which pydantic model is built from a marked section."""
        init = base.__init__

        def marked(model: Any, *arguments: Any, **data: Any) -> None:
            if MARK in data:
                self.roots.setdefault(data[MARK], type(model))
            init(model, *arguments, **data)

        marked.__dict__["__pydantic_base_init__"] = True
        base.__init__ = marked

    def look(self, config: "dict[str, Any]") -> "set[tuple[str, ...]]":
        """Builds the release's config object; what it raises does not matter. Returns what is newly noted."""
        before = set(self.notes)
        whole = config if "elasticity" in config else {"train_batch_size": 8, **config}
        make = self.judge.module.DeepSpeedConfig
        given = Noting(whole, (), self.notes)
        with contextlib.suppress(Exception):
            make(None, param_dict=given) if "param_dict" in self.judge.parameters else make(given)
        return self.notes - before

    def run(self, seeds: "list[dict[str, Any]]") -> "dict[str, Any]":
        """The whole census."""
        waiting = set()
        for seed in [{}, *seeds]:
            waiting |= self.look(seed)
        for name in {path[0] for path in self.notes}:
            self.look({name: {MARK: name}})
        done: set[tuple[str, ...]] = set()
        while waiting:
            path = waiting.pop()
            if path in done or len(path) > 6 or path[0] in self.roots:
                continue
            done.add(path)
            for inner in ({}, {"enabled": True}):
                waiting |= self.look(placed(path, inner))
        models: dict[str, Any] = {}
        for name, model in sorted(self.roots.items()):
            describe(model, name, models)
        looked = sorted(path for path in self.notes if path[0] not in self.roots or len(path) == 1)
        return {"models": models, "inference": inference_models(), "looked": looked}


def placed(path: "tuple[str, ...]", value: Any) -> "dict[str, Any]":
    """A config with the value at a place, every section on the way enabled."""
    for step in reversed(path):
        value = {step: value}
    return value  # type: ignore[no-any-return]


def inference_models() -> "dict[str, Any]":
    """The fields of the config of `init_inference`, and of its sections; none before 0.7.6."""
    try:
        from deepspeed.inference.config import DeepSpeedInferenceConfig
    except ImportError:
        return {}
    models: dict[str, Any] = {}
    describe(DeepSpeedInferenceConfig, "init_inference", models, by_alias=False)
    return models


def describe(model: Any, path: str, models: "dict[str, Any]", by_alias: bool = True) -> None:
    """The fields of a pydantic model of either major version, and of those inside it."""
    fields = getattr(model, "model_fields", None) or getattr(model, "__fields__", {})
    models[path] = {name: field_of(field) for name, field in fields.items()}
    for name, field in fields.items():
        annotation = getattr(field, "annotation", None) or getattr(field, "outer_type_", None)
        for inner in models_in(annotation):
            alias = getattr(field, "alias", None) if by_alias else None
            describe(inner, f"{path}.{alias or name}", models, by_alias)


def models_in(annotation: Any) -> "list[Any]":
    """The pydantic models that a type names."""
    if hasattr(annotation, "model_fields") or hasattr(annotation, "__fields__"):
        return [annotation]
    return [found for inner in typing.get_args(annotation) for found in models_in(inner)]


def field_of(field: Any) -> "dict[str, Any]":
    """One field in JSON."""
    old = hasattr(field, "field_info")  # pydantic 1
    info = field.field_info if old else field
    spec = type_of(field.outer_type_ if old else field.annotation, bounds_of(info))
    if old and field.allow_none and ["null"] not in (spec, *spec[1:]):
        spec = ["union", *(spec[1:] if spec[0] == "union" else [spec]), ["null"]]
    factory = info.default_factory
    default = factory() if factory is not None else None if not old and field.is_required() else field.default
    return {
        "type": spec,
        "default": plain(default),
        "required": bool(field.required) if old else field.is_required(),
        "aliases": [field.alias] if field.alias and field.alias != getattr(field, "name", None) else [],
    }


def bounds_of(info: Any) -> "dict[str, Any]":
    """The bounds on a field, whichever way it carries them."""
    found = {name: getattr(info, name) for name in BOUNDS if getattr(info, name, None) is not None}
    for item in getattr(info, "metadata", ()):
        found.update({name: getattr(item, name) for name in BOUNDS if getattr(item, name, None) is not None})
    return found


def type_of(annotation: Any, bounds: "dict[str, Any]") -> "list[Any]":
    """The annotation in the vocabulary of `dsconfig.model.iterate_model_fields`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        for item in arguments[1:]:
            bounds = bounds | bounds_of(item) | bounds_of(types.SimpleNamespace(metadata=[item]))
        return type_of(arguments[0], bounds)
    if origin in (typing.Union, types.UnionType):
        return ["union", *(type_of(inner, bounds) for inner in arguments)]
    if origin is typing.Literal:
        return ["enum", *arguments]
    if origin in (list, tuple, set):
        return ["list", type_of(arguments[0], {}) if arguments else ["any"]]
    if origin is dict:
        return ["map", type_of(arguments[1], {}) if arguments else ["any"]]
    if isinstance(annotation, type):
        return class_of(annotation, bounds)
    return [PLAIN.get(annotation, "any")]


def class_of(annotation: Any, bounds: "dict[str, Any]") -> "list[Any]":
    """A class in that vocabulary: constrained numbers of pydantic 1 are subclasses of int and float."""
    if issubclass(annotation, enum.Enum):
        # a dtype is one member with several names
        words = [word for member in annotation for word in getattr(member, "_all_values", [member.value])]
        return ["enum", *(word for word in words if isinstance(word, str | int))]
    if annotation is not bool and issubclass(annotation, int | float):
        own = {name: value for name in BOUNDS if (value := getattr(annotation, name, None)) is not None}
        whole = own | bounds
        return ["int" if issubclass(annotation, int) else "float", *(whole.get(name) for name in BOUNDS)]
    if hasattr(annotation, "model_fields") or hasattr(annotation, "__fields__"):
        return ["section", annotation.__name__]
    if annotation in PLAIN:
        return [PLAIN[annotation], ["any"]] if annotation in (dict, list) else [PLAIN[annotation]]
    if issubclass(annotation, str):
        return ["str"]
    return ["path"] if annotation.__name__ == "Path" else ["any"]


def plain(value: Any) -> Any:
    """A default in JSON; objects that are none become their text."""
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "model_fields") or hasattr(value, "__fields__"):
        return {}
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return {str(key): plain(item) for key, item in value.items()} if isinstance(value, dict) else str(value)


def main() -> None:
    """Reads the seeds, writes the census."""
    import logging
    import os

    logging.disable(logging.CRITICAL)
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    json.dump(Census().run(json.load(sys.stdin)["seeds"]), answer)
    answer.flush()


if __name__ == "__main__":
    main()
